"""E1: what a copy of one tensor costs, and what pinning costs before it."""

from collections.abc import Iterator
from functools import partial

from pinprof.bench.catalogue import six_strategies as many
from pinprof.bench.experiment import CaseRuns, Experiment, Lab, Size, free_pinned
from pinprof.bench.judge import Claim, Ratio, all_of, any_of, at_most, each_of, less
from pinprof.bench.results import Figure, Measured, figures

PAGEABLE, PINNED, PIN, PIN_TO, PIN_SENT = CASES = figures(
    "E1",
    "ms",
    "pageable.to; pinned.to; pageable.pin_memory(); pageable.pin_memory().to; pageable.pin_memory().to, non_blocking",
)
FRESH = {figure: Figure("E1", f"{figure.name}, fresh memory") for figure in (PIN, PIN_TO, PIN_SENT)}
"""The cases that pin, in memory that torch did not have before: the first run of a program needs such memory."""
MADE_PAGEABLE, MADE_PINNED = MADE = figures(
    "E1", "ms", "made in pageable memory, pinned and sent; made in pinned memory and sent"
)
SENT_AND_PLAIN = ((PIN_SENT, PAGEABLE), (FRESH[PIN_SENT], PAGEABLE), (many.PIN_ASYNC, many.PAGEABLE))
"""A tensor pinned on the way, not waited for, and a plain copy: in kept memory, in fresh memory, and many (E3)."""
PINNED_AND_PLAIN = ((PIN_TO, PAGEABLE), (FRESH[PIN_TO], PAGEABLE), (many.PIN_COPY, many.PAGEABLE))


def _pinning_steps(lab: Lab) -> CaseRuns:
    import torch

    pageable, device = torch.ones(lab.sizes["floats"]), lab.device
    pinned = pageable.pin_memory()
    return (
        lambda: pageable.to(device),
        lambda: pinned.to(device),
        pageable.pin_memory,
        lambda: pageable.pin_memory().to(device),
        lambda: pageable.pin_memory().to(device, non_blocking=True),
    )


def measure_pinning(lab: Lab) -> Iterator[Measured]:
    """Yield the cases, in kept and in fresh memory, and tensors that the host makes in either memory."""
    import torch

    cases, device, pageable = _pinning_steps(lab), lab.device, torch.ones(lab.sizes["floats"])
    pinned = pageable.pin_memory()
    made = (
        lambda: pageable.fill_(1).pin_memory().to(device, non_blocking=True),
        lambda: pinned.fill_(1).to(device, non_blocking=True),
    )
    yield from lab.each(CASES, cases)
    yield from lab.each(MADE, made)
    if hasattr(torch._C, "_host_emptyCache"):  # noqa: SLF001  no public name; without it no memory can be had anew
        yield from lab.each(FRESH.values(), cases[2:], partial(lab.time, before=free_pinned))


PINNING_COST = Experiment(
    "E1",
    "pinning_cost",
    "one tensor of 4 MB: copied from pageable memory, from pinned memory, pinned, and pinned and copied",
    (
        Claim(
            "A copy from pinned memory is faster",
            "tutorial: CUDA and memory; article: pinned memory; answer: pin memory; processes: concepts",
            less(PINNED, PAGEABLE),
        ),
        Claim(
            "To pin a tensor and then copy it is usually slower than to copy it",
            "tutorial: pinned memory",
            each_of(less(PAGEABLE, PIN_TO), less(PAGEABLE, FRESH[PIN_TO])),
            "torch keeps pinned memory (E15); to pin into it may cost less than the driver's staging",
        ),
        Claim(
            "pin_memory().to(device, non_blocking=True) takes at most twice the time of a plain to(device)",
            "tutorial: opening",
            all_of(*(at_most(Ratio(sent, plain), 2) for sent, plain in SENT_AND_PLAIN)),
            "fresh pinned memory takes long to get (E15)",
        ),
        Claim(
            "In rare cases to pin first is faster than the driver's copy in pieces",
            "tutorial: pinned memory",
            any_of(*(less(pinned, plain) for pinned, plain in PINNED_AND_PLAIN), otherwise="depends"),
        ),
        Claim("To allocate in pinned memory avoids a copy", "article: pinned memory", less(MADE_PINNED, MADE_PAGEABLE)),
    ),
    CASES,
    _pinning_steps,
    measure_pinning,
    sizes=(Size("floats", 1_000_000, "numbers of 4 bytes in the tensor"),),
    published={PAGEABLE: 0.369, PINNED: 0.315, PIN: 0.112, PIN_TO: 0.433},
    changed="torch keeps pinned memory (E15): after the first run pin_memory() is a copy into a buffer that is kept. "
    "Fresh memory, the copy not waited for, and the tensors that the host makes are ours",
)
