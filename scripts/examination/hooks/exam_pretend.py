"""Lets a program run on a CPU as if it had a GPU, and notes what a recording on a GPU would show of its lines.

A tensor is marked where the program would have it on the GPU: it was copied there, made there, or computed of such.
What a line does with it is noted: copies from the host, reads by the host, decisions, waits, and emptied caches. So are
the DataLoaders and optimizers that are made. No times are noted: there are none.
"""

import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import wraps
from types import FrameType
from typing import Any

import numpy as np
import torch
from exam_hooks import call_at_ends, end_program, write_noted
from pinprof.program.constructors import constructors, noting_constructors
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.overrides import TorchFunctionMode
from torch.utils.data.dataloader import _BaseDataLoaderIter

TOP = os.environ.get("EXAM_TOP", "")
READS = {
    **dict.fromkeys(("item", "__float__", "__int__", "__index__"), "PIN201"),
    **dict.fromkeys(("__bool__", "__contains__"), "PIN202"),
    **dict.fromkeys(("cpu", "tolist", "numpy", "__array__"), "PIN203"),
    **dict.fromkeys(("__repr__", "__format__"), "PIN204"),
}
MAKERS = {"tensor", "as_tensor"}
VIEWS = {"view", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute", "detach", "t", "__getitem__"}
GPU = torch.device("cuda", 0)

Site = tuple[str, str, int, str]


def user_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the program's own code."""
    while frame is not None and not frame.f_code.co_filename.startswith(TOP):
        frame = frame.f_back
    return frame


def is_called_by_program(depth: int = 2) -> bool:
    """Return whether the caller is the program's own code."""
    return sys._getframe(depth).f_code.co_filename.startswith(TOP)  # noqa: SLF001


def is_marked(value: object) -> bool:
    """Return whether the program would have a tensor on the GPU."""
    return isinstance(value, torch.Tensor) and "exam_on_gpu" in vars(value)


def mark(value: object, how: str = "exam_on_gpu") -> None:
    """Mark a tensor, or those in a list or a dictionary."""
    if isinstance(value, torch.Tensor):
        value.__dict__[how] = True
    elif isinstance(value, list | tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            mark(part, how)


def pin(value: object) -> None:
    """Mark the tensors of a batch as pinned."""
    mark(value, "exam_pinned")


def parts(values: Any) -> Iterator[object]:
    """Yield arguments, and what is in lists of them."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from value
        else:
            yield value


class Pretended(TorchFunctionMode):
    """Marks tensors, and notes what the program's lines do with them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[Site] = Counter()
        self.steps = 0

    def note(self, kind: str) -> None:
        """Note what the program's innermost line does."""
        frame = user_frame(sys._getframe(1))  # noqa: SLF001
        if frame is not None:
            code = frame.f_code
            self.seen[kind, code.co_filename, frame.f_lineno, code.co_name] += 1

    def __torch_function__(self, function: Callable[..., Any], _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        owner = getattr(getattr(function, "__self__", None), "__name__", "")
        first = args[0] if args else None
        if name == "__get__" and owner in {"device", "is_cuda"} and is_marked(first) and is_called_by_program():
            return GPU if owner == "device" else True
        if function is torch.device:
            return GPU if isinstance(first, int) else function(*args, **(kwargs or {}))
        args, kwargs, asked = to_cpu(args, kwargs or {})
        if name == "pin_memory":
            pin(first)
            return first
        if name in {"cuda", "to", "type"} and isinstance(first, torch.Tensor) and not is_marked(first):
            if name == "cuda" or asked:
                return self._copied(function, name, first, args, kwargs)
        elif name == "cuda":
            return first
        if is_marked(first) and name in READS:
            self.note(READS[name])
        if name in MAKERS and asked and not is_marked(first):
            self.note("PIN209")
        result = function(*args, **kwargs)
        self._mark_result(name, result, (args, kwargs), asked=asked)
        return result

    def _mark_result(self, name: str, result: Any, given: Any, *, asked: bool) -> None:
        """Mark what was made on the GPU, or of what is there; views of pinned memory are pinned."""
        args, kwargs = given
        first = args[0] if args else None
        goes_back = name in {"cpu", "numpy"} or (name == "to" and not asked and "cpu" in map(str, args[1:]))
        if (asked or any(map(is_marked, parts([*args, *kwargs.values()])))) and not goes_back:
            mark(result)
        elif name in VIEWS and isinstance(first, torch.Tensor) and "exam_pinned" in vars(first):
            pin(result)

    def _copied(self, function: Callable[..., Any], name: str, first: torch.Tensor, args: Any, kwargs: Any) -> Any:
        pinned = "exam_pinned" in vars(first)
        waits = not kwargs.get("non_blocking", False)
        self.note("copy pinned" if pinned else "copy")
        if pinned and waits:
            self.note("PIN102")
        elif not pinned:
            self.note("PIN104")
        result = first.clone() if name == "cuda" else function(*args, **kwargs)
        result = result.clone() if result is first else result
        mark(result)
        return result

    def write(self) -> None:
        """Write what was noted, if there were steps."""
        if self.steps:
            made = asdict(constructors.described(drawn))
            sites = [[*site, count] for site, count in self.seen.items()]
            write_noted({"steps": self.steps, "made": made, "sites": sites, "numbers": numbers})

    def end_step(self) -> None:
        """Count a step; the last one ends the program."""
        self.steps += 1
        if self.steps >= int(os.environ["EXAM_STEPS"]):
            self.write()
            end_program()


def to_cpu(args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """Return arguments with the CPU in the place of a GPU, and whether one was asked for."""
    asked = False

    def there(value: Any) -> Any:
        nonlocal asked
        is_gpu = (isinstance(value, torch.device) and value.type == "cuda") or (
            isinstance(value, str) and value.startswith("cuda")
        )
        is_gpu_type = callable(value) and value in ON_CPU
        asked = asked or is_gpu or is_gpu_type
        if is_gpu_type:
            return ON_CPU[value]
        return torch.device("cpu") if is_gpu else value

    return tuple(map(there, args)), {key: there(value) for key, value in kwargs.items()}, asked


def on_gpu(kind: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return what stands for `torch.cuda.FloatTensor`, or for another type: it makes marked tensors."""

    def make(*args: Any) -> torch.Tensor:
        if args and not isinstance(args[0], int):
            pretended.note("copy")
        tensor = kind(*args)
        mark(tensor)
        return tensor

    return make


pretended = Pretended()
ON_CPU = {on_gpu(kind): kind for kind in (torch.FloatTensor, torch.LongTensor)}
"""What stands for the types of tensors on the GPU, with the types on the CPU."""
drawn: Counter[int] = Counter()


numbers: list[list[float]] = []
"""After each step of an optimizer: the sum of the parameters, and that of their magnitudes."""


def _note_numbers(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    with torch._C.DisableTorchFunction():  # noqa: SLF001  nothing of it is the program's
        values = [weight.detach().double() for group in optimizer.param_groups for weight in group["params"]]
        numbers.append([float(sum(map(torch.sum, values))), float(sum(value.abs().sum() for value in values))])


class Moment:
    """Stands for a `torch.cuda.Event`."""

    def __init__(self, **_: Any) -> None:
        pass

    def record(self, *_: Any) -> None:
        """Do nothing."""

    def synchronize(self) -> None:
        """Do nothing."""

    def elapsed_time(self, _: Any) -> float:
        """Return a time."""
        return 1.0


def _asked_by_program(given: Any, else_: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(else_)
    def answer(*args: Any, **kwargs: Any) -> Any:
        return given if is_called_by_program() else else_(*args, **kwargs)

    return answer


def _noted(kind: str) -> Callable[..., None]:
    def called(*_: Any, **__: Any) -> None:
        pretended.note(kind)

    return called


def _moving(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return `Module.to` or `Module.cuda`, which marks parameters and buffers."""

    @wraps(method)
    def moved(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        _, _, asked = to_cpu(args, kwargs)
        if asked or method.__name__ == "cuda":
            for tensor in (*self.parameters(), *self.buffers()):
                mark(tensor)
        if method.__name__ == "cuda":
            return self
        args, kwargs, _ = to_cpu(args, kwargs)
        return method(self, *args, **kwargs)

    return moved


def _drawing(following: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def drew(iterator: Any) -> Any:
        batch = following(iterator)
        drawn[id(iterator._index_sampler)] += 1  # noqa: SLF001
        constructors.drew(iterator, batch)
        if PINNING.get(id(iterator._index_sampler)):  # noqa: SLF001
            pin(batch)
        return batch

    return drew


PINNING: dict[int, bool] = {}
NOTICING = noting_constructors()


def _beginning(begin: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @wraps(begin)
    def begun(self: Any) -> Any:
        PINNING[id(self._index_sampler)] = bool(self.pin_memory)
        return begin(self)

    return begun


def install() -> None:
    """Put the hooks on."""
    cuda: Any = torch.cuda
    cuda.is_available = _asked_by_program(given=True, else_=torch.cuda.is_available)
    cuda.is_bf16_supported = _asked_by_program(given=True, else_=torch.cuda.is_bf16_supported)
    cuda.synchronize, cuda.empty_cache = _noted("PIN210"), _noted("PIN303")
    cuda.Event = Moment
    cuda.FloatTensor, cuda.LongTensor = ON_CPU
    cuda.set_device = lambda *_: None
    cuda.get_device_name = lambda *_: "a pretended GPU"
    cuda.memory_summary = str
    torch.accelerator.is_available = _asked_by_program(given=True, else_=torch.accelerator.is_available)
    torch.accelerator.current_accelerator = _asked_by_program(GPU, torch.accelerator.current_accelerator)
    module: Any = torch.nn.Module
    module.to, module.cuda = _moving(torch.nn.Module.to), _moving(torch.nn.Module.cuda)
    iterator: Any = _BaseDataLoaderIter
    iterator.__next__ = _drawing(_BaseDataLoaderIter.__next__)
    loader: Any = torch.utils.data.DataLoader
    loader.__iter__ = _beginning(torch.utils.data.DataLoader.__iter__)
    register_optimizer_step_post_hook(_note_numbers)
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  the one that programs draw from
    NOTICING.__enter__()
    pretended.__enter__()  # type: ignore[no-untyped-call]
    call_at_ends(pretended.end_step)
