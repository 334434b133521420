"""Shows the watch what streams, events and the host wait for."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import wraps
from typing import Any

import torch

from pinprof.capture.replaced import replaced
from pinprof.capture.waits import taking_warnings
from pinprof.guard.clocks import Known, Stream
from pinprof.guard.watch import Watch


@contextmanager
def followed(watch: Watch) -> Iterator[None]:
    """Show the watch all records, waits and queries of events and streams within the block.

    Of waits that the program does not spell, as that of `x.item()`, torch warns if it is asked to, which
    `warned_of_waits` does; it says nothing of streams, so they count for the current one.
    """
    known = _Spelled()
    with ExitStack() as undo:
        undo.enter_context(taking_warnings(lambda: None if known.inside else watch.learn(watch.behind_current())))
        for holder, name, change in _changes(watch, known):
            if hasattr(holder, name):
                undo.enter_context(replaced(holder, name, change))
        yield


class _Spelled(threading.local):
    """Whether this thread is in a wait of which more is known than that it waits."""

    inside = False


def _changes(watch: Watch, spelled: _Spelled) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    """Yield (holder, name, change) of the functions that order streams, events and the host."""
    cuda, c = watch.gpu.cuda, watch.gpu.c

    def behind_event(event: Any) -> Known:
        return watch.behind_event(key_of_event(event))

    def behind_both(first: Any, last: Any) -> Known:
        one, other = behind_event(first), behind_event(last)
        return {stream: max(one.get(stream, 0), other.get(stream, 0)) for stream in {*one, *other}}

    def behind_stream(stream: Any) -> Known:
        return watch.behind_stream(key_of_stream(stream))

    def waiting(call: str, known: Callable[..., Known]) -> Callable[[Any], Any]:
        return _changed(watch, spelled, known, lambda _: True, call)

    def asking(known: Callable[..., Known]) -> Callable[[Any], Any]:
        return _changed(watch, spelled, known, bool, None)

    def ordering(note: Callable[[Any, Stream], None]) -> Callable[[Any], Any]:
        return _ordering(note, cuda)

    yield cuda.Event, "record", ordering(lambda event, stream: watch.recorded(key_of_event(event), stream))
    yield cuda.Event, "wait", ordering(lambda event, stream: watch.stream_waits(stream, key_of_event(event)))
    yield cuda.Event, "synchronize", waiting("Event.synchronize", behind_event)
    yield cuda.Event, "query", asking(behind_event)
    yield cuda.Event, "elapsed_time", _changed(watch, spelled, behind_both, lambda _: True, None)
    yield cuda.Stream, "synchronize", waiting("Stream.synchronize", behind_stream)
    yield cuda.Stream, "query", asking(behind_stream)
    here = "torch.cuda.synchronize"
    yield c, "_cuda_synchronize", waiting(here, lambda: watch.behind_device(c._cuda_getDevice()))  # noqa: SLF001
    if (
        torch.distributed.is_available()
    ):  # waits for the current stream, and without a warning; asynchronous, it does not
        barrier = _changed(watch, spelled, lambda *_: watch.behind_current(), lambda work: work is None, None)
        yield torch.distributed, "barrier", barrier
    yield c, "_accelerator_synchronizeDevice", waiting("torch.accelerator.synchronize", watch.behind_device)


def _changed(
    watch: Watch, spelled: _Spelled, behind: Callable[..., Known], is_over: Callable[[Any], bool], call: str | None
) -> Callable[[Any], Any]:
    """Return what makes a function tell the watch what has ended once it returns."""

    def change(function: Any) -> Any:
        @wraps(function)
        def told(*args: Any, **kwargs: Any) -> Any:
            known = behind(*args)  # before it: what others queue meanwhile is not waited for
            outer, spelled.inside = spelled.inside, True
            try:
                result = function(*args, **kwargs)
            finally:
                spelled.inside = outer
            if is_over(result):
                watch.learn(known, call)
            return result

        return told

    return change


def _ordering(note: Callable[[Any, Stream], None], cuda: Any) -> Callable[[Any], Any]:
    """Return what makes a method of events tell on which stream it was called."""

    def change(function: Any) -> Any:
        @wraps(function)
        def told(event: Any, stream: Any = None) -> Any:
            on = cuda.current_stream() if stream is None else stream
            result = function(event, on)
            note(event, key_of_stream(on))
            return result

        return told

    return change


def key_of_event(event: Any) -> int:
    """Return the handle of an event: it has one from its first record on, and none has it beside it."""
    return int(event.cuda_event)


def key_of_stream(stream: Any) -> Stream:
    """Return the device and the handle of a stream, also of one that is not of `torch.cuda`'s class."""
    if not hasattr(stream, "cuda_stream"):
        make: Any = torch.cuda.Stream
        stream = make(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)
    return Stream(stream.device_index, stream.cuda_stream)


@contextmanager
def warned_of_waits(cuda: Any) -> Iterator[Callable[[], None]]:
    """Give what makes torch warn of waits from now on to the end of the block; it starts CUDA if nothing has.

    To be called again and again: others turn the warnings on and off, too.
    """
    before: list[int] = []

    def warn() -> None:
        mode = cuda.get_sync_debug_mode()
        if not before:
            before.append(mode)
        if mode == 0:
            cuda.set_sync_debug_mode("warn")

    try:
        yield warn
    finally:
        if before:
            with suppress(RuntimeError):  # a forked process has no CUDA
                cuda.set_sync_debug_mode(before[0])
