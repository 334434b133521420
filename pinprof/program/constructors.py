"""Notes where a program makes its DataLoaders and optimizers, and describes them when steps are recorded."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial, wraps
from hashlib import sha256
from multiprocessing import get_all_start_methods, get_start_method
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar
from weakref import ReferenceType, ref

import torch
from torch.optim import Optimizer
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.dataloader import default_collate, default_convert

from pinprof.program.datasets import makers_of
from pinprof.program.frames import calling_line, is_users
from pinprof.program.hooks import replaced
from pinprof.trace.constructors import DENSE, Made, MadeLoader, MadeOptimizer
from pinprof.trace.lines import Place, SourceLine
from pinprof.units import shortened

Described = TypeVar("Described", MadeLoader, MadeOptimizer)

MOST = 200
"""The most DataLoaders, and optimizers, that are noted: a program with more makes them in a loop."""

MOST_LOOPS = 20
"""The most places that begin to draw from one DataLoader."""

MOST_PARTS, DEEPEST = 32, 4
"""The most parts of a batch that are described, and their depth."""

LONGEST = 200
"""Characters of a name that are kept."""


@dataclass
class _Construction:
    """A DataLoader or an optimizer, where the program made it, and its use since."""

    thing: "ReferenceType[Any]"
    line: SourceLine
    direct: bool
    on_gpu: bool = False
    """Whether the parameters of an optimizer were plain ones on GPUs when it was made."""
    loops: list[Place] = field(default_factory=list)
    begun: int = 0
    batch: object = None


class ConstructorLog:
    """The DataLoaders and optimizers that this process has made so far."""

    def __init__(self) -> None:
        self.loaders: list[_Construction] = []
        self.optimizers: list[_Construction] = []
        self.more = False
        self.sources: dict[str, str] = {}
        self._described: set[int] = set()

    def constructed(self, thing: Any, caller: FrameType) -> None:
        """Note a new DataLoader or optimizer; `caller` is the frame that called its `__init__`."""
        notes = self.loaders if isinstance(thing, DataLoader) else self.optimizers
        if len(notes) >= MOST:
            notes[:] = [note for note in notes if note.thing() is not None]
        frame = _outside(caller, thing)
        line = calling_line(frame)
        if len(notes) >= MOST or frame is None or line is None:  # without a line, a library made it
            self.more = True
            return
        note = _Construction(ref(thing), line, direct=is_users(frame.f_code.co_filename))
        if note.direct and line.file not in self.sources:
            self.sources[line.file] = sha256(Path(frame.f_code.co_filename).read_bytes()).hexdigest()
        if isinstance(thing, Optimizer):
            note.on_gpu = _are_plain_on_gpu(thing)
        notes.append(note)

    def began(self, loader: Any, caller: FrameType) -> None:
        """Note that the program begins to draw from a DataLoader."""
        note = next((note for note in self.loaders if note.thing() is loader), None)
        if note is None:
            return
        note.begun += 1
        line = calling_line(caller) if len(note.loops) < MOST_LOOPS else None
        if line is not None and line.place not in note.loops:
            note.loops.append(line.place)

    def drew(self, iterator: Any, batch: object) -> None:
        """Describe the first batch of a DataLoader."""
        key = id(iterator._index_sampler)  # noqa: SLF001  a DataLoader shares it with its iterators
        if key in self._described:
            return
        self._described.add(key)
        for note in self.loaders:
            if note.batch is None and _sampler(note.thing()) == key:
                note.batch = described(batch)

    def described(self, drawn: Mapping[int, int]) -> Made:
        """Return a description of what still exists; `drawn` has the draws of each sampler in the recorded steps."""
        starts_by = get_start_method(allow_none=True) or get_all_start_methods()[0]  # without setting the default
        return Made(
            _described(self.loaders, partial(_loader, drawn)),
            _described(self.optimizers, _optimizer),
            len(os.sched_getaffinity(0)),
            self.sources,
            self.more,
            starts_by,
        )


def _described(
    notes: Sequence[_Construction], describe: Callable[[Any, _Construction], Described]
) -> tuple[Described, ...]:
    """Return the descriptions of those that still exist; a class of the program's own may fail to be described."""
    described: list[Described] = []
    for note in notes:
        thing = note.thing()
        if thing is not None:
            with suppress(Exception):
                described.append(describe(thing, note))
    return tuple(described)


constructors = ConstructorLog()
"""The log of this process, which may make its DataLoaders long before it is known whether it is recorded."""

_depth = 0


