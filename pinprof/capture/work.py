"""Notices what a program does beside its usual steps: it evaluates, saves, begins an epoch, or compiles."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from pinprof.capture.faults import contained
from pinprof.capture.frames import calling_line
from pinprof.capture.journal import Journal
from pinprof.capture.made import makings, noticing_made
from pinprof.capture.replaced import replaced
from pinprof.trace.lines import Place
from pinprof.trace.run import CHECKPOINT, EPOCH, EVALUATION


@contextmanager
def noticing_work(journal: Journal) -> Iterator[None]:
    """Note in the journal the irregular work that the block does, and its time in DataLoaders; and what it makes."""
    with ExitStack() as undo:
        undo.enter_context(noticing_made())
        undo.enter_context(replaced(_BaseDataLoaderIter, "__next__", _drawing(journal)))
        undo.enter_context(replaced(DataLoader, "__iter__", _timed(_noting(journal, EPOCH))))
        undo.enter_context(replaced(torch, "save", _timed(_noting(journal, CHECKPOINT))))
        undo.enter_context(replaced(torch.nn.Module, "eval", _timed(_noting(journal, EVALUATION, timed=False))))
        yield


def _drawing(journal: Journal) -> Callable[[Any], Any]:
    @contained
    def note(iterator: Any, start_ns: int) -> None:
        journal.waited_for_input(time.perf_counter_ns() - start_ns)
        journal.supply.drew(iterator)

    end, describe = contained(journal.supply.end), contained(makings.drew)

    def change(draw: Any) -> Any:
        @wraps(draw)
        def drawn(iterator: Any) -> Any:
            start = time.perf_counter_ns()
            try:
                batch = draw(iterator)
            except StopIteration:
                end(iterator)
                raise
            finally:
                note(iterator, start)
            describe(iterator, batch)
            return batch

        return drawn

    return change


def _timed(note: Callable[[int], None]) -> Callable[[Any], Any]:
    """Return a change of a function: after each call, also a failed one, it tells how many ns the call took."""

    def change(function: Any) -> Any:
        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter_ns()
            try:
                return function(*args, **kwargs)
            finally:
                note(time.perf_counter_ns() - start)

        return timed

    return change


def _noting(journal: Journal, kind: str, *, timed: bool = True) -> Callable[[int], None]:
    @contained
    def note(ns: int) -> None:
        line = calling_line(sys._getframe(3))  # noqa: SLF001  the caller of the changed function
        journal.worked(kind, ns if timed else 0, Place(line.file, line.line, line.function) if line else None)

    return note


class Compilations:
    """Tells whether torch.compile has compiled anything since it was last asked."""

    def __init__(self) -> None:
        self._seen = _compiled()

    def any_new(self) -> bool:
        """Return whether there are more compiled frames than before."""
        before, self._seen = self._seen, _compiled()
        return self._seen > before


def _compiled() -> int:
    utils = sys.modules.get("torch._dynamo.utils")
    return int(utils.counters["frames"]["total"]) if utils is not None else 0
