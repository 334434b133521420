"""E11, E12: copies in several processes, and whether a pinned tensor is still pinned in the process it is sent to."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, multiprocessing
from torch.multiprocessing.spawn import ProcessException, start_processes

from pinprof.bench.experiment import traces_of
from pinprof.bench.results import Figure
from pinprof.workloads.timing import (
    Budget,
    Cases,
    Stopwatch,
    answer,
    by_call,
    by_events,
    by_host,
    figure,
    in_turn,
    synchronize,
)
from pinprof.workloads.transfers import Sizes

LATER_COPIES = 5
CALLS = 5
"""How often the call of a copy is timed."""
FORKED = "forkserver"
START_S = 60
"""How long the slowest process may take to start."""
Sent = tuple[Callable[..., None], tuple[object, ...]]
"""A function and its arguments; the process's number and a queue come before these."""
TimesByCase = Mapping[str, list[float]]
CopyTimer = Callable[[Callable[[], object], str], float]
"""Runs a copy to a device and returns its milliseconds."""
Recorder = Callable[[Callable[[], object], Path], None]
"""Records some steps, each a call, to a file; it must be picklable."""


@dataclass
class Holder:
    """An object with tensors that is sent to another process."""

    pageable: Tensor
    pinned: Tensor


def each_copies(device: torch.device, sizes: Sizes) -> Cases:
    """E11: return the cases that each process records, for this process."""
    return _copies(*_new_tensors(device, sizes), device)


def as_sent(device: torch.device, sizes: Sizes) -> Cases:
    """E12: return the cases that each process records, for this process."""
    names = ("pageable", "pinned, sent to the child", "pinned in the child itself")
    return dict(zip(names, each_copies(device, sizes).values(), strict=True))


def _new_tensors(device: torch.device, sizes: Sizes) -> tuple[Tensor, Tensor]:
    return torch.ones(sizes["floats"]), _pinned(torch.ones(sizes["floats"]), device)


def _copies(pageable: Tensor, pinned: Tensor, device: torch.device) -> Cases:
    """Return copies of two tensors as they arrived in this process, and of one that is pinned in this process."""
    own = _pinned(pageable.clone(), device)
    return {
        "pageable": partial(_sent, pageable, str(device)),
        "pinned, as it arrives": partial(_sent, pinned, str(device)),
        "pinned in the child": partial(_sent, own, str(device)),
    }


def record_bare(device: torch.device, sizes: Sizes, case: int, path: Path, record: Recorder) -> Iterator[str]:
    """E11: record a case, by its number, in each of the processes that get the tensors; yield the paths of the traces.

    Sending moves a tensor to shared memory, in this process too.
    """
    yield from _recorded(sizes, _new_tensors(device, sizes), device, case, path, record)


def record_in_object(device: torch.device, sizes: Sizes, case: int, path: Path, record: Recorder) -> Iterator[str]:
    """E12: the same with the tensors in an object."""
    yield from _recorded(sizes, Holder(*_new_tensors(device, sizes)), device, case, path, record)


def _recorded(
    sizes: Sizes, sent: "tuple[Tensor, Tensor] | Holder", device: torch.device, case: int, path: Path, record: Recorder
) -> Iterator[str]:
    traces = [str(trace) for trace in traces_of(path, sizes["processes"])]
    yield from sorted(next(_spawned(sizes, (_record_what_was_sent, (sent, str(device), case, traces, record)))))


def _record_what_was_sent(
    number: int,
    answers: Any,
    sent: "tuple[Tensor, Tensor] | Holder",
    device: str,
    case: int,
    traces: Sequence[str],
    record: Recorder,
) -> None:
    """Record a case with the tensors sent to this process, while others do the same; send back the trace's path."""
    pageable, pinned = (sent.pageable, sent.pinned) if isinstance(sent, Holder) else sent
    run = tuple(_copies(pageable, pinned, torch.device(device)).values())[case]
    record(run, Path(traces[number]))
    answers.put(traces[number])


def _pinned(tensor: Tensor, device: torch.device) -> Tensor:
    """Return the tensor in pinned memory, if there is a GPU."""
    return tensor.pin_memory() if device.type == "cuda" else tensor


