from collections import defaultdict
from collections.abc import Iterator, Sequence

from pinprof.analyses.host_samples import CalledLine
from pinprof.analyses.launches import MEANING
from pinprof.details import Details
from pinprof.measurement.profile import Profile
from pinprof.rules.copies import many_small
from pinprof.rules.launching import how_to_spare, late_ns, pauses
from pinprof.rules.rule import Evidence, Rule
from pinprof.rules.sums import MOST_NAMED, at, idle_within, in_complete_steps
from pinprof.trace.lines import Place
from pinprof.units import duration, percent
from pinprof.whatif.edits import Edits

PAUSED = 0.1
"""Python, or a pause, that takes a smaller share of the step is not worth a finding."""
PACK = "Pack the many small copies of this line into one, which also spares the loop (PIN106)."
PACK_SOMEWHERE = "Pack the many small copies of the step into one, which also spares the loop around them (PIN106)."
"""The same of copies whose line is not known."""
NO_OP = ("user", "library")
"""Kinds of code in which the host runs no op of torch and waits for no input."""


def _python(details: Details, profile: Profile) -> Iterator[Evidence]:
    """Look for time in which the host runs no op, and the GPU waits for it."""
    pause, late, step = profile.pause, late_ns(details, profile), profile.step_ns
    if not late or not step:
        return
    paused = pauses(details)
    idle = idle_within(details, profile, *paused)
    lasts = pause.time_ns if pause and idle >= PAUSED * step else 0.0
    lines = _lines(details, profile)
    shown = sum(own for _, own in lines) / profile.host.samples if profile.host else 0.0
    if not lasts and shown < PAUSED:
        return
    words = []
    if lasts and pause:
        inside = in_complete_steps(details.trace, paused.start)
        total = float((paused.end - paused.start)[inside].sum()) / profile.steps.divisor
        more = f"; the longest, {duration(lasts)}, is {pause.between}" if total > lasts else f", {pause.between}"
        words.append(
            f"the host runs no op and no call for {duration(max(total, lasts))} {profile.steps.per}, as traced"
        )
        words[-1] += f"{more}: that is {MEANING}"
    if shown >= PAUSED:
        words.append(f"without the profiler it is in Python for {percent(shown)} of the step: {_named(profile, lines)}")
    place = lines[0][0].place if shown >= PAUSED else Place()
    yield Evidence(
        min(max(idle, shown * step), late),
        "; ".join(words),
        *place,
        edits=Edits(without_pauses=True),
        fix=_how_to_spare(details, profile, place),
    )


def _how_to_spare(details: Details, profile: Profile, place: Place) -> str:
    """Return what to do about the Python of this line, or of the step where no line is known."""
    copied = [copies.place for copies in many_small(details, profile)] if place.line is not None else []
    if any(copies[:2] == place[:2] for copies in copied):
        return PACK
    return PACK_SOMEWHERE if any(copies.line is None for copies in copied) else how_to_spare(details, place)


def _lines(details: Details, profile: Profile) -> list[tuple[CalledLine, float]]:
    """Return the program's lines with their samples outside of torch, of input and of waits, most first.

    A call in C is sampled as the line that makes it, so a line that waits is left what it took besides its waits.
    """
    host, step = profile.host, profile.step_ns
    if host is None or not step:
        return []
    waits: defaultdict[tuple[str | None, int | None], float] = defaultdict(float)
    for site in details.syncs.sites:
        waits[site.file, site.line] += site.in_steps.stall_ns / profile.steps.divisor / step * host.samples
    lines = []
    for line in host.called:
        own = sum(count for kind, count in line.kinds if kind in NO_OP) - waits[line.file, line.line]
        if own > 0 and line.file:
            lines.append((line, own))
    return sorted(lines, key=lambda line: -line[1])


def _named(profile: Profile, lines: Sequence[tuple[CalledLine, float]]) -> str:
    assert profile.host is not None
    share = profile.host.share
    return ", ".join(f"{percent(share(own))}{at(line.place)}" for line, own in lines[:MOST_NAMED])


RULE = Rule(
    id="PIN603",
    title="the GPU waits for Python code",
    rests_on=("step", "per_step", "busy", "causes"),
    answers=("python", "host"),
    numbers="equal",
    looks_at="Long pauses between ops on the training threads, and samples of the main thread's Python without the "
    "profiler.",
    why="While the host computes in Python, sleeps, or waits for something other than the GPU, it launches nothing: "
    "once the GPU has done what is queued, it is idle.",
    fix="Do it once before the loop, every N steps, in a DataLoader's workers, or with tensors on the GPU.",
    before="for batch in batches:\n"
    "    weights = [math.exp(-age / 10) for age in range(1000)]  # in each step\n"
    "    train(batch, weights)",
    code="weights = [math.exp(-age / 10) for age in range(1000)]  # once\n\n"
    "for batch in batches:\n"
    "    train(batch, weights)",
    safe_if="It depends on nothing that changes from step to step.",
    near_miss="weights = [math.exp(-age / 10) for age in range(10)]  # the GPU has work queued for longer",
    look=_python,
)
