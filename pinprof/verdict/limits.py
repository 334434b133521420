"""Why a step can be as long as it is: one row for each limit, with its words and the idle time that it explains."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from pinprof.analyses.idle import IDLE
from pinprof.measurement.division import OUTSIDE

CauseOfStep: TypeAlias = Literal[
    "sync", "copy", "input", "allocation", "communication", "python", "launch", "host", "irregular", "gpu"
]
CAUSES: Final[tuple[CauseOfStep, ...]] = get_args(CauseOfStep)
"""`host` is `python` and `launch` together, each of which alone may leave the host as slow as the other makes it. Those
that a line of the program makes come before those that all of it does: of two that cost alike, the first is
the one to look at."""
SYNC, COPY, INPUT, ALLOCATION, COMMUNICATION, PYTHON, LAUNCH, HOST, IRREGULAR, GPU = CAUSES

HELD_UP: Final = (*(name for name, cause in IDLE.items() if cause.bound == "host"), OUTSIDE)
"""Idle time that no cause but a late host explains: a wait that ends may leave the launches late that follow it."""


@dataclass(frozen=True)
class Limit:
    """What a step can owe its length to."""

    why: str
    """Why the step is as long as it is."""
    lost: str
    """The same as a thing that costs time."""
    advice: str
    """What to do first where no finding tells more."""
    idle: tuple[str, ...]
    """The idle time of the GPU that it may explain, by its cause."""
    by_host: bool = False
    """Whether it is work of the host."""


LIMITS: Final[dict[str, Limit]] = {
    SYNC: Limit(
        why="the host waits for the GPU, which then runs out of work",
        lost="waits for the GPU",
        advice="make the host wait for the GPU less often",
        idle=HELD_UP,
    ),
    COPY: Limit(
        why="copies keep the GPU from computing",
        lost="copies that keep the GPU from computing",
        advice="copy one batch ahead, or copy less: uint8 or float16, converted on the GPU",
        idle=("sync_bubble", "kernel_wait"),
    ),
    INPUT: Limit(
        why="the step waits for the next batch",
        lost="waits for the next batch",
        advice="use more workers, persistent_workers=True, or less work per sample",
        idle=("input_wait", OUTSIDE),
    ),
    ALLOCATION: Limit(
        why="the host waits while memory is allocated or freed",
        lost="allocating and freeing memory",
        advice="keep shapes constant, and free nothing in the loop",
        idle=HELD_UP,
    ),
    COMMUNICATION: Limit(
        why="collectives take the time: they transfer, or wait for other ranks",
        lost="collectives",
        advice="report on all ranks of the job: it shows who waits for whom",
        idle=("communication_wait", "kernel_wait", "sync_bubble"),
    ),
    PYTHON: Limit(
        why="the GPU waits for Python code",
        lost="Python code",
        advice="take what needs no GPU out of the loop, or do it in workers",
        idle=HELD_UP,
        by_host=True,
    ),
    LAUNCH: Limit(
        why="the GPU waits for launches",
        lost="launches",
        advice="launch many kernels at once: torch.compile, CUDA graphs, or larger batches",
        idle=HELD_UP,
        by_host=True,
    ),
    HOST: Limit(
        why="the GPU waits for the host",
        lost="the host",
        advice="launch many kernels at once (torch.compile, CUDA graphs), and take what needs no GPU out of the loop",
        idle=HELD_UP,
        by_host=True,
    ),
    IRREGULAR: Limit(
        why="some steps take longer than the others",
        lost="steps unlike the others",
        advice="do this work less often, or outside of the training loop",
        idle=(),
    ),
    GPU: Limit(
        why="the GPU is the limit",
        lost="the GPU's work",
        advice="give the GPU less to do: lower precision, fused kernels (torch.compile), or a smaller model",
        idle=(),
    ),
}
"""By name, as JSON has it."""
BY_HOST: Final = frozenset(name for name, limit in LIMITS.items() if limit.by_host)

AWAITED = "the host waits after {} to the GPU, which then has no work"
"""Why the step is long where copies cost most by the waits behind them, with how many these are."""
