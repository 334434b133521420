"""E11, E12: copies in processes of their own, and what becomes of a pinned tensor on its way to another process."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, multiprocessing
from torch.multiprocessing.spawn import ProcessException, spawn

from pinprof.bench.experiment import traces_of
from pinprof.bench.results import Figure
from pinprof.workloads.timing import Budget, Cases, Stopwatch, answer, by_events, by_host, figure, repeated, synchronize
from pinprof.workloads.transfers import Sizes

LATER_COPIES = 5
START_S = 60
"""How long the processes may take to start, the slowest of them."""
Sent = tuple[Callable[..., None], tuple[object, ...]]
"""A function, which is called with the process's number and a queue before all else, and its arguments."""
Times = Mapping[str, list[float]]
Record = Callable[[Callable[[], object], Path], None]
"""Records some steps, each a call, to a file; it can be sent to another process."""


def each_copies(device: torch.device, sizes: Sizes) -> Cases:
    """E11: what each of the processes records, in this one."""
    return _copies(*_made(device, sizes), device)


def as_sent(device: torch.device, sizes: Sizes) -> Cases:
    """E12: what each of the processes records, in this one."""
    names = ("pageable", "pinned, sent to the child", "pinned in the child itself")
    return dict(zip(names, each_copies(device, sizes).values(), strict=True))


def _made(device: torch.device, sizes: Sizes) -> tuple[Tensor, Tensor]:
    return torch.ones(sizes["floats"]), _pinned(torch.ones(sizes["floats"]), device)


def _copies(pageable: Tensor, pinned: Tensor, device: torch.device) -> Cases:
    """Return copies of tensors as they are here, and of one that is pinned here."""
    own = _pinned(pageable.clone(), device)
    return {
        "pageable": partial(_sent, pageable, str(device)),
        "pinned, as it arrives": partial(_sent, pinned, str(device)),
        "pinned in the child": partial(_sent, own, str(device)),
    }


def record_bare(device: torch.device, sizes: Sizes, case: int, path: Path, record: Record) -> Iterator[str]:
    """E11: record a case, by its place, in each of the processes that get the tensors; yield the paths of the traces.

    Sending moves a tensor to shared memory, in this process too.
    """
    yield from _recorded(sizes, _made(device, sizes), device, case, path, record)


def record_in_object(device: torch.device, sizes: Sizes, case: int, path: Path, record: Record) -> Iterator[str]:
    """E12: the same with the tensors in an object."""
    yield from _recorded(sizes, Holder(*_made(device, sizes)), device, case, path, record)


def _recorded(
    sizes: Sizes, sent: "tuple[Tensor, Tensor] | Holder", device: torch.device, case: int, path: Path, record: Record
) -> Iterator[str]:
    traces = [str(each) for each in traces_of(path, sizes["processes"])]
    yield from sorted(next(_spawned(sizes, (_record_what_was_sent, (sent, str(device), case, traces, record)))))


def _record_what_was_sent(
    number: int,
    answers: Any,
    sent: "tuple[Tensor, Tensor] | Holder",
    device: str,
    case: int,
    traces: Sequence[str],
    record: Record,
) -> None:
    """Record a case of what this process got, while the others do the same, and send back the path of its trace."""
    pageable, pinned = (sent.pageable, sent.pinned) if isinstance(sent, Holder) else sent
    run = tuple(_copies(pageable, pinned, torch.device(device)).values())[case]
    record(run, Path(traces[number]))
    answers.put(traces[number])


def _pinned(tensor: Tensor, device: torch.device) -> Tensor:
    """Return the tensor in pinned memory, which only a machine with a GPU has."""
    return tensor.pin_memory() if device.type == "cuda" else tensor