@contextmanager
def noting_constructors() -> Iterator[None]:
    """Note the DataLoaders and optimizers that the block makes; blocks may be nested."""
    global _depth  # noqa: PLW0603  one for the process
    _depth += 1
    with ExitStack() as undo:
        if _depth == 1:
            for kind, name, note in (
                (DataLoader, "__init__", constructors.constructed),
                (Optimizer, "__init__", constructors.constructed),
                (DataLoader, "__iter__", constructors.began),
            ):
                undo.enter_context(replaced(kind, name, partial(_noting, note)))
        try:
            yield
        finally:
            _depth -= 1


def _noting(note: Callable[[Any, FrameType], None], method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method, changed so that after each call it passes the object and its caller to `note`."""

    @wraps(method)
    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        with suppress(Exception):  # a class of the program's own may do anything; the recording must not fail
            note(self, sys._getframe(1))  # noqa: SLF001  the caller
        return result

    noted._torchdynamo_disable = True  # type: ignore[attr-defined]  # noqa: SLF001  torch.compiler.disable loads it all
    return noted


def described(batch: object, depth: int = 0) -> object:
    """Return the description of a batch as in `MadeLoader.batch`; it looks only into Python's lists, tuples, dicts."""
    kind = type(batch)
    if isinstance(batch, torch.Tensor):
        dense = kind is torch.Tensor and batch.device.type == "cpu" and batch.layout == torch.strided
        return DENSE if dense else f"{batch.device.type} {shortened(kind.__name__, LONGEST)}"
    if depth < DEEPEST and isinstance(batch, list | tuple | dict) and len(batch) <= MOST_PARTS:
        if kind is list:
            return [described(part, depth + 1) for part in batch]
        if kind is tuple:
            return {"tuple": [described(part, depth + 1) for part in batch]}
        if isinstance(batch, dict) and kind is dict and all(type(key) is str for key in batch):
            return {"dict": {shortened(key, LONGEST): described(part, depth + 1) for key, part in batch.items()}}
    return shortened(kind.__name__, LONGEST)


def _outside(caller: FrameType, thing: object) -> FrameType | None:
    """Return the frame that called the class: the first one that is not an `__init__` of the thing itself."""
    frame: FrameType | None = caller
    while frame is not None and frame.f_code.co_name == "__init__" and frame.f_code.co_argcount:
        if frame.f_locals.get(frame.f_code.co_varnames[0]) is not thing:
            break
        frame = frame.f_back
    return frame


def _sampler(loader: Any) -> int | None:
    return None if loader is None else id(loader._index_sampler)  # noqa: SLF001


def _loader(drawn: Mapping[int, int], loader: Any, note: _Construction) -> MadeLoader:
    makers = makers_of(loader.dataset)
    return MadeLoader(
        note.line.file,
        note.line.line,
        note.line.function,
        direct=note.direct,
        kind=_type_name(loader),
        dataset=_type_name(loader.dataset),
        iterable=isinstance(loader.dataset, IterableDataset),
        num_workers=int(loader.num_workers),
        pin_memory=bool(loader.pin_memory),
        persistent_workers=bool(loader.persistent_workers),
        batch_size=int(loader.batch_size) if loader.batch_size is not None else None,
        own_collate=loader.collate_fn not in (default_collate, default_convert),
        drawn=drawn.get(_sampler(loader) or 0, 0),
        loops=tuple(note.loops),
        foreign=makers.foreign,
        fixed=makers.fixed,
        length=_length(loader),
        begun=note.begun,
        prefetch_factor=loader.prefetch_factor,
        batch=note.batch,
    )


def _length(loader: Any) -> int | None:
    with suppress(Exception):  # of an iterable data set, or whatever a class of the program's own does
        return len(loader)
    return None


def _optimizer(optimizer: Any, note: _Construction) -> MadeOptimizer:
    groups = optimizer.param_groups
    return MadeOptimizer(
        note.line.file,
        note.line.line,
        note.line.function,
        direct=note.direct,
        kind=_type_name(optimizer),
        fused=_shared(groups, "fused"),
        foreach=_shared(groups, "foreach"),
        differentiable=any(group.get("differentiable") for group in groups),
        momentum=any(group.get("momentum") for group in groups),
        plain_on_gpu=note.on_gpu and _are_plain_on_gpu(optimizer),
    )


def _shared(groups: list[dict[str, Any]], name: str) -> bool | None:
    """Return the value of an option if all groups have the same, otherwise False."""
    values = {group.get(name) for group in groups}
    return values.pop() if len(values) == 1 else False


def _are_plain_on_gpu(optimizer: Optimizer) -> bool:
    return all(
        type(parameter) in (torch.Tensor, torch.nn.Parameter)
        and parameter.device.type == "cuda"
        and parameter.is_floating_point()
        and parameter.layout == torch.strided
        for group in optimizer.param_groups
        for parameter in group["params"]
    )


def _type_name(thing: object) -> str:
    kind = type(thing)
    return shortened(f"{kind.__module__}.{kind.__qualname__}", LONGEST)
