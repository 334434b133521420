"""Notes the DataLoaders of a program, and describes them when steps are recorded."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import wraps
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from pinprof.program.frames import is_users, shown_file
from pinprof.program.hooks import replaced
from pinprof.trace.info import Made, MadeLoader

MOST = 200
"""The most DataLoaders, and files, that are noted: a program with more makes them in a loop."""

MOST_PARTS, DEEPEST = 32, 4
"""The most parts of a batch that are looked at, and their depth."""


class LoaderLog:
    """The DataLoaders that this process has made so far, and the program's files that made them or optimizers."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self._loaders: list[ReferenceType[Any]] = []
        self._yields_tensors: dict[int, bool] = {}
        """By the identity of the sampler, which a DataLoader shares with its iterators."""

    def constructed(self, thing: Any, caller: FrameType) -> None:
        """Note a new DataLoader or optimizer; `caller` is the frame that called its `__init__`."""
        if isinstance(thing, DataLoader):
            if len(self._loaders) >= MOST:
                self._loaders[:] = [loader for loader in self._loaders if loader() is not None]
            if len(self._loaders) < MOST:
                self._loaders.append(ref(thing))
        frame = _outside(caller, thing)
        path = frame.f_code.co_filename if frame is not None else ""
        if path and is_users(path) and (file := shown_file(path)) not in self.sources and len(self.sources) < MOST:
            self.sources[file] = sha256(Path(path).read_bytes()).hexdigest()

    def drew(self, iterator: Any, batch: object) -> None:
        """Look at the first batch of a DataLoader."""
        key = id(iterator._index_sampler)  # noqa: SLF001
        if key not in self._yields_tensors:
            self._yields_tensors[key] = has_tensor(batch)

    def described(self, drawn: Mapping[int, int]) -> Made:
        """Return a description of what still exists; `drawn` has the draws of each sampler in the recorded steps."""
        loaders: list[MadeLoader] = []
        for loader in (reference() for reference in self._loaders):
            if loader is not None:
                with suppress(Exception):  # a class of the program's own may do anything
                    loaders.append(self._described(loader, drawn))
        return Made(tuple(loaders), len(os.sched_getaffinity(0)), self.sources)

    def _described(self, loader: Any, drawn: Mapping[int, int]) -> MadeLoader:
        sampler = id(loader._index_sampler)  # noqa: SLF001
        return MadeLoader(
            num_workers=int(loader.num_workers),
            persistent_workers=bool(loader.persistent_workers),
            drawn=drawn.get(sampler, 0),
            prefetch_factor=loader.prefetch_factor,
            yields_tensors=self._yields_tensors.get(sampler, False),
        )


loader_log = LoaderLog()
"""The log of this process, which may make its DataLoaders long before it is known whether it is recorded."""

_depth = 0


@contextmanager
def noting_loaders() -> Iterator[None]:
    """Note the DataLoaders that the block makes; blocks may be nested."""
    global _depth  # noqa: PLW0603  one for the process
    _depth += 1
    with ExitStack() as undo:
        if _depth == 1:
            for kind in (DataLoader, Optimizer):
                undo.enter_context(replaced(kind, "__init__", _noting))
        try:
            yield
        finally:
            _depth -= 1


def _noting(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return an `__init__`, changed so that the log gets the new object and the caller after each call."""

    @wraps(method)
    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        with suppress(Exception):  # a class of the program's own may do anything; the recording must not fail
            loader_log.constructed(self, sys._getframe(1))  # noqa: SLF001  the caller
        return result

    noted._torchdynamo_disable = True  # type: ignore[attr-defined]  # noqa: SLF001  torch.compiler.disable loads it all
    return noted


def has_tensor(batch: Any, depth: int = 0) -> bool:
    """Return whether a batch has a dense tensor in host memory; it looks only into Python's lists, tuples, dicts."""
    kind = type(batch)
    if isinstance(batch, torch.Tensor):
        return kind is torch.Tensor and batch.device.type == "cpu" and batch.layout == torch.strided
    if kind not in (list, tuple, dict) or depth == DEEPEST or len(batch) > MOST_PARTS:
        return False
    return any(has_tensor(part, depth + 1) for part in (batch.values() if kind is dict else batch))


def _outside(caller: FrameType, thing: object) -> FrameType | None:
    """Return the frame that called the class: the first one that is not an `__init__` of the thing itself."""
    frame: FrameType | None = caller
    while frame is not None and frame.f_code.co_name == "__init__" and frame.f_code.co_argcount:
        if frame.f_locals.get(frame.f_code.co_varnames[0]) is not thing:
            break
        frame = frame.f_back
    return frame
