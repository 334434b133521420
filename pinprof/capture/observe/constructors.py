"""Notices where a program makes its DataLoaders and optimizers, and what they are while steps are recorded."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from hashlib import sha256
from multiprocessing import get_all_start_methods, get_start_method
from pathlib import Path
from types import FrameType
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch.optim import Optimizer
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.dataloader import default_collate, default_convert

from pinprof.capture.hooks import replaced
from pinprof.capture.observe.datasets import makers_of
from pinprof.capture.observe.frames import calling_line, is_users
from pinprof.trace.lines import Place, SourceLine
from pinprof.trace.made import DENSE, Made, MadeLoader, MadeOptimizer
from pinprof.units import shortened

MOST = 200
"""So many of a kind are noted: a program that makes more makes them in a loop."""

MOST_LOOPS = 20
"""Places that begin to draw from one DataLoader."""

MOST_PARTS, DEEPEST = 32, 4
"""Parts of a batch that are described, and how deep."""

LONGEST = 200
"""Characters of a name."""


@dataclass
class _Noted:
    """A thing that was made, where, and what was seen of it since."""

    thing: "ReferenceType[Any]"
    line: SourceLine
    direct: bool
    on_gpu: bool = False
    """Whether the parameters of an optimizer were plain ones on GPUs when it was made."""
    loops: list[Place] = field(default_factory=list)
    begun: int = 0
    batch: object = None


class ConstructorLog:
    """What this process made so far."""

    def __init__(self) -> None:
        self.loaders: list[_Noted] = []
        self.optimizers: list[_Noted] = []
        self.more = False
        self.sources: dict[str, str] = {}
        self._described: set[int] = set()

    def made(self, thing: Any, frame: FrameType | None) -> None:
        """Note a DataLoader or an optimizer; `frame` is the caller of its `__init__`."""
        notes = self.loaders if isinstance(thing, DataLoader) else self.optimizers
        if len(notes) >= MOST:
            notes[:] = [note for note in notes if note.thing() is not None]
        if len(notes) >= MOST:
            self.more = True
            return
        frame = _outside(frame, thing)
        line = calling_line(frame)
        if frame is None or line is None:
            self.more = True  # of a library, without a place
            return
        note = _Noted(ref(thing), line, direct=is_users(frame.f_code.co_filename))
        if note.direct and line.file not in self.sources:
            self.sources[line.file] = sha256(Path(frame.f_code.co_filename).read_bytes()).hexdigest()
        if isinstance(thing, Optimizer):
            note.on_gpu = _are_plain_on_gpu(thing)
        notes.append(note)

    def begun(self, loader: Any, frame: FrameType | None) -> None:
        """Note that the program begins to draw from a DataLoader."""
        note = next((note for note in self.loaders if note.thing() is loader), None)
        if note is None:
            return
        note.begun += 1
        line = calling_line(frame) if len(note.loops) < MOST_LOOPS else None
        if line is not None and line.place not in note.loops:
            note.loops.append(line.place)

    def drew(self, iterator: Any, batch: object) -> None:
        """Note what a DataLoader yields, once."""
        key = id(iterator._index_sampler)  # noqa: SLF001  which a DataLoader shares with its iterators
        if key in self._described:
            return
        self._described.add(key)
        for note in self.loaders:
            if note.batch is None and _sampler(note.thing()) == key:
                note.batch = described(batch)

    def described(self, drawn: Mapping[int, int]) -> Made:
        """Return what is there now; `drawn` says how often each sampler was asked in the recorded steps."""
        loaders, optimizers = [], []
        for note in self.loaders:
            with suppress(Exception):  # as above
                loaders += [made for made in [_loader(note, drawn)] if made]
        for note in self.optimizers:
            with suppress(Exception):
                optimizers += [made for made in [_optimizer(note)] if made]
        starts_by = get_start_method(allow_none=True) or get_all_start_methods()[0]  # without setting the default
        cpus = len(os.sched_getaffinity(0))
        return Made(tuple(loaders), tuple(optimizers), cpus, self.sources, self.more, starts_by)


constructors = ConstructorLog()
"""Those of this process: it may make its DataLoaders long before it is known whether it is recorded."""

_depth = 0


@contextmanager
def noting_constructors() -> Iterator[None]:
    """Note what the block makes; within another one it does nothing."""
    global _depth  # noqa: PLW0603  one for the process
    _depth += 1
    with ExitStack() as undo:
        if _depth == 1:
            undo.enter_context(replaced(DataLoader, "__init__", _noting))
            undo.enter_context(replaced(Optimizer, "__init__", _noting))
            undo.enter_context(replaced(DataLoader, "__iter__", _noting_begin))
        try:
            yield
        finally:
            _depth -= 1


def _noting(init: Callable[..., None]) -> Callable[..., None]:
    @wraps(init)
    def noted(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        with suppress(Exception):  # whatever a class of the program's own does, its recording must not fail
            constructors.made(self, sys._getframe(1))  # noqa: SLF001  the caller

    noted._torchdynamo_disable = True  # type: ignore[attr-defined]  # noqa: SLF001  torch.compiler.disable loads it all
    return noted


def _noting_begin(begin: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @wraps(begin)
    def begun(self: Any) -> Any:
        with suppress(Exception):
            constructors.begun(self, sys._getframe(1))  # noqa: SLF001
        return begin(self)

    return begun


def described(batch: object, depth: int = 0) -> object:
    """Return what a batch is, as `MadeLoader.batch` says; only Python's own lists, tuples and dicts are looked into."""
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


