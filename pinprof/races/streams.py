"""Reports to the watch what streams, events and the host wait for."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial, wraps
from typing import Any

import torch

from pinprof.program.hooks import noting, replaced
from pinprof.program.waits import taking_warnings
from pinprof.races.clocks import EndedCopies, Stream
from pinprof.races.gpu import Gpu
from pinprof.races.watch import Watch


@contextmanager
def following_streams(watch: Watch) -> Iterator[None]:
    """Report records, waits and queries in the block; those that torch only warns of count for the current stream."""
    explicit = _ExplicitWait()
    with ExitStack() as undo:
        undo.enter_context(taking_warnings(lambda: None if explicit.inside else watch.learn(watch.ended_after_now())))
        for holder, name, change in _changes(watch, explicit):
            if hasattr(holder, name):
                undo.enter_context(replaced(holder, name, change))
        yield


class _ExplicitWait(threading.local):
    """Whether this thread is in a call that waits by name: torch's warning says less about that wait than its name."""

    inside = False


def _changes(watch: Watch, explicit: _ExplicitWait) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    gpu, ends = watch.gpu, partial(_changed, watch, explicit)
    yield from _of_classes(watch, ends, gpu.cuda.Event, gpu.cuda.Stream)
    for holder, name, change in _of_classes(watch, ends, gpu.generic.Event, gpu.generic.Stream):
        yield holder, name, _if_of_a_gpu(gpu, change)
    for name, note in _methods_of_streams(watch):  # torch.cuda's streams call the methods of events
        yield gpu.generic.Stream, name, _if_of_a_gpu(gpu, noting(note))

    def ended_after_device(device: int | None = None) -> EndedCopies:
        return watch.clocks.ended_after_device(gpu.c._cuda_getDevice() if device is None else device)  # noqa: SLF001

    yield gpu.c, "_cuda_synchronize", ends(ended_after_device)
    yield gpu.c, "_accelerator_synchronizeDevice", ends(ended_after_device)
    if torch.distributed.is_available():  # it waits without a warning, unless it is asynchronous and returns a handle
        barrier = ends(lambda *_: watch.ended_after_now(), is_over=lambda result: result is None)
        yield torch.distributed, "barrier", barrier


def _of_classes(
    watch: Watch, ends: Callable[..., Callable[[Any], Any]], events: Any, streams: Any
) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    """Yield (holder, name, change) for the methods of a class of events and one of streams, of torch.cuda or torch."""

    def on(event: Any, stream: Any) -> Stream:
        if stream is not None:
            return key_of_stream(stream)
        return watch.gpu.current_stream(None if isinstance(event, watch.gpu.cuda.Event) else event.device.index)

    def recorded(_: None, event: Any, stream: Any = None) -> None:
        watch.clocks.record(key_of_event(event), on(event, stream))

    def waits(_: None, event: Any, stream: Any = None) -> None:
        watch.clocks.wait(on(event, stream), key_of_event(event))

    def ended_after_event(event: Any) -> EndedCopies:
        return watch.clocks.ended_after_event(key_of_event(event))

    def ended_after_both(first: Any, last: Any) -> EndedCopies:
        one, other = ended_after_event(first), ended_after_event(last)
        return {stream: max(one.get(stream, 0), other.get(stream, 0)) for stream in {*one, *other}}

    def ended_after_stream(stream: Any) -> EndedCopies:
        return watch.clocks.ended_after(key_of_stream(stream))

    yield events, "record", noting(recorded)
    yield events, "wait", noting(waits)
    yield events, "synchronize", ends(ended_after_event)
    yield events, "query", ends(ended_after_event, is_over=bool)
    yield events, "elapsed_time", ends(ended_after_both)
    yield streams, "synchronize", ends(ended_after_stream)
    yield streams, "query", ends(ended_after_stream, is_over=bool)


def _methods_of_streams(watch: Watch) -> Iterator[tuple[str, Callable[..., None]]]:
    def records(event: Any, stream: Any, _event: Any = None) -> None:
        watch.clocks.record(key_of_event(event), key_of_stream(stream))

    def waits(_: None, stream: Any, event: Any) -> None:
        watch.clocks.wait(key_of_stream(stream), key_of_event(event))

    def follows(_: None, stream: Any, other: Any) -> None:
        watch.clocks.follow(key_of_stream(stream), key_of_stream(other))

    yield "record_event", records
    yield "wait_event", waits
    yield "wait_stream", follows


def _changed(
    watch: Watch,
    explicit: _ExplicitWait,
    ended_after: Callable[..., EndedCopies],
    *,
    is_over: Callable[[Any], bool] = lambda _: True,
) -> Callable[[Any], Any]:
    """Return a change of a function that waits: when it returns, the watch learns what has ended."""

    def change(function: Any) -> Any:
        @wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            ended = ended_after(*args)  # before the call: it does not wait for what others queue meanwhile
            outer, explicit.inside = explicit.inside, True
            try:
                result = function(*args, **kwargs)
            finally:
                explicit.inside = outer
            if is_over(result):
                watch.learn(ended)
            return result

        return watched

    return change


def _if_of_a_gpu(gpu: Gpu, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a change of a method of torch's own events or streams that applies to those of a GPU only."""

    def change_some(function: Any) -> Any:
        changed = change(function)

        @wraps(function)
        def called(own: Any, *args: Any, **kwargs: Any) -> Any:
            return (changed if gpu.owns(own.device) else function)(own, *args, **kwargs)

        return called

    return change_some


def key_of_event(event: Any) -> int:
    """Return the unique handle of an event, which it has from its first record on."""
    return int(event.cuda_event if hasattr(event, "cuda_event") else event.event_id)


def key_of_stream(stream: Any) -> Stream:
    """Return the device and the handle of a stream, even if it is not of `torch.cuda`'s class."""
    if not hasattr(stream, "cuda_stream"):
        make: Any = torch.cuda.Stream
        stream = make(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)
    return Stream(stream.device_index, stream.cuda_stream)


@contextmanager
def warned_of_waits(cuda: Any) -> Iterator[Callable[[], None]]:
    """Give a function, to be called again and again, that makes torch warn of waits in the block, and starts CUDA."""
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
