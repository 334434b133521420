"""E13: the rate of copies of all sizes, and how long the call of one holds the host; and what predictions use."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from mmap import mmap

from pinprof.bench import judge
from pinprof.bench.catalogue.early_write import PAGEABLE_SOURCE, PINNED_SOURCE
from pinprof.bench.experiment import GIB, MIB, CaseRun, CaseRuns, Experiment, Lab, Size, long_kernel
from pinprof.bench.judge import PINNED_RATE, WAYS, Claim, Ratio, all_of, at_least, at_most, barely, mostly, no, yes
from pinprof.bench.results import AT_LARGEST, AT_SMALLEST, Figure, Measured, figures
from pinprof.gpu import can_access_pageable
from pinprof.ground.units import rate, size

PAGEABLE_RATE = {way: Figure("E13", f"{way} pageable", "GB/s") for way in WAYS}
ON_THE_GPU = Figure("E13", "DtoD", "GB/s")
CASES = (*(of[way] for way in WAYS for of in (PAGEABLE_RATE, PINNED_RATE)), ON_THE_GPU)
BLOCKED_PAGEABLE, BLOCKED_PINNED = figures("E13", "ms", "blocked, HtoD pageable; blocked, HtoD pinned")
"""For how long a call holds the host while a kernel runs in front of the copy on its stream."""
CPU_PERCENT = {case: Figure("E13", f"host busy, {case.name}", "%") for case in CASES[:4]}
"""Percent of a copy's time for which this process uses a CPU."""
ACCESS = Figure("E13", "the GPU can access pageable memory", "yes")
PUBLISHED_BYTES = 16 * MIB
PUBLISHED_GBPS = dict(zip(CASES, (2.308439, 5.774224, 2.316220, 5.958834), strict=False))
IN_A_ROW_BYTES, MAX_IN_A_ROW = 4 * MIB, 64
"""Small copies are timed in rows, because two events are too coarse for one."""
REACHES_SHARE = 0.9
"""A machine with this share of a link's usual rate reaches the rate of the link."""

STAGING, BY_A_THREAD = figures("E13", "GB/s", "staging, HtoD pageable; pinning by a thread")
LAUNCH, FREED = figures("E13", "ms", "a launch; freeing of GPU memory")
"""What predictions use besides the rates of copies."""
LAUNCHES, FREED_BYTES = 1000, 256 * MIB


def copies_of(lab: Lab, count: int) -> CaseRuns:
    """Return the steps of the cases, of this size: both ways, from and to pageable and pinned memory."""
    import torch

    pageable = torch.ones(count, dtype=torch.uint8)
    pinned = lab.pinned(pageable)
    on_gpu, other = (torch.ones(count, dtype=torch.uint8, device=lab.device) for _ in range(2))
    pairs = ((on_gpu, pageable), (on_gpu, pinned), (pageable, on_gpu), (pinned, on_gpu), (other, on_gpu))
    return tuple(partial(target.copy_, source, non_blocking=True) for target, source in pairs)


