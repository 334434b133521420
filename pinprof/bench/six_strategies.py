"""E3: many large tensors, pageable, pinned or pinned just before the copy, each waited for or not."""

from collections.abc import Iterator

from pinprof.bench.experiment import ASKED_EARLY, AT_ONCE, CaseRuns, Experiment, Lab, Size
from pinprof.bench.judge import Claim, all_of, any_of, each_of, in_order, less, mostly, ratio
from pinprof.bench.results import Figure, Measured, figures
from pinprof.bench.small_tensors import BLOCKING, TOGETHER, faster, gains_in_turn

COPIED = "pageable, blocking; pageable, non_blocking; pinned, blocking; pinned, non_blocking"
PAGEABLE, PAGEABLE_ASYNC, PINNED, PINNED_ASYNC, PIN_COPY, PIN_ASYNC = CASES = figures(
    "E3", "ms", f"{COPIED}; pin and copy, blocking; pin and copy, non_blocking"
)
FEW_TENSORS = 4
"""One for each thread that pins in E7."""
FEW = {figure: Figure("E3", f"few, {figure.name}") for figure in CASES[:4]}
PAIRS = ((PAGEABLE_ASYNC, PAGEABLE), (PINNED_ASYNC, PINNED))
GAIN_OF_MANY = [ratio(slow, fast) for fast, slow in PAIRS]
GAIN_OF_FEW = [ratio(FEW[slow], FEW[fast]) for fast, slow in PAIRS]


def copies_of_large_tensors(lab: Lab) -> CaseRuns:
    """Return the steps of the cases."""
    tensors, device = lab.tensors(), lab.device
    pinned = [tensor.pin_memory() for tensor in tensors]
    return (
        lambda: [tensor.to(device) for tensor in tensors],
        lambda: [tensor.to(device, non_blocking=True) for tensor in tensors],
        lambda: [tensor.to(device) for tensor in pinned],
        lambda: [tensor.to(device, non_blocking=True) for tensor in pinned],
        lambda: [tensor.pin_memory().to(device) for tensor in tensors],
        lambda: [tensor.pin_memory().to(device, non_blocking=True) for tensor in tensors],
    )


def measure_strategies(lab: Lab) -> Iterator[Measured]:
    """Yield what each way takes, how many times as fast non_blocking makes it, and what a few tensors take."""
    yield from gains_in_turn(lab, CASES, copies_of_large_tensors(lab), *PAIRS)
    few = lab.with_sizes(tensors=min(lab.sizes["tensors"], FEW_TENSORS))
    yield from lab.each(FEW.values(), copies_of_large_tensors(few)[:4])


SIX_STRATEGIES = Experiment(
    "E3",
    "six_strategies",
    "1000 tensors of 4 MB: pageable, pinned, or pinned just before the copy; blocking or not",
    (
        Claim(
            "To pin, copy and wait for each is the worst of six",
            "tutorial: synergies, a figure",
            all_of(*(less(other, PIN_COPY) for other in CASES if other != PIN_COPY)),
            "it depends on what it costs to pin, against what the driver's staging costs",
        ),
        Claim(
            "Pinned beforehand and non_blocking is the best of six",
            "tutorial: synergies, a figure",
            all_of(*(less(PINNED_ASYNC, other) for other in CASES if other != PINNED_ASYNC)),
        ),
        Claim(
            "Generally, non_blocking=True makes copies to the GPU faster",
            "tutorial: opening",
            each_of(*(faster(fast) for fast, _ in PAIRS), faster(TOGETHER)),
        ),
        Claim(
            "The host sends several tensors at once: the next before the last has arrived",
            "tutorial: asynchronous",
            any_of(mostly(ASKED_EARLY(PINNED_ASYNC)), mostly(ASKED_EARLY(TOGETHER))),
        ),
        Claim(
            "How much it gains varies with the number and size of the tensors",
            "tutorial: preamble",
            all_of(
                any_of(*(in_order(*gains, "less", "more") for gains in zip(GAIN_OF_MANY, GAIN_OF_FEW, strict=True))),
                in_order(GAIN_OF_MANY[0], ratio(BLOCKING, TOGETHER), "less", "more"),
            ),
        ),
        Claim(
            "To pin in the main thread before a non_blocking copy is no faster than to copy pageable",
            "tutorial: synergies",
            in_order(PIN_ASYNC, PAGEABLE_ASYNC, "same", "more"),
            "the host pins the next tensor while the last one is copied, faster than the driver stages",
        ),
    ),
    CASES,
    copies_of_large_tensors,
    measure_strategies,
    sizes=(
        Size("tensors", 1000, "how many tensors", quick=100),
        Size("floats", 1_000_000, "numbers of 4 bytes in each tensor"),
    ),
    published=dict(zip(CASES, (394.3, 316.2, 315.1, 300.0, 573.3, 324.2), strict=True)),
    changed="the few tensors are ours: four of the same size",
    traced={PINNED_ASYNC: (ASKED_EARLY, AT_ONCE)},
    rounds=4,
)
