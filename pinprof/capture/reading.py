"""Tells whether a data set of the program's own only reads what it holds: then any process makes the same samples.

Looks at the compiled code of its `__getitem__` and of the methods that this calls, beside the values that it holds.
Whatever is not on a list here may do anything: it opens, counts, draws random numbers, or needs the GPU.
"""

import dis
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np
import torch

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
"""Beginnings of the names of instructions that write to something, wait, multiply matrices, or run code that is not
looked at."""
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
"""Of these modules, and of what they make: they compute, copy, or read a picture, and keep nothing. Sums and products
of matrices are not here: they round by how many threads compute them, and a worker has one."""
MODULES: Final = ("torch", "numpy", "math", "os", "posixpath", "PIL.Image")
FUNCTIONS: Final = (torch.tensor, torch.from_numpy, torch.Tensor, torch.LongTensor, torch.FloatTensor)
PLAIN: Final = (int, float, complex, bool, str, bytes, type(None), range, slice, torch.dtype, np.dtype)
TABLES: Final = ("DataFrame", "Series")
"""Of pandas."""
MISSING: Final = object()
MOST, DEEPEST = 100_000, 4
"""So many values of a container are looked at, and so deep; methods that call each other so deep."""


def only_reads(dataset: object) -> bool:
    """Return whether what a data set does for a sample is only to read plain data that it holds.

    What it holds that can be called, as a transform, is not looked at here.
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
    held: Any = value
    parts = [*held.keys(), *held.values()] if kind is dict else held
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
    """Yield a function's code, and that of comprehensions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _writes(instruction: dis.Instruction) -> bool:
    """Return whether an instruction is of `WRITING`; `row += 1` may write to the array that a row is of."""
    name = instruction.opname
    operator = instruction.argrepr if name == "BINARY_OP" else ""
    return operator == "@" or operator.endswith("=") or name.startswith(WRITING)


def _is_allowed(instruction: dis.Instruction, function: FunctionType, dataset: object, depth: int) -> bool:
    name = instruction.argval
    if instruction.opname.startswith("LOAD_GLOBAL"):
        return _is_known_global(name, function.__globals__)
    if not instruction.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
        return True
    held = getattr(dataset, "__dict__", {}).get(name, MISSING)
    if held is not MISSING:
        return is_plain(held) or (callable(held) and not isinstance(held, type))
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
