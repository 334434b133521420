"""Reads the names of `python_function` events: file, function, and whether the frame is the user's own code."""

import re
import sys
import sysconfig
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

FRAME_NAME = re.compile(r"(?P<file>.+)\((?P<line>\d{1,9})\): (?P<function>.+)")
"""`train.py(348): train`, as torch/csrc/autograd/profiler_python.cpp composes it."""
MAX_FRAMES_KEPT = 1 << 14  # each analysis looks at the names of all functions of a trace, which has some thousands
LONGEST_FRAME_CHARS = 20_000  # no function has a longer name; Linux ends paths at 4096
MODULE_PREFIX = "nn.Module: "
"""Begins the name of a call of a module; its class and a number for the object follow: `nn.Module: Linear_3`."""
BUILTIN_NAME = re.compile(r"<built-in (?:method|function) (?P<name>\w+)")
"""`<built-in method item of Tensor object at 0x7f…>`, `<built-in function print>`."""
TORCH_BUILTIN = re.compile(
    r"<built-in method (?!__)\w* of (Tensor|Parameter|Buffer|type|torch\.\S+|pybind11_\S+) object"
)
"""A builtin of torch: a tensor's method, an op as `torch.add`, the autograd engine."""
TENSOR_METHOD = re.compile(r"<built-in method (?P<name>\w+) of (?:Tensor|Parameter|Buffer) object")
"""A method of a tensor. Throughout a trace, torch names a method after the object on which it was first called."""
INSTALLED_FILE = re.compile(r"(^|/)(site-packages|dist-packages|python3(\.\d+)?)/|^<")
"""Paths of installed libraries, of the standard library, and names that are not files (`<string>`, `<frozen
runpy>`)."""
UP_TO_PACKAGES = re.compile(r".*(^|/)(site|dist)-packages/")
"""The part of a path up to the innermost folder of installed libraries."""
UP_TO_PYTHON_MODULES = re.compile(r".*(^|/)python3(\.\d+)?/")  # the folder of Python's own modules
TORCH_PACKAGES = frozenset({"torch", "torchgen", "functorch"})
"""First parts of the paths of torch's code, from the folder of installed libraries on."""
GENERATED_FILE = re.compile(r"(^|/)torchinductor_[^/]+/|(^|/)(?P<two>[a-z0-9]{2})/[a-z](?P=two)[a-z0-9]{30,}\.py$")
"""Files that torch.compile writes: in `/tmp/torchinductor_USER`, or where TORCHINDUCTOR_CACHE_DIR says, as
`b7/cb7….py` (torch/_inductor/codecache.py: get_path)."""
OWN_FILES = ("pinprof/capture/", "pinprof/program/", "pinprof/cli/", "pinprof/__main__.py")
"""Frames of pinprof around the program that it records."""

# fmt: off
LIBRARY_MODULES = sys.stdlib_module_names | {
    "accelerate", "apex", "bitsandbytes", "cupy", "datasets", "deepspeed", "detectron2", "diffusers", "einops",
    "fairscale", "fastai", "flash_attn", "huggingface_hub", "ignite", "joblib", "kornia", "lightning",
    "lightning_fabric", "lightning_utilities", "matplotlib", "mmcv", "mmdet", "mmengine", "monai", "numpy", "optuna",
    "pandas", "peft", "PIL", "pytorch_lightning", "ray", "safetensors", "scipy", "sentence_transformers", "sklearn",
    "tensorboard", "tensordict", "tensorflow", "timm", "tokenizers", "torch", "torch_cluster", "torch_geometric",
    "torch_scatter", "torch_sparse", "torchao", "torchaudio", "torchdata", "torchmetrics", "torchrec", "torchtext",
    "torchvision", "tqdm", "transformer_engine", "transformers", "triton", "trl", "wandb", "xformers",
}
# fmt: on
"""First parts of the paths of code that is not the user's. torch shortens file names by the entries of `sys.path`, so
paths of installed libraries and of the user's own packages look alike. Libraries that trainings use are listed here."""


