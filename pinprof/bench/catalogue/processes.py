"""E11: two processes that copy a tensor each, from pageable and from pinned memory, the first time and later."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from pinprof.bench.experiment import SOME_ROUNDS, CaseRun, CaseRuns, Experiment, Lab, Recorder, Size, Tensor
from pinprof.bench.judge import Claim, Ratio, all_of, at_least, less
from pinprof.bench.results import Figure, Measured, figures

PAGEABLE, ARRIVED, OWN = CASES = figures("E11", "ms", "pageable; pinned, as it arrives; pinned in the child")
PAGEABLE_FIRST, PINNED_SECOND, PINNED_FIRST, PAGEABLE_SECOND, FIRST_USE = figures(
    "E11", "ms", "pageable, first; pinned, second; pinned, first; pageable, second; first use of CUDA"
)
AS_WRITTEN, FASTER_OWN = figures("E11", "times", "times as fast, as written; times as fast, pinned in the child")
IN_SHARED_MEMORY = Figure("E11", "shared on arrival", "yes")
LATER_COPIES, MAX_START_S = 5, 60
SIZES_OF_PROCESSES = (
    Size("floats", 10_000_000, "numbers of 4 bytes that each process copies"),
    Size("processes", 2, "processes that copy at the same time"),
)
CopyClock = Callable[[Lab, CaseRun], float]


def two_tensors(lab: Lab) -> tuple[Tensor, Tensor]:
    """Return a tensor in pageable memory and one in pinned memory."""
    import torch

    return torch.randn(lab.sizes["floats"]), lab.pinned(torch.randn(lab.sizes["floats"]))


def sent(source: Tensor, lab: Lab) -> Tensor:
    """Copy a tensor to the GPU without waiting."""
    return source.to(lab.device, non_blocking=True)


def copies_in_a_process(lab: Lab, pageable: Tensor, pinned: Tensor) -> CaseRuns:
    """Return copies of two tensors as they arrived in this process, and of one that is pinned in this process."""
    return tuple(partial(sent, source, lab) for source in (pageable, pinned, lab.pinned(pageable.clone())))


def spawned(lab: Lab, target: Callable[..., None], *arguments: object) -> list[Any]:
    """Call a function in processes of its own, as in the text, and return what they put into their queue.

    Importing torch takes a process longer than its work. So they are forked from a process that has imported torch and
    has not used CUDA: they inherit nothing of CUDA, and their first copy is their first use of it, as in the text. If
    one fails, raises RuntimeError with the last line of its error.
    """
    from torch import multiprocessing
    from torch.multiprocessing.spawn import ProcessException, start_processes

    context, count = multiprocessing.get_context("forkserver"), lab.sizes["processes"]
    context.set_forkserver_preload(["torch", __name__])
    queue, started = context.SimpleQueue(), context.Barrier(count)
    begin = (started, target, queue, lab, *arguments)
    try:
        start_processes(_begin_together, begin, nprocs=count, start_method="forkserver")  # type: ignore[no-untyped-call]
    except ProcessException as error:
        raise RuntimeError(str(error).strip().splitlines()[-1]) from error
    return [queue.get() for _ in range(count)]


def _begin_together(rank: int, started: Any, target: Callable[..., None], *arguments: object) -> None:
    started.wait(MAX_START_S)
    target(rank, *arguments)


def by_perf_counter(lab: Lab, run: CaseRun) -> float:
    """Return the time from the call until the GPU is done, without a wait before the call, as in the text."""
    start = time.perf_counter()
    run()
    lab.wait()
    return (time.perf_counter() - start) * 1e3


def copy_both(_rank: int, queue: Any, lab: Lab, tensors: Iterable[Tensor], clock: CopyClock) -> None:
    """Send back what each copy takes; the first is the process's first use of CUDA, as in the text."""
    queue.put([clock(lab, partial(sent, source, lab)) for source in tensors])


def warm_up_and_copy(_rank: int, queue: Any, lab: Lab, pageable: Tensor, pinned: Tensor) -> None:
    """Send back whether the pinned tensor is in shared memory, and how long the first use of CUDA and copies take."""
    import torch

    first_ms = by_perf_counter(lab, partial(torch.zeros, 1, device=lab.device))
    copies = copies_in_a_process(lab, pageable, pinned)
    of_pageable, _, of_own = [[by_perf_counter(lab, run) for _ in range(1 + LATER_COPIES)][1:] for run in copies]
    faster = median(of_pageable) / median(of_own)
    queue.put((pinned.is_shared(), first_ms, faster))  # type: ignore[no-untyped-call]


def measure_processes(lab: Lab) -> Iterator[Measured]:
    """Yield what each process's copies take: as in the text, in the other order, and after a warm-up.

    Sending a tensor moves it to shared memory in the parent too, so each program has tensors of its own.
    """
    written, other, warm = (two_tensors(lab) for _ in range(3))
    for first, second in spawned(lab, copy_both, written, by_perf_counter):
        yield from (PAGEABLE_FIRST.of([first]), PINNED_SECOND.of([second]), AS_WRITTEN.of([first / second]))
    for first, second in spawned(lab, copy_both, other[::-1], by_perf_counter):
        yield from (PINNED_FIRST.of([first]), PAGEABLE_SECOND.of([second]))
    for values in spawned(lab, warm_up_and_copy, *warm):
        for figure, value in zip((IN_SHARED_MEMORY, FIRST_USE, FASTER_OWN), values, strict=True):
            yield figure.of([value])


def record_in_process(
    rank: int, queue: Any, lab: Lab, tensors: Iterable[Tensor], case: int, traces: Sequence[Path], record: Recorder
) -> None:
    """Record a case with the tensors sent to this process, while others do the same."""
    record(copies_in_a_process(lab, *tensors)[case], traces[rank])
    queue.put(rank)


PROCESSES = Experiment(
    "E11",
    "processes",
    "two processes that copy 40 MB each from pageable and from pinned memory: the first time and later",
    (
        Claim(
            "Pinned memory is 81 to 90 times as fast as pageable memory",
            "processes: speed test",
            at_least(FASTER_OWN, 81),
            "the first copy has the first use of CUDA in it, and what is sent to a process arrives unpinned",
            "1.169 s against 13.0 ms in the other process: 89.80 times",
        ),
        Claim(
            "The first copy is slow, pinned or not: most of it is the first use of CUDA here",
            "pinprof",
            all_of(
                less(PINNED_SECOND, PAGEABLE_FIRST),
                less(PAGEABLE_SECOND, PINNED_FIRST),
                at_least(Ratio(FIRST_USE, PAGEABLE_FIRST), 0.5),
            ),
        ),
    ),
    CASES,
    lambda lab: copies_in_a_process(lab, *two_tensors(lab)),
    measure_processes,
    sizes=SIZES_OF_PROCESSES,
    published={PAGEABLE_FIRST: 1054.59, PINNED_SECOND: 12.945, AS_WRITTEN: 81.47},
    changed="the program is run as it is, then with the two copies in the other order, then after a warm-up with a "
    "third copy, of a tensor pinned in the child. The processes are forked from one that has imported torch",
    record=lambda lab, *to_record: spawned(lab, record_in_process, two_tensors(lab), *to_record),
    rounds=SOME_ROUNDS,
)
