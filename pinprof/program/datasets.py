"""Decides whether several processes can make the samples of a data set, and whether these are always the same.

It looks at the compiled code of `__getitem__` and of the methods that this calls, and at the values that the data set
holds. Code that is not on a list here may do anything: open, count, draw random numbers, or need the GPU.
"""

import dis
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset

from pinprof.units import shortened

WRITING: Final = (
    "STORE_ATTR",
    "STORE_GLOBAL",
    "STORE_SUBSCR",
    "STORE_SLICE",
    "STORE_NAME",
    "DELETE_",
    "IMPORT_",
    "YIELD_",
    "SEND",
    "INPLACE_",
    "BINARY_MATRIX_MULTIPLY",
    "GET_AWAITABLE",
    "LOAD_NAME",
    "LOAD_BUILD_CLASS",
    "LOAD_SUPER_ATTR",
    "SETUP_WITH",
    "BEFORE_WITH",
    "LOAD_SPECIAL",
)
"""How the names of instructions begin that write to something, wait, multiply matrices, or run unknown code."""

BUILTINS: Final = frozenset().union(
    ("abs", "bool", "dict", "enumerate", "float", "int", "isinstance", "len", "list", "max", "min", "range"),
    ("reversed", "round", "slice", "sorted", "str", "sum", "tuple", "zip", "IndexError", "ValueError"),
)

ATTRIBUTES: Final = frozenset().union(
    ("FloatTensor", "IntTensor", "LongTensor", "Tensor", "array", "as_tensor", "asarray", "astype", "bool", "cat"),
    ("clamp", "clip", "concatenate", "contiguous", "convert", "copy", "double", "dtype", "expand_dims", "eye"),
    ("flatten", "float", "float32", "float64", "from_numpy", "full", "get", "iloc", "int", "int32", "int64", "item"),
    ("items", "join", "keys", "loc", "log", "long", "max", "min", "ndim", "numpy", "ones", "ones_like", "open"),
    ("pad", "path", "permute", "repeat", "reshape", "shape", "size", "split", "sqrt", "squeeze", "stack"),
    ("swapaxes", "tensor", "to_numpy", "tolist", "transpose", "uint8", "unsqueeze", "values", "view", "zeros"),
    ("zeros_like",),
)
"""Attributes of `MODULES` and of their objects that compute, copy, or read a picture, and keep nothing. Sums and
products of matrices are not here: their rounding depends on the number of threads, and a worker has one."""

MODULES: Final = ("torch", "numpy", "math", "os", "posixpath", "PIL.Image")

FUNCTIONS: Final = (torch.tensor, torch.from_numpy, torch.Tensor, torch.LongTensor, torch.FloatTensor)

PLAIN: Final = (int, float, complex, bool, str, bytes, type(None), range, slice, torch.dtype, np.dtype)

TABLES: Final = ("DataFrame", "Series")
"""Classes of pandas that hold plain data."""

MISSING: Final = object()

MOST, DEEPEST = 100_000, 4
"""The most values of a container, and the deepest nesting of containers, or of methods, that are looked at."""


def only_reads(dataset: object) -> bool:
    """Return whether a data set makes a sample only by reading plain data that it holds.

    Callables that it holds, such as transforms, are not looked at here.
    """
    if is_plain(dataset):
        return True
    kind = type(dataset)
    if hasattr(kind, "__getitems__") or hasattr(kind, "__getattr__") or "<locals>" in kind.__qualname__:
        return False
    method = getattr(kind, "__getitem__", None)
    return isinstance(method, FunctionType) and _reads(method, dataset, 0)


def is_plain(value: object, depth: int = 0) -> bool:
    """Return whether a value is plain data in host memory: numbers, texts, tensors, arrays, and containers of these."""
    kind = type(value)
    if isinstance(value, PLAIN):
        return True
    if isinstance(value, torch.Tensor):
        return kind is torch.Tensor and value.device.type == "cpu"
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype != object
    if kind.__module__.startswith("pandas.") and kind.__name__ in TABLES:
        return True
    if kind not in (list, tuple, dict, set, frozenset) or depth == DEEPEST:
        return False
    container: Any = value
    parts = [*container.keys(), *container.values()] if kind is dict else container
    return len(parts) <= MOST and all(is_plain(part, depth + 1) for part in parts)


def _reads(function: FunctionType, dataset: object, depth: int) -> bool:
    """Return whether a method only reads."""
    if depth == DEEPEST or function.__code__.co_freevars:
        return False
    return all(
        not _writes(instruction) and _is_allowed(instruction, function, dataset, depth)
        for code in _codes(function.__code__)
        for instruction in dis.get_instructions(code)
    )


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of the comprehensions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _writes(instruction: dis.Instruction) -> bool:
    """Return whether an instruction is one of `WRITING`; `row += 1` may write to the array of the row."""
    name = instruction.opname
    operator = instruction.argrepr if name == "BINARY_OP" else ""
    return operator == "@" or operator.endswith("=") or name.startswith(WRITING)