def first_and_later(device: torch.device, sizes: Sizes, _budget: Budget) -> Iterator[Figure]:
    """E11: yield what each process's copies take: as in the text, in the other order, and after a warm-up.

    Sending a tensor moves it to shared memory in the parent too, so each program has tensors of its own.
    """
    sources = [(torch.randn(sizes["floats"]), _pinned(torch.randn(sizes["floats"]), device)) for _ in range(3)]
    yield answer("pinned in the parent", [all(pinned.is_pinned() for _, pinned in sources)])
    as_written, other_order, warm = sources
    runs = _spawned(
        sizes,
        (_copy_bare, (*as_written, str(device), _milliseconds)),
        (_copy_bare, (*reversed(other_order), str(device), _milliseconds)),
        (_warm_up_and_copy, (*warm, str(device))),
    )
    for first, second in next(runs):
        yield from _times({"pageable, first": [first], "pinned, second": [second]})
        yield figure("times as fast, as written", "times", [first / second])
    for first, second in next(runs):
        yield from _times({"pinned, first": [first], "pageable, second": [second]})
        yield figure("times as fast, other order", "times", [second / first])
    for is_pinned, is_shared, times in next(runs):
        yield answer("pinned on arrival", [is_pinned])
        yield answer("shared on arrival", [is_shared])
        yield from _times(times)
        for name in ("as it arrives", "in the child"):
            ratio = median(times["pageable, later"]) / median(times[f"pinned {name}, later"])
            yield figure(f"times as fast, pinned {name}", "times", [ratio])


def _times(times: TimesByCase) -> Iterator[Figure]:
    for name, values in times.items():
        yield figure(name, "ms", values)


def _spawned(sizes: Sizes, *calls: Sent) -> Iterator[list[Any]]:
    """Make each call in processes of its own, as in the text, and yield what its processes put into their queue.

    Importing torch takes a process longer than its work. So all are forked from a process that has imported torch and
    has not used CUDA: they inherit nothing of CUDA, and their first copy is their first use of it, as in the text. All
    start at once; a call begins when all have started, and when the processes of the call before have ended.
    If one fails, raises RuntimeError with the last line of its error.
    """
    context, count = multiprocessing.get_context(FORKED), sizes["processes"]
    context.set_forkserver_preload([__name__])
    started = context.Barrier(count * len(calls))
    turns, queues = [context.Event() for _ in calls], [context.SimpleQueue() for _ in calls]
    running = []
    try:
        for (target, arguments), turn, answers in zip(calls, turns, queues, strict=True):
            arguments_of_process = (started, turn, target, answers, *arguments)
            running.append(_start(arguments_of_process, count))
        for processes, turn, answers in zip(running, turns, queues, strict=True):
            turn.set()
            _join(processes)
            yield [answers.get() for _ in range(count)]
    finally:
        for process in (child for processes in running for child in processes.processes):
            process.kill()  # one that waits for its turn would wait forever
            process.join()


def _start(arguments: tuple[object, ...], count: int) -> Any:
    return start_processes(_in_turn, arguments, nprocs=count, join=False, start_method=FORKED)  # type: ignore[no-untyped-call]


def _in_turn(rank: int, started: Any, turn: Any, target: Callable[..., None], *arguments: object) -> None:
    started.wait(START_S)
    turn.wait()
    target(rank, *arguments)


def _join(processes: Any) -> None:
    try:
        while not processes.join():
            pass
    except ProcessException as error:
        raise RuntimeError(str(error).strip().splitlines()[-1]) from error


def _sent(source: Tensor, device: str) -> Tensor:
    return source.to(device, non_blocking=True)


def _milliseconds(run: Callable[[], object], device: str) -> float:
    """Return the time from the call until the GPU is done, without a wait before the call, as in the text."""
    start = time.perf_counter()
    run()
    synchronize(torch.device(device))
    return (time.perf_counter() - start) * 1e3


def _warm_up_and_copy(_rank: int, answers: Any, pageable: Tensor, pinned: Tensor, device: str) -> None:
    """Send back whether the pinned tensor is still pinned, and how long the first use of CUDA and copies take."""
    times = {"first use of CUDA": [_milliseconds(partial(torch.zeros, 1, device=device), device)]}
    is_pinned, is_shared = pinned.is_pinned(), pinned.is_shared()  # type: ignore[no-untyped-call]
    sources = {
        "pageable": pageable,
        "pinned as it arrives": pinned,
        "pinned in the child": _pinned(pageable.clone(), torch.device(device)),
    }
    for name, source in sources.items():
        copy = partial(_sent, source, device)
        _milliseconds(copy, device)
        times[f"{name}, later"] = [_milliseconds(copy, device) for _ in range(LATER_COPIES)]
    answers.put((is_pinned, is_shared, times))


