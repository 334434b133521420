"""E6: the source of a copy to the GPU is overwritten on the host right after the copy was queued."""

from collections.abc import Iterator, Sequence
from functools import partial

from pinprof.bench.experiment import CaseRun, CaseRuns, Experiment, Lab, Size, Tensor, long_kernel
from pinprof.bench.judge import Claim, no, wrong
from pinprof.bench.results import Figure, Measured, figures

PINNED_THEN_KERNEL, PAGEABLE_THEN_KERNEL, PINNED_SOURCE, PAGEABLE_SOURCE, AFTER_WAIT = CASES = figures(
    "E6",
    "wrong",
    "pinned source, copy then kernel; pageable source, copy then kernel; pinned source; pageable source; "
    "pinned source, written after synchronize",
)


def early_writes(lab: Lab) -> CaseRuns:
    """Return the tries; each says whether a value was wrong.

    In the text's order a long kernel comes after the copy, and the host's write must outrun the copy. In ours the
    kernel comes first, so that the write surely comes before the copy.
    """
    import torch

    pageable = torch.ones(lab.sizes["side"], lab.sizes["side"])
    pinned = pageable.pin_memory()

    def is_wrong(source: Tensor, *, kernel_first: bool, wait: bool = False) -> bool:
        source.fill_(1)
        lab.wait()
        if kernel_first:
            long_kernel()
        copied = source.to(lab.device, non_blocking=True)
        if not kernel_first:
            long_kernel()
        if wait:
            lab.wait()
        source.zero_()
        return not bool((copied == 1).all())

    cases = [partial(is_wrong, source, kernel_first=first) for first in (False, True) for source in (pinned, pageable)]
    return *cases, partial(is_wrong, pinned, kernel_first=True, wait=True)


def wrong_values(lab: Lab, cases: Sequence[Figure], tries: Sequence[CaseRun]) -> Iterator[Measured]:
    """Yield for each case the number of tries with a wrong value."""
    for case, is_wrong in zip(cases, tries, strict=True):
        number = float(sum(bool(is_wrong()) for _ in range(lab.sizes["tries"])))
        yield Measured(case.name, case.unit, number, number, number, lab.sizes["tries"])


EARLY_WRITE = Experiment(
    "E6",
    "early_write",
    "a source overwritten on the host right after its copy to the GPU was queued, before or after a long kernel",
    (
        Claim(
            "What is written into a pinned source right after a non_blocking copy may reach the GPU",
            "tutorial: other directions",
            wrong(PINNED_THEN_KERNEL),
            shows="within two tries",
        ),
        Claim(
            "With a pageable source it never does",
            "tutorial: other directions",
            no(PAGEABLE_THEN_KERNEL, PAGEABLE_SOURCE),
        ),
    ),
    CASES,
    early_writes,
    lambda lab: wrong_values(lab, CASES, early_writes(lab)),
    sizes=(
        Size("side", 1024, "rows and columns of the tensor, of 4 bytes each"),
        Size("tries", 100, "tries of each case", quick=20),
    ),
    changed="the first two cases are the text's, with a kernel a tenth as long; in the others the copy is queued "
    "behind the kernel, so that the host's write surely comes first",
    rounds=1,
)