class Frame(NamedTuple):
    """A Python function as a trace names it."""

    file: str
    line: int  # the line at which the function begins, or at which it was when the recording began; not that of a call
    function: str


@lru_cache(maxsize=MAX_FRAMES_KEPT)
def frame(name: str) -> Frame | None:
    """Return the frame of a `python_function` event's name, None for a builtin or a module call."""
    match = FRAME_NAME.fullmatch(name) if len(name) <= LONGEST_FRAME_CHARS else None
    return Frame(match["file"], int(match["line"]), match["function"]) if match else None


def called_name(name: str) -> str | None:
    """Return the bare name of the function or builtin of a `python_function` event, None for a module call."""
    place = frame(name)
    if place:
        return place.function
    builtin = BUILTIN_NAME.match(name)
    return builtin["name"] if builtin else None


def is_builtin(name: str) -> bool:
    """Return whether the name of a `python_function` event is that of a function written in C."""
    return BUILTIN_NAME.match(name) is not None


def is_torch_builtin(name: str) -> bool:
    """Return whether the name of a `python_function` event is that of a function of torch written in C."""
    return TORCH_BUILTIN.match(name) is not None


def tensor_method(name: str) -> str | None:
    """Return the bare name of a tensor's builtin method, None for any other `python_function` event."""
    match = TENSOR_METHOD.match(name)
    return match["name"] if match else None


def is_user_code(name: str) -> bool:
    """Return whether the name of a `python_function` event is that of a function in the user's own code."""
    parsed = frame(name)
    return parsed is not None and is_user_file(parsed.file)


@lru_cache(maxsize=MAX_FRAMES_KEPT)
def is_user_file(file: str) -> bool:
    """Return whether a file, as a trace names it, is the user's own code and not an installed library's."""
    if INSTALLED_FILE.search(file) or file.startswith(OWN_FILES) or is_generated(file):
        return False
    top = file.split("/", maxsplit=1)[0].removesuffix(".py")
    return top not in LIBRARY_MODULES and not ("/" in file and _is_installed(top))


def origin_of(file: str) -> Literal["user", "torch", "library"]:
    """Return whose code a file is; `file` is the name in a trace."""
    if package_file(file).split("/", maxsplit=1)[0] in TORCH_PACKAGES:
        return "torch"
    return "user" if is_user_file(file) else "library"


def is_generated(file: str) -> bool:
    """Return whether torch.compile wrote a file."""
    return GENERATED_FILE.search(file.replace("\\", "/")) is not None


def is_outside_torch(file: str) -> bool:
    """Return whether a file is the user's own or a library's: not torch's, nor Python's, nor pinprof's."""
    inside = package_file(file)
    top = inside.split("/", maxsplit=1)[0].removesuffix(".py")
    if file.startswith("<") or inside.startswith(OWN_FILES) or top in TORCH_PACKAGES or is_generated(file):
        return False
    return inside != file or is_user_file(file) or not (INSTALLED_FILE.search(file) or top in sys.stdlib_module_names)


def package_file(file: str) -> str:
    """Return the path of a library's file from its folder of libraries on, equal on all machines; others unchanged."""
    return UP_TO_PACKAGES.sub("", file.replace("\\", "/"), count=1) if "-packages" in file else file


def package_of(file: str) -> str:
    """Return the package, or the module of the standard library, of a library's file: `transformers`, `json`."""
    inside = UP_TO_PYTHON_MODULES.sub("", package_file(file), count=1)
    return inside.split("/", maxsplit=1)[0].removesuffix(".py")


@cache
def _is_installed(package: str) -> bool:
    """Return whether a package of this name is installed next to pinprof: most traces are read where they were made."""
    if not package.isidentifier():
        return False
    try:
        return any(Path(sysconfig.get_path(kind), package).is_dir() for kind in ("purelib", "platlib"))
    except OSError:  # longer than a name can be
        return False
