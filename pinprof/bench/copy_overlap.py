"""E4: a copy to the GPU during kernels, on their stream or another, pageable or pinned; and during another copy."""

from collections.abc import Iterator

import numpy as np

from pinprof.bench.experiment import AT_ONCE, MIB, OVERLAPPED, CaseRuns, Experiment, InTrace, Lab, Size
from pinprof.bench.judge import Claim, Predicate, Ratio, all_of, at_least, at_most, barely, mostly, ratio
from pinprof.bench.results import Figure, Measured, figures
from pinprof.details import Details
from pinprof.trace.tables import KERNEL, MEMCPY, Trace

NAMES = [f"{stream}, {memory}" for stream in ("default stream", "side stream") for memory in ("pageable", "pinned")]
FOUR, TEXTS_FOUR = ([Figure("E4", f"{name}{kernels}") for name in NAMES] for kernels in ("", ", text's kernels"))
KERNELS_FIRST = Figure("E4", "side stream, pageable, kernels first")
"""The case in which the kernels are launched before the copy, which holds the host."""
ALONE, SAME_WAY, BOTH_WAYS = figures("E4", "ms", "copy alone; two copies, the same way; two copies, both ways")
CASES = (*FOUR, KERNELS_FIRST, *TEXTS_FOUR, ALONE, SAME_WAY, BOTH_WAYS)
PORTED = Figure("E4", "transfers of one kernel", "%")
"""The share of the time that the copies to and from the GPU take if one kernel runs between them."""


def copies_and_kernels(lab: Lab) -> CaseRuns:
    """Return the steps of the cases."""
    from pinprof.workloads.copies import copies_at_once

    steps = copies_at_once(lab.device, lab.sizes["floats"])
    return tuple(steps[case.name] for case in CASES)


def measure_overlap(lab: Lab) -> Iterator[Measured]:
    """Yield the cases, and the share of copies there and back around one short kernel, with a wait after each part."""
    import torch

    yield from lab.each(CASES, copies_and_kernels(lab))
    numbers = torch.ones(lab.sizes["floats"])
    on_device = numbers.to(lab.device)
    turns = lab.turns((lambda: numbers.to(lab.device), lambda: on_device * on_device, on_device.cpu))
    yield PORTED.of([100 * (there + back) / (there + kernel + back) for there, kernel, back in turns])


def possible_shares(trace: Trace, _details: Details) -> Iterator[float]:
    """Yield which share of a step's copy time its kernels are long enough to hide, in percent."""
    gpu, steps = trace.gpu, trace.links.activity_step
    for step in np.flatnonzero(trace.steps.complete):
        copy_ns, kernel_ns = (
            int(gpu.duration_ns[(steps == step) & (gpu.category == category)].sum()) for category in (MEMCPY, KERNEL)
        )
        if copy_ns:
            yield 100 * min(1.0, kernel_ns / copy_ns)


POSSIBLE = InTrace("possible", "%", possible_shares)


def of_possible(case: Figure) -> Ratio:
    """Return which share of the possible overlap kernels reach."""
    return ratio(OVERLAPPED(case), POSSIBLE(case))


def only_the_last(*cases: Figure) -> Predicate:
    """Return that of several cases only the last overlaps kernels."""
    *others, last = cases
    return all_of(mostly(of_possible(last), 1), *(at_most(of_possible(case), 0.1) for case in others))


COPY_OVERLAP = Experiment(
    "E4",
    "copy_overlap",
    "a copy of 20 MiB during kernels, on their stream or another, pageable or pinned; and during another copy",
    (
        Claim(
            "A copy overlaps kernels only if it is pinned and on a side stream",
            "tutorial: asynchronous",
            only_the_last(KERNELS_FIRST, *FOUR),
            "a pageable copy holds the host: it overlaps only kernels that were launched before it",
            "four traces; the copy overlaps the kernel in one: side stream, pinned",
        ),
        Claim(
            "Of the text's four cases only the pinned copy on a side stream overlaps",
            "tutorial: asynchronous",
            only_the_last(*TEXTS_FOUR),
        ),
        Claim("Of code ported kernel by kernel, copies may dominate", "article: opening", at_least(PORTED, 50)),
        Claim(
            "On the default stream a copy and kernels take turns",
            "tutorial: asynchronous",
            all_of(*(barely(of_possible(case), 1) for case in FOUR[:2])),
        ),
        Claim(
            "A copy waits for another one that goes the same way: it needs a free engine",
            "tutorial: asynchronous",
            barely(AT_ONCE(SAME_WAY)),
        ),
        Claim("A copy the other way runs at the same time", "tutorial: asynchronous", mostly(AT_ONCE(BOTH_WAYS))),
    ),
    CASES,
    copies_and_kernels,
    measure_overlap,
    sizes=(Size("floats", 5 * MIB, "numbers of 4 bytes in the copied tensor"),),
    changed="the text multiplies a tensor of 20 MiB by itself twice; on a fast GPU that takes a tenth of the copy, so "
    "the first cases have products of matrices. The kernels first, two copies, and the one kernel are ours",
    traced={
        **dict.fromkeys((*FOUR, KERNELS_FIRST, *TEXTS_FOUR), (OVERLAPPED, POSSIBLE)),
        **dict.fromkeys((SAME_WAY, BOTH_WAYS), (AT_ONCE,)),
    },
)