def _outside(frame: FrameType | None, thing: object) -> FrameType | None:
    """Return the frame that called the class: the first one that is not an `__init__` of the thing itself."""
    while frame is not None and frame.f_code.co_name == "__init__" and frame.f_code.co_argcount:
        if frame.f_locals.get(frame.f_code.co_varnames[0]) is not thing:
            break
        frame = frame.f_back
    return frame


def _sampler(loader: Any) -> int | None:
    return None if loader is None else id(loader._index_sampler)  # noqa: SLF001


def _loader(note: _Noted, drawn: Mapping[int, int]) -> MadeLoader | None:
    loader = note.thing()
    if loader is None:
        return None
    makers = makers_of(loader.dataset)
    return MadeLoader(
        note.line.file,
        note.line.line,
        note.line.function,
        direct=note.direct,
        kind=_named(loader),
        dataset=_named(loader.dataset),
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
        batch=note.batch,
    )


def _length(loader: Any) -> int | None:
    with suppress(Exception):  # of an iterable data set, or whatever a class of the program's own does
        return len(loader)
    return None


def _optimizer(note: _Noted) -> MadeOptimizer | None:
    optimizer = note.thing()
    if optimizer is None:
        return None
    groups = optimizer.param_groups
    return MadeOptimizer(
        note.line.file,
        note.line.line,
        note.line.function,
        direct=note.direct,
        kind=_named(optimizer),
        fused=_shared(groups, "fused"),
        foreach=_shared(groups, "foreach"),
        differentiable=any(group.get("differentiable") for group in groups),
        momentum=any(group.get("momentum") for group in groups),
        plain_on_gpu=note.on_gpu and _are_plain_on_gpu(optimizer),
    )


def _shared(groups: list[dict[str, Any]], name: str) -> bool | None:
    """Return an option that all groups have alike; False where only some have it."""
    values = {group.get(name) for group in groups}
    return values.pop() if len(values) == 1 else False


def _are_plain_on_gpu(optimizer: Optimizer) -> bool:
    return all(
        type(each) in (torch.Tensor, torch.nn.Parameter)
        and each.device.type == "cuda"
        and each.is_floating_point()
        and each.layout == torch.strided
        for group in optimizer.param_groups
        for each in group["params"]
    )


def _named(thing: object) -> str:
    kind = type(thing)
    return shortened(f"{kind.__module__}.{kind.__qualname__}", LONGEST)