def rates_of_size(lab: Lab, count: int, runs: CaseRuns) -> Iterator[Measured]:
    """Yield the rate of each kind of copy of this size."""
    in_a_row = max(1, min(MAX_IN_A_ROW, IN_A_ROW_BYTES // count))
    for case, run in zip(CASES, runs, strict=True):
        times = lab.times(lambda run=run: [run() for _ in range(in_a_row)], lab.between_events)  # type: ignore[misc]
        yield case.of([count * in_a_row / (ms * 1e6) for ms in times], count)


def measure_bandwidth(lab: Lab) -> Iterator[Measured]:
    """Yield the rate of each kind of copy at each size, and what the host does meanwhile."""
    for count in lab.growing():
        runs = copies_of(lab, count)
        yield from rates_of_size(lab, count, runs)
        for figure, run in zip((BLOCKED_PAGEABLE, BLOCKED_PINNED), runs[:2], strict=True):
            yield figure.of([lab.hold(run, behind=long_kernel) for _ in range(4)][1:], count)
    for figure, run in zip(CPU_PERCENT.values(), runs[:4], strict=True):
        yield figure.of([_share_of_a_cpu(lab, run) for _ in range(2)], count)
    if (can_access := can_access_pageable()) is not None:
        yield ACCESS.of([can_access])


def _share_of_a_cpu(lab: Lab, run: CaseRun) -> float:
    """Return for how many percent of a copy's time this process uses a CPU; the wait for the event sleeps."""
    import torch

    end = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
    lab.wait()
    start, start_cpu = time.perf_counter(), time.process_time()
    run()
    end.record()
    end.synchronize()
    return 100 * (time.process_time() - start_cpu) / (time.perf_counter() - start)


def measure_rates(lab: Lab) -> Iterator[Measured]:
    """Yield what predictions use: rates by size, of staging and of pinning by a thread, launches, and freeing."""
    import torch

    pool = ThreadPoolExecutor(1)
    for count in lab.growing():
        runs, shared = copies_of(lab, count), os.memfd_create("batch")
        yield from rates_of_size(lab, count, runs)
        os.write(shared, bytes(count))
        pin = partial(pool.submit, _pin_shared, shared, count)
        for figure, run in ((STAGING, runs[0]), (BY_A_THREAD, lambda pin=pin: pin().result())):
            yield figure.of([count / (ms * 1e6) for ms in lab.times(run, lab.hold)], count)
        os.close(shared)
    number = torch.zeros(1, device=lab.device)
    yield LAUNCH.of([ms / LAUNCHES for ms in lab.times(lambda: [number.add_(1) for _ in range(LAUNCHES)], lab.hold)])
    allocate = partial(torch.empty, FREED_BYTES, dtype=torch.uint8, device=lab.device)
    yield FREED.of(lab.times(torch.cuda.empty_cache, partial(lab.hold, before=allocate)))


def _pin_shared(file: int, count: int) -> None:
    """Pin memory that another process shares, as a DataLoader's thread does: map it, copy it, unmap it."""
    import torch

    shared = mmap(file, count)
    torch.frombuffer(shared, dtype=torch.uint8).pin_memory()
    shared.close()


def reaches_the_link(read: judge.Readings) -> judge.ClaimJudgement:
    """Judge whether pinned copies of some size reach, in both directions, the usual rate of such a link."""
    link = read.bench.machine.link
    best = [max(read.by_size(figure), key=lambda measured: measured.low) for figure in PINNED_RATE.values()]
    read.cite(*best)
    why = " and ".join(f"{rate(each.median)} ({each.name})" for each in best)
    if link is None or any(measured.low > link.theoretical for measured in best):
        return judge.ClaimJudgement("unknown", f"{why}; the driver does not say of which link, or of an idle one")
    why += f" of {rate(link.theoretical)} on {link.name}; {rate(link.usual)} is usual"
    lows, highs = zip(*map(judge.bounds, best), strict=True)
    reached = REACHES_SHARE * link.usual
    return judge.decided(why, confirmed=min(lows) >= reached, refuted=max(highs) < reached)


def more_predictable(read: judge.Readings) -> judge.ClaimJudgement:
    """Judge whether copies of pinned memory vary less at two of three sizes, by the spread's share of the median."""
    pairs = [pair for way in WAYS for pair in read.pairs(PAGEABLE_RATE[way], PINNED_RATE[way], judge.LARGE_BYTES)]
    varies = [[(one.high - one.low) / one.median if one.median > 0 else 0.0 for one in pair] for pair in pairs]
    total, steadier = len(pairs), sum(pinned < pageable for pageable, pinned in varies)
    why = f"of {total} sizes and ways from {size(judge.LARGE_BYTES)} on pinned copies vary less in {steadier}"
    return judge.decided(why, confirmed=3 * steadier >= 2 * total, refuted=3 * steadier <= total)


BANDWIDTH = Experiment(
    "E13",
    "bandwidth",
    "copies of 4 KiB to 1 GiB in both directions, from and to pageable and pinned memory, and on the GPU",
    (
        Claim(
            "Copies of pinned memory have more than twice the rate of pageable ones",
            "processes: concepts",
            all_of(
                *(
                    at_least(Ratio(PINNED_RATE[way].at(PUBLISHED_BYTES), PAGEABLE_RATE[way].at(PUBLISHED_BYTES)), 2)
                    for way in WAYS
                )
            ),
            "it depends on the link, and on how fast the host stages",
        ),
        Claim("Copies of pinned memory reach the rate of the link", "processes: concepts", reaches_the_link),
        Claim(
            "The driver stages them: the host copies pageable memory before the GPU does",
            "tutorial: CUDA and memory; article: pinned memory; processes: concepts",
            all_of(
                no(PAGEABLE_SOURCE),
                yes(PINNED_SOURCE),
                *(mostly(CPU_PERCENT[case].at(AT_LARGEST)) for case in PAGEABLE_RATE.values()),
                *(barely(CPU_PERCENT[case].at(AT_LARGEST)) for case in PINNED_RATE.values()),
            ),
        ),
        Claim("The GPU cannot access pageable memory", "article: pinned memory; processes: concepts", no(ACCESS)),
        Claim(
            "Pinned memory is faster because none of it is on disk",
            "answer: pin memory",
            judge.less_in_most(
                *((PINNED_RATE[way], PAGEABLE_RATE[way]) for way in WAYS), least_bytes=judge.LARGE_BYTES
            ),
            "memory just written is not on disk either; the second copy costs time, as the same answer says",
        ),
        Claim(
            "The rates differ from machine to machine",
            "processes: concepts; tutorial: preamble",
            judge.any_of(
                *(at_least(case.at(PUBLISHED_BYTES), 1.1 * value) for case, value in PUBLISHED_GBPS.items()),
                *(at_most(case.at(PUBLISHED_BYTES), 0.9 * value) for case, value in PUBLISHED_GBPS.items()),
            ),
        ),
        Claim(
            "The GPU reaches its own memory at a much higher rate than the host's",
            "article: opening",
            at_least(Ratio(ON_THE_GPU.at(AT_LARGEST), PINNED_RATE["HtoD"].at(AT_LARGEST)), 2),
        ),
        Claim(
            "Pinned memory makes copies more predictable",
            "tutorial: CUDA and memory",
            more_predictable,
            "both vary with what else the host does",
        ),
        Claim(
            "A non_blocking copy of pinned memory does not hold the host",
            "tutorial: asynchronous; article: non_blocking; processes: usage",
            at_most(Ratio(BLOCKED_PINNED.at(AT_LARGEST), BLOCKED_PAGEABLE.at(AT_LARGEST)), 0.1, 1),
        ),
        Claim(
            "Pinned memory is copied by DMA, which leaves the CPU free",
            "processes: usage",
            all_of(*(barely(CPU_PERCENT[case].at(AT_LARGEST)) for case in PINNED_RATE.values())),
        ),
        Claim(
            "With non_blocking=True the host is not blocked, whatever the memory",
            "tutorial: asynchronous",
            at_most(Ratio(BLOCKED_PAGEABLE.at(AT_LARGEST), BLOCKED_PAGEABLE.at(AT_SMALLEST)), 1.1, 10),
            "the driver stages a large pageable source in the call, and waits for the stream first",
        ),
    ),
    CASES,
    lambda lab: copies_of(lab, lab.sizes["most"]),
    measure_bandwidth,
    sizes=(
        Size("least", 4096, "bytes of the smallest copy"),
        Size("most", GIB, "bytes of the largest copy; each is four times the one before", 64 * MIB),
    ),
    published={case.at(PUBLISHED_BYTES): value for case, value in PUBLISHED_GBPS.items()},
    changed="the text's figures are of an old laptop, at 16 MB alone; the other sizes are ours",
)
RATES = replace(
    BANDWIDTH,
    name="rates",
    summary="what predictions use: rates of copies by size, of staging and of pinning by a thread, launches, freeing",
    claims=(),
    measure=measure_rates,
    sizes=(BANDWIDTH.sizes[0], replace(BANDWIDTH.sizes[1], default=256 * MIB)),
    published=None,
    changed="",
    rounds=2,
)
