"""Where the step goes, as one bar for the terminal."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from pinprof.analyses.parts import MeanStep
from pinprof.measurement.division import OUTSIDE, busiest, divide
from pinprof.measurement.profile import Profile
from pinprof.phrases import IDLE
from pinprof.report.bar import Part, drawn, legend
from pinprof.report.trace.step import cause_of_idle, of_step

WIDEST = 96
"""Columns of a bar; a wider one tells no more."""
INDENT = 2
KERNEL, COLLECTIVE, COPY, MEMSET, NOTHING = "█▒▓=░"
"""What draws the parts of a step."""
LATE_PYTHON = "waits for Python code"
"""What the GPU does where launches come late because the host runs no op."""
CAUSES = IDLE | {OUTSIDE: "before its first work and after its last"}


def step_bar(profile: Profile, width: int, cause: str | None = None) -> Iterator[RenderableType]:
    """Yield the step of the GPU that works most as a bar with its legend; nothing where that is not known.

    `cause` is that of the verdict.
    """
    mean = busiest(profile)
    if mean is None or not mean.length_ns:
        return
    room = min(width - 2 * INDENT, WIDEST)
    parts = step_parts(profile, mean, cause)
    yield Padding(Text(drawn(parts, room)), (0, 0, 0, INDENT))
    for line in legend(parts, room):
        yield Padding(Text(line), (0, 0, 0, INDENT))
    others = [of_step(each.idle_ns, each) for each in profile.parts if each is not mean]
    if others:
        named = "the other GPU is" if len(others) == 1 else f"the other {len(others)} GPUs are"
        yield Padding(Text(f"This is GPU {mean.device}; {named} idle for {', '.join(others)}."), (0, 0, 0, INDENT))


def step_parts(profile: Profile, mean: MeanStep, cause: str | None = None) -> list[Part]:
    """Return the parts of a mean step, which add up to it."""
    division = divide(profile, mean)
    return [
        Part("kernels", KERNEL, division.kernels_ns),
        Part("collectives alone", COLLECTIVE, division.collectives_ns),
        Part("copies alone", COPY, division.copies_ns),
        Part("memsets", MEMSET, division.memsets_ns),
        Part("GPU idle", NOTHING, mean.idle_ns, why_idle(profile, mean, cause)),
    ]


def why_idle(profile: Profile, mean: MeanStep, of_step: str | None = None) -> str:
    """Return what the GPU does while it is idle; nothing where that is not known."""
    cause, is_all = cause_of_idle(profile, mean)
    said = LATE_PYTHON if (cause, of_step) == ("host_wait", "python") else CAUSES.get(cause, "")
    return f"mostly {said}" if said and not is_all else said
