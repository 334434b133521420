"""The step: where its time goes, as facts and as one bar for the terminal, and the peak of the GPUs' memory."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from pinprof.analyses import idle
from pinprof.analyses.memory import MemoryPeak
from pinprof.analyses.step_parts import MeanStep
from pinprof.ground.units import counted, duration, percent, size
from pinprof.measurement.figures import STALL_MS, SYNCS, WORKED_MS
from pinprof.measurement.profile import Profile, busiest, divide, gpu_of, idle_times
from pinprof.measurement.trust.doubt import Withheld, given
from pinprof.report.view import Fact
from pinprof.report.words import NOTHING, cut, known_length, not_shown, step_known
from pinprof.verdict.step_limits import LIMITS
from pinprof.verdict.verdict import NO_VERDICT, Verdict

AS_TRACED = "as traced, with the profiler's cost in it"
SOLE_SHARE_OF_IDLE = 0.9
"""A limit that costs this share of the idle time is named alone."""
MIN_NAMED_SHARE_OF_IDLE, MAX_LIMITS_NAMED = 0.1, 2
"""Limits that cost a smaller share of it are not named, nor more than these."""
MIN_DRAWN_SHARE = 0.005
"""Parts with a smaller share of the step are neither drawn nor named."""
LONGER_WORK_FACTOR = 1.005
"""Work that is longer than the step by a smaller factor reads as equally long."""
LONGER_WORK = "the GPU's work, which takes longer in the trace than the step without the profiler"
"""The whole of the parts, if these add up to more than the step."""

MAX_BAR_COLUMNS = 96
BAR_INDENT = 2
KERNEL_MARK, COLLECTIVE_MARK, COPY_MARK, MEMSET_MARK, IDLE_MARK = "█▒▓=░"
"""The characters that draw the parts of a step."""
AROUND_WORK = "before its first work and after its last"
LEGEND_GAP = "   "
MAX_PEAKS = 2
"""GPUs in the line of the short report; those with the most memory."""


class BarPart(NamedTuple):
    """A part of a step, of this length in ns, and the character that draws it."""

    name: str
    mark: str
    ns: float
    more: str = ""


def name_of_whole(profile: Profile, mean: MeanStep) -> str:
    """Return the name of the whole that the parts of a mean step add up to."""
    return f"traced {profile.steps.whole}" if _is_longer(profile, mean) else profile.steps.whole


def bound_fact(profile: Profile) -> Fact | None:
    """Return what sets the pace of the step; None if that is not known.

    The verdict says why the step is long, which can differ: copies that the host stages are host-bound.
    """
    pace = f"sets the pace of the {profile.steps.whole}"
    return Fact("bound by", profile.bound.replace("gpu", "GPU"), pace, is_named=False) if profile.bound else None


def undivided_facts(profile: Profile) -> Iterator[Fact]:
    """Yield why it is not shown where the step goes, and how long the GPU works."""
    why = profile.withheld
    if profile.gpus and (reason := not_shown(why.step, why.per_step, why.busy, why.overlap)):
        yield Fact("where it goes", NOTHING, reason)
        yield from gpu_work_facts(profile) if why.step else ()


def gpu_work_facts(profile: Profile) -> Iterator[Fact]:
    """Yield how long the busiest GPU works: known even if the step is not."""
    times = [time for gpu in profile.gpus if (time := given(gpu.time)) and time.span_ns]
    most = max(times, key=lambda time: time.busy_ns, default=None)
    if most:
        share = f"{percent(most.busy_ns / most.span_ns)} of the time from its first work to its last"
        yield Fact("GPU work", duration(most.busy_ns), f"{share}, as traced; idle for {duration(most.idle_ns)}")


def share_of_step(time: float, mean: MeanStep) -> str:
    """Return a time as a share of the step."""
    return percent(time / mean.length_ns) if mean.length_ns else NOTHING


def stall_facts(profile: Profile) -> Iterator[Fact]:
    """Yield how long the host waits, if its calls were recorded, and for how much of that the GPU works."""
    if not profile.has_sums or not profile.gpus:
        return
    name, stall = "host stalls", STALL_MS.of(profile)
    if isinstance(stall, Withheld):
        yield Fact(name, NOTHING, not_shown(stall.reason))
        return
    time, count = stall.value or 0.0, given(SYNCS.of(profile)) or 0.0
    if not count:
        yield Fact(name, duration(0), f"no call of the {profile.steps.whole} waits for the GPU")
        return
    meaning = f"{_share_of_stalls(profile, time)}in {counted(count, 'wait')}"
    worked = given(WORKED_MS.of(profile)) or 0.0
    if worked and worked >= MIN_DRAWN_SHARE * time:
        meaning += f"; the GPU runs earlier work for {duration(worked)} of that, which no fix shortens"
    yield Fact(name, duration(time), meaning)


def _share_of_stalls(profile: Profile, time: float) -> str:
    """Return stalls as a share of the step, or of the recorded step if they are longer, being as traced."""
    mean, whole = busiest(profile), profile.steps.whole
    in_trace = (profile.steps.traced_ns, f"{whole} as recorded")
    for length, name in ((mean.length_ns, name_of_whole(profile, mean)), in_trace) if mean else ():
        if length and time <= length:
            return f"{percent(time / length)} of the {name}, "
    return ""


def division_title(profile: Profile, mean: MeanStep) -> str:
    """Return the title of the parts of a mean step, with the length that they add up to."""
    length = known_length(profile)
    how = "without the profiler" if length else AS_TRACED
    if _is_longer(profile, mean):
        how = LONGER_WORK
        length = None
    shown = length.number.removeprefix("about ") if length else duration(mean.length_ns)
    return f"Where the {name_of_whole(profile, mean)} goes on GPU {mean.device}: {shown}, {how}"


def _is_longer(profile: Profile, mean: MeanStep) -> bool:
    return mean.length_ns > LONGER_WORK_FACTOR * (profile.estimate.step_ns or mean.length_ns)


def step_fact(profile: Profile) -> Fact:
    """Return how long the step takes without the profiler, or as traced if that is not known."""
    steps, known, name = profile.steps, step_known(profile), profile.steps.whole
    if known:
        return Fact(name, *known, is_named=False)
    if profile.gpus and isinstance(profile.step, Withheld):
        return Fact(name, NOTHING, f"the {name} without profiler: {not_shown(profile.step.reason)}", is_named=False)
    if steps.traced_ns is None:
        return Fact("step", "unknown", "the trace has no complete step", is_named=False)
    return Fact(name, duration(steps.traced_ns), AS_TRACED, is_named=False)


def step_bar(
    profile: Profile, width: int, verdict: Verdict = NO_VERDICT, *, is_titled: bool = False
) -> Iterator[RenderableType]:
    """Yield the step of the busiest GPU as a bar with its legend, if it is known; a title says what it is of."""
    mean, room = busiest(profile), min(width - 2 * BAR_INDENT, MAX_BAR_COLUMNS)
    if mean is None or not mean.length_ns:
        return
    parts = step_parts(profile, mean, verdict)
    lines = [bar_text(parts, room), *legend_lines(parts, room)]
    others = [share_of_step(other.idle_ns, other) for other in profile.parts if other is not mean]
    if others:
        lines.append(f"This is GPU {mean.device}. Idle on the others: {', '.join(others)}.")
    if not is_titled and _is_longer(profile, mean):
        lines.append(f"As traced: {LONGER_WORK}.")
    for line in lines:
        yield Padding(Text(line), (0, 0, 0, BAR_INDENT))


def step_parts(profile: Profile, mean: MeanStep, verdict: Verdict = NO_VERDICT) -> list[BarPart]:
    """Return the parts of a mean step, which add up to it."""
    division = divide(profile, mean)
    return [
        BarPart("kernels", KERNEL_MARK, division.kernels_ns),
        BarPart("collectives alone", COLLECTIVE_MARK, division.collectives_ns),
        BarPart("exposed copies", COPY_MARK, division.copies_ns),
        BarPart("memsets", MEMSET_MARK, division.memsets_ns),
        BarPart("GPU idle", IDLE_MARK, mean.idle_ns, why_idle(profile, mean, verdict)),
    ]


def why_idle(profile: Profile, mean: MeanStep, verdict: Verdict) -> str:
    """Return what costs most of the GPU's idle time, each with its time unless it is all of it; empty if not known.

    Without a replay it is what the GPU waits for most of the time in the trace.
    """
    named = [(LIMITS[name].lost, ns) for name, ns in verdict.idle if ns >= MIN_NAMED_SHARE_OF_IDLE * mean.idle_ns > 0]
    if named and named[0][1] >= SOLE_SHARE_OF_IDLE * mean.idle_ns:
        return named[0][0]
    times = {} if verdict.idle or profile.withheld.causes else idle_times(profile, gpu_of(profile, mean))
    if mean.idle_ns and any(times.values()):
        cause = max(times, key=lambda cause: times[cause])
        return f"mostly {idle.IDLE[cause].does if cause in idle.IDLE else AROUND_WORK}"
    return ", ".join(f"{lost} {duration(ns)}" for lost, ns in named[:MAX_LIMITS_NAMED])


def bar_text(parts: Sequence[BarPart], width: int) -> str:
    """Return parts side by side, `width` characters in all, each named part with at least one."""
    shown = _long_parts(parts)
    whole = sum(part.ns for part in shown)
    if not whole:
        return ""
    ends = [round(end_ns / whole * width) for end_ns in accumulate(part.ns for part in shown)]
    lengths = [max(end - start, 1) for start, end in zip([0, *ends], ends, strict=False)]
    lengths[lengths.index(max(lengths))] -= sum(lengths) - width  # the excess of parts that were widened to 1
    return "".join(part.mark * length for part, length in zip(shown, lengths, strict=True))


def legend_lines(parts: Sequence[BarPart], width: int) -> list[str]:
    """Return the names of the parts with their times and shares, as lines of at most this width where they fit."""
    whole = sum(part.ns for part in parts)
    lines: list[str] = []
    for part in _long_parts(parts):
        more = f" ({part.more})" if part.more else ""
        entry = f"{part.mark} {part.name} {duration(part.ns)}, {percent(part.ns / whole)}{more}"
        if lines and cell_len(lines[-1] + LEGEND_GAP + entry) <= width:
            lines[-1] += LEGEND_GAP + entry
        else:
            lines.append(entry)
    return lines


def _long_parts(parts: Sequence[BarPart]) -> list[BarPart]:
    whole = sum(part.ns for part in parts)
    return [part for part in parts if part.ns > 0 and part.ns >= MIN_DRAWN_SHARE * whole]


def memory_in_short(profile: Profile) -> str:
    """Return the largest peaks in a line; empty if no memory was recorded."""
    peaks = list(memory_facts(profile))[:MAX_PEAKS]
    return "; ".join(f"{fact.name}: {fact.number} {fact.meaning}" for fact in peaks)


def memory_facts(profile: Profile) -> Iterator[Fact]:
    """Yield the peak of each GPU, the largest first."""
    for peak in sorted(profile.memory, key=lambda peak: -peak.allocated_bytes):
        name = f"peak memory of GPU {peak.device}" if len(profile.memory) > 1 else "peak GPU memory"
        reserved = "" if peak.reserved_bytes is None else f", {size(peak.reserved_bytes)} reserved"
        yield Fact(name, size(peak.allocated_bytes), f"allocated{reserved}, {_when(peak, profile)}")


def _when(peak: MemoryPeak, profile: Profile) -> str:
    step = "outside of the steps"
    if peak.step is not None and peak.step_fraction is not None:
        of = f"step {peak.step}" if profile.steps.whole == "step" else "the trace"
        step = f"at {percent(peak.step_fraction)} of {of}"
    return f"{step}, in {cut(peak.op)}" if peak.op else step
