"""E4: a copy to the GPU during kernels, on their stream or another, pageable or pinned; and during another copy."""

from collections.abc import Iterator

from pinprof.bench.experiment import COPIES_AT_ONCE, COPIES_HIDDEN, MIB, CaseRuns, Experiment, Lab, Size
from pinprof.bench.judge import MAX_PERCENT_OF_HARDLY, Claim, Predicate, all_of, at_least, at_most, barely, mostly
from pinprof.bench.results import Figure, Measured

STREAMS, MEMORIES = ("default stream", "side stream"), ("pageable", "pinned")
CASE_NAMES = [f"{stream}, {memory}" for stream in STREAMS for memory in MEMORIES]
FOUR = [Figure("E4", name) for name in CASE_NAMES]
KERNELS_FIRST = Figure("E4", "side stream, pageable, kernels first")
"""The case in which the kernels are launched before the copy, which holds the host."""
SAME_WAY = Figure("E4", "two copies, the same way")
CASES = (*FOUR, KERNELS_FIRST, SAME_WAY)
PORTED = Figure("E4", "transfers of one kernel", "%")
"""The share of the time that the copies to and from the GPU take if one kernel runs between them."""


def _overlap_steps(lab: Lab) -> CaseRuns:
    from pinprof.workloads.copies import copies_at_once

    steps = copies_at_once(lab.device, lab.sizes["floats"])
    return tuple(steps[case.name] for case in CASES)


def measure_overlap(lab: Lab) -> Iterator[Measured]:
    """Yield the times of the cases, and `PORTED`, for which the host waits after each copy and the kernel."""
    import torch

    yield from lab.each(CASES, _overlap_steps(lab))
    numbers = torch.ones(lab.sizes["floats"])
    on_device = numbers.to(lab.device)
    turns = lab.turns((lambda: numbers.to(lab.device), lambda: on_device * on_device, on_device.cpu))
    yield PORTED.of([100 * (there + back) / (there + kernel + back) for there, kernel, back in turns])


def only_the_last(*cases: Figure) -> Predicate:
    """Return that of several cases only the last overlaps kernels."""
    *others, last = cases
    shown = [at_most(COPIES_HIDDEN(case), MAX_PERCENT_OF_HARDLY) for case in others]
    return all_of(mostly(COPIES_HIDDEN(last)), *shown)


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
            only_the_last(*FOUR),
        ),
        Claim("Of code ported kernel by kernel, copies may dominate", "article: opening", at_least(PORTED, 50)),
        Claim(
            "A copy waits for another one that goes the same way: it needs a free engine",
            "tutorial: asynchronous",
            barely(COPIES_AT_ONCE(SAME_WAY)),
        ),
    ),
    CASES,
    _overlap_steps,
    measure_overlap,
    sizes=(Size("floats", 5 * MIB, "numbers of 4 bytes in the copied tensor"),),
    changed="the text multiplies a tensor of 20 MiB by itself twice; on a fast GPU that takes a tenth of the copy, so "
    "the kernels here are products of matrices. The kernels first, two copies, and the one kernel are ours",
    traced={**dict.fromkeys((*FOUR, KERNELS_FIRST), (COPIES_HIDDEN,)), SAME_WAY: (COPIES_AT_ONCE,)},
)