def first_and_later(device: torch.device, sizes: Sizes, _budget: Budget) -> Iterator[Figure]:
    """E11: yield what each process's copies take: as the text has them, in the other order, and after a warm-up.

    Sending a tensor moves it to shared memory in the parent too, so each program has tensors of its own.
    """
    sources = [(torch.randn(sizes["floats"]), _pinned(torch.randn(sizes["floats"]), device)) for _ in range(3)]
    yield answer("pinned in the parent", [all(pinned.is_pinned() for _, pinned in sources)])
    as_written, other_order, warm = sources
    runs = _spawned(
        sizes,
        (_copy_both, (*as_written, str(device))),
        (_copy_both, (*reversed(other_order), str(device))),
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


def _times(times: Times) -> Iterator[Figure]:
    for name, taken in times.items():
        yield figure(name, "ms", taken)


def _spawned(sizes: Sizes, *calls: Sent) -> Iterator[list[Any]]:
    """Make each call in processes of its own, as the text does, and yield what its processes put into their queue.

    To start a process and import torch takes longer than all that it does then. So all start at once; no call begins
    before all have started, nor before the processes of the one before have ended.
    Raises RuntimeError with the last line of what one of them says if it fails.
    """
    context, count = multiprocessing.get_context("spawn"), sizes["processes"]
    started = context.Barrier(count * len(calls))
    turns, queues = [context.Event() for _ in calls], [context.SimpleQueue() for _ in calls]
    running = []
    try:
        for (target, arguments), turn, answers in zip(calls, turns, queues, strict=True):
            given = (started, turn, target, answers, *arguments)
            running.append(spawn(_in_turn, given, nprocs=count, join=False))  # type: ignore[no-untyped-call]
        for processes, turn, answers in zip(running, turns, queues, strict=True):
            turn.set()
            _join(processes)
            yield [answers.get() for _ in range(count)]
    finally:
        for process in (each for processes in running for each in processes.processes):
            process.kill()  # one that waits for its turn would wait for ever
            process.join()


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


def _copy_both(_rank: int, answers: Any, first: Tensor, second: Tensor, device: str) -> None:
    """Send back what each copy takes, the first use of CUDA in the first."""
    answers.put([_milliseconds(partial(_sent, source, device), device) for source in (first, second)])


def _sent(source: Tensor, device: str) -> Tensor:
    return source.to(device, non_blocking=True)


def _milliseconds(run: Callable[[], object], device: str) -> float:
    """Return the time from before the call until the GPU is done; nothing is waited for before, as in the text."""
    start = time.perf_counter()
    run()
    synchronize(torch.device(device))
    return (time.perf_counter() - start) * 1e3


def _warm_up_and_copy(_rank: int, answers: Any, pageable: Tensor, pinned: Tensor, device: str) -> None:
    """Send back how the pinned tensor arrives, what the first use of CUDA takes, and what copies take after it."""
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


@dataclass
class Holder:
    """An object that keeps tensors, to be sent to another process."""

    pageable: Tensor
    pinned: Tensor


def pinned_in_object(device: torch.device, sizes: Sizes, budget: Budget) -> Iterator[Figure]:
    """E12: yield whether a tensor is pinned here and in the processes that it is sent to, and what its copies take.

    Sending moves the tensor to shared memory, in this process too: whether it is pinned here is asked before.
    """
    held = Holder(torch.randn(sizes["floats"]), _pinned(torch.randn(sizes["floats"]), device))
    bare = _pinned(torch.randn(sizes["floats"]), device)
    yield answer("pinned in the parent", [held.pinned.is_pinned() and bare.is_pinned()])
    (sent,) = _spawned(sizes, (_copy_what_was_sent, (held, bare, str(device), budget)))
    for is_pinned, bare_is_pinned, times in sent:
        yield answer("pinned in the child", [is_pinned])
        yield answer("pinned, bare in the child", [bare_is_pinned])
        yield from _times(times)


def _copy_what_was_sent(_rank: int, answers: Any, held: Holder, bare: Tensor, device: str, budget: Budget) -> None:
    """Send back what this process sees of the tensors, and what their copies take here between CUDA events."""
    sources = {
        "pageable": held.pageable,
        "pinned, sent to the child": held.pinned,
        "pinned, sent bare": bare,
        "pinned in the child itself": _pinned(held.pageable.clone(), torch.device(device)),
    }
    stopwatch: Stopwatch = by_events if torch.device(device).type == "cuda" else by_host(torch.device(device))
    times = {name: repeated(partial(_sent, source, device), stopwatch, budget) for name, source in sources.items()}
    answers.put((held.pinned.is_pinned(), bare.is_pinned(), times))