def pinned_in_object(device: torch.device, sizes: Sizes, budget: Budget) -> Iterator[Figure]:
    """E12: yield what copies take: as in the text, with the clocks of its two programs exchanged, and repeated.

    Sending moves a tensor to shared memory in this process too, so we check before that it is pinned here. Each
    program has tensors of its own.
    """

    def tensors() -> tuple[Tensor, Tensor]:
        return torch.randn(sizes["floats"]), _pinned(torch.randn(sizes["floats"]), device)

    written, other_clock, holder = (Holder(*tensors()) for _ in range(3))
    bare, other_bare = _pinned(torch.randn(sizes["floats"]), device), tensors()
    yield answer("pinned in the parent", [holder.pinned.is_pinned() and bare.is_pinned()])
    events, clock = _events(device), _milliseconds
    names = ("as written", "bare, by events", "in the object, by perf_counter")
    *programs, repeated = _spawned(
        sizes,
        (_copy_from_object, (written, str(device), events)),
        (_copy_bare, (*other_bare, str(device), events)),
        (_copy_from_object, (other_clock, str(device), clock)),
        (_copy_what_was_sent, (holder, bare, str(device), budget)),
    )
    for name, answers in zip(names, programs, strict=True):
        for pageable, pinned in answers:
            yield from _times({f"pageable, {name}": [pageable], f"pinned, {name}": [pinned]})
            yield figure(f"times as fast, {name}", "times", [pageable / pinned])
    for is_pinned, bare_is_pinned, times, calls in repeated:
        yield answer("pinned in the child", [is_pinned])
        yield answer("pinned, bare in the child", [bare_is_pinned])
        yield from _times(times)
        middle = {name: median(values) for name, values in times.items()}
        for name, values in calls.items():
            yield figure(f"call, {name}", "%", [100 * median(values) / middle[name]])
        sent = middle["pinned, sent to the child"]
        yield figure("times as fast, sent to the child", "times", [middle["pageable"] / sent])
        yield figure("times as fast, bare instead of in an object", "times", [sent / middle["pinned, sent bare"]])


def _events(device: torch.device) -> CopyTimer:
    """Return the clock of the text's second program, which times a copy between two events if there is a GPU."""
    return _between_events if device.type == "cuda" else _milliseconds


def _between_events(run: Callable[[], object], _device: str) -> float:
    """Return the time between two events of the stream; making the first event starts CUDA."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def _copy_from_object(rank: int, answers: Any, holder: Holder, device: str, clock: CopyTimer) -> None:
    """Send back what the copies of the object's tensors take, the first and the second copy of the process."""
    _copy_bare(rank, answers, holder.pageable, holder.pinned, device, clock)


def _copy_bare(_rank: int, answers: Any, first: Tensor, second: Tensor, device: str, clock: CopyTimer) -> None:
    """Send back what each copy takes by this clock; the first is the process's first use of CUDA, as in the text."""
    answers.put([clock(partial(_sent, source, device), device) for source in (first, second)])


def _copy_what_was_sent(_rank: int, answers: Any, holder: Holder, bare: Tensor, device: str, budget: Budget) -> None:
    """Send back whether the tensors are pinned here, what their copies take in turn, and how long the calls take."""
    sources = {
        "pageable": holder.pageable,
        "pinned, sent to the child": holder.pinned,
        "pinned, sent bare": bare,
        "pinned in the child itself": _pinned(holder.pageable.clone(), torch.device(device)),
    }
    copies = [partial(_sent, source, device) for source in sources.values()]
    stopwatch: Stopwatch = by_events if torch.device(device).type == "cuda" else by_host(torch.device(device))
    turns = in_turn(copies, stopwatch, budget)
    times = dict(zip(sources, map(list, zip(*turns, strict=True)), strict=True))
    call = by_call(torch.device(device))
    calls = [[call(copy) for _ in range(CALLS)] for copy in copies]
    answers.put((holder.pinned.is_pinned(), bare.is_pinned(), times, dict(zip(sources, calls, strict=True))))