def _is_allowed(instruction: dis.Instruction, function: FunctionType, dataset: object, depth: int) -> bool:
    name = instruction.argval
    if instruction.opname.startswith("LOAD_GLOBAL"):
        return _is_known_global(name, function.__globals__)
    if not instruction.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
        return True
    attribute = getattr(dataset, "__dict__", {}).get(name, MISSING)
    if attribute is not MISSING:
        return is_plain(attribute) or (callable(attribute) and not isinstance(attribute, type))
    own = getattr(type(dataset), name, MISSING)
    own = own.fget if isinstance(own, property) else own
    if isinstance(own, FunctionType):
        return _reads(own, dataset, depth + 1)
    return name in ATTRIBUTES or is_plain(own)


def _is_known_global(name: str, names: dict[str, Any]) -> bool:
    if name not in names:
        return name in BUILTINS
    value = names[name]
    if isinstance(value, ModuleType):
        return any(value is sys.modules.get(module) for module in MODULES)
    return any(value is function for function in FUNCTIONS) or is_plain(value)


KNOWN: Final = ("torch.utils.data.dataset", "torchvision.datasets.", "torchvision.transforms.")
"""Modules whose data sets and transforms read files or memory by a given index, and keep nothing."""

NOT_KNOWN: Final = ("torchvision.datasets.lsun.",)
"""A data set that opens a database when it is made; forked processes must not share that."""

SEEDING: Final = "torchvision.datasets.fakedata."
"""A data set that, for each sample, seeds the random generators of the main process, those of all GPUs too."""

TRANSFORMS: Final = "torchvision.transforms."

FIXED: Final = frozenset(
    [
        "Compose",
        "ToTensor",
        "PILToTensor",
        "ToPILImage",
        "ToImage",
        "ToDtype",
        "ToPureTensor",
        "ConvertImageDtype",
        "ConvertBoundingBoxFormat",
        "Normalize",
        "Resize",
        "CenterCrop",
        "Pad",
        "Grayscale",
        "RGB",
        "FiveCrop",
        "TenCrop",
        "LinearTransformation",
    ]
)
"""Transforms that draw no random numbers."""

MOST_PARTS, DEEPEST_PARTS = 200, 6
"""The most parts that are looked at, and their depth."""

LONGEST: Final = 100
"""Characters of a name that are kept."""


class Makers(NamedTuple):
    """The code that makes the samples of a data set."""

    foreign: tuple[str, ...]
    """The names of classes and functions that are not in `KNOWN` and do more than read: mostly the program's own."""
    fixed: bool
    """Whether the sample of an index is always the same, and no random number is drawn for it."""


def makers_of(dataset: object) -> Makers:
    """Return the code that makes the samples of a data set.

    It looks into data sets within data sets, and into their transforms, but not into unknown code.
    """
    foreign: dict[str, None] = {}
    looked: set[int] = set()
    fixed = True
    level: list[object] = [dataset]
    for _ in range(DEEPEST_PARTS):
        level = [part for part in level if id(part) not in looked]
        looked.update(map(id, level))
        if len(looked) > MOST_PARTS:
            break
        parts: list[object] = []
        for part in level:
            name = _name(part)
            if _is_known(part, name):
                fixed &= _is_fixed(name)
                parts += _data_sets(part)
            else:
                foreign[name] = None
        level = parts
    if level:
        foreign["more"] = None
    return Makers(tuple(foreign), fixed and not foreign)


def _is_known(part: object, name: str) -> bool:
    """Return whether a part works in several processes: one of `KNOWN`, or a data set that only reads."""
    if name.startswith(KNOWN):
        return not name.startswith(NOT_KNOWN)
    return not callable(part) and only_reads(part)


def _is_fixed(name: str) -> bool:
    return not name.startswith((SEEDING, TRANSFORMS)) or name.rsplit(".", 1)[-1] in FIXED


def _data_sets(thing: object) -> Iterator[object]:
    """Yield the data sets and callables that an object holds, itself or in lists."""
    values: Iterable[Any] = vars(thing).values() if hasattr(thing, "__dict__") else ()
    for value in values:
        for part in value[: MOST_PARTS + 1] if isinstance(value, list | tuple) else (value,):
            if isinstance(part, Dataset) or (callable(part) and not isinstance(part, type)):
                yield part


def _name(part: object) -> str:
    """Return the name of a function, or of an object's class, with its module."""
    kind = part if hasattr(part, "__qualname__") else type(part)
    module = getattr(kind, "__module__", None) or type(part).__module__  # methods of built-in types have none
    return shortened(f"{module}.{kind.__qualname__}", LONGEST)
