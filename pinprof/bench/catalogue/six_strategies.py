"""E3: many large tensors, pageable, pinned or pinned just before the copy, each waited for or not."""

from pinprof.bench.catalogue.small_tensors import TOGETHER, faster, gains_in_turn
from pinprof.bench.experiment import QUEUED_EARLY, CaseRuns, Experiment, Lab, Size
from pinprof.bench.judge import Claim, all_of, any_of, each_of, less, less_in_most, mostly
from pinprof.bench.results import figures

COPIED = "pageable, blocking; pageable, non_blocking; pinned, blocking; pinned, non_blocking"
PAGEABLE, PAGEABLE_ASYNC, PINNED, PINNED_ASYNC, PIN_COPY, PIN_ASYNC = CASES = figures(
    "E3", "ms", f"{COPIED}; pin and copy, blocking; pin and copy, non_blocking"
)
PAIRS = ((PAGEABLE_ASYNC, PAGEABLE), (PINNED_ASYNC, PINNED))


def _steps(lab: Lab) -> CaseRuns:
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
            less_in_most(*((PINNED_ASYNC, other) for other in CASES if other != PINNED_ASYNC)),
        ),
        Claim(
            "Generally, non_blocking=True makes copies to the GPU faster",
            "tutorial: opening",
            each_of(*(faster(fast) for fast, _ in PAIRS), faster(TOGETHER)),
        ),
        Claim(
            "The host sends several tensors at once: the next before the last has arrived",
            "tutorial: asynchronous",
            any_of(mostly(QUEUED_EARLY(PINNED_ASYNC)), mostly(QUEUED_EARLY(TOGETHER))),
        ),
    ),
    CASES,
    _steps,
    lambda lab: gains_in_turn(lab, CASES, _steps(lab), *PAIRS),
    sizes=(
        Size("tensors", 1000, "how many tensors", quick=100),
        Size("floats", 1_000_000, "numbers of 4 bytes in each tensor"),
    ),
    published=dict(zip(CASES, (394.3, 316.2, 315.1, 300.0, 573.3, 324.2), strict=True)),
    traced={PINNED_ASYNC: (QUEUED_EARLY,)},
    rounds=4,
)
