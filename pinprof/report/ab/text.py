"""The sentences on two versions of a program and on a search among revisions, and the whole text for the terminal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf

from rich.console import RenderableType
from rich.text import Text

from pinprof.ab import CANNOT_TELL, FASTER, NO_DIFFERENCE, Judgement, Measurement, RecordedChanges
from pinprof.ab.bisection import Bisection
from pinprof.ab.causes import LikelyCause
from pinprof.ab.recording import Clocks
from pinprof.ab.sequential_test import ComparedBy, compared_by
from pinprof.ab.statistics import pairs_for
from pinprof.report.terminal import bullet, fact, laid_out, section
from pinprof.report.words import cut, printable
from pinprof.units import NS_PER_MS, counted, duration

CLOCKS_DIFFER = 0.03
"""Clocks that differ by more than this share make one version slower by themselves."""
BY: Mapping[ComparedBy, str] = {
    "usual": "",
    "quickest": ", by the quickest step of each turn",
    "mean": ", by the mean step, for workers set the pace",
}
KINDS = {
    "input": "input: ",
    "wait": "wait: ",
    "copy": "copy: ",
    "launches": "",
    "kernel": "kernel ",
    "op": "op ",
    "line": "line: ",
}
"""The words before the name of what changed, by kind."""


def percent(ratio: float) -> str:
    """Return a ratio as the difference from 1: "+3.1 %", "-0.4 %"."""
    if ratio == inf:
        return "unlimited"
    places = 1 if abs(ratio - 1) < 1 else 0
    return f"{round(100 * (ratio - 1), places) + 0.0:+.{places}f} %"  # 0.0 has no sign of its own


def span(judgement: Judgement) -> str:
    """Return the interval of the ratio."""
    if judgement.high == inf:
        return f"{judgement.fewest} pairs are needed for an interval"
    return f"{percent(judgement.low)} to {percent(judgement.high)}"


def direction(judgement: Judgement) -> str:
    """Return the direction that too few pairs suggest so far."""
    return f"{'slower' if judgement.ratio > 1 else 'faster'} so far by about {abs(100 * (judgement.ratio - 1)):.3g} %"


def sentence(judgement: Judgement) -> str:
    """Return the verdict: the number first."""
    limit, verdict = f"{100 * judgement.limit:.3g} %", judgement.verdict
    if verdict == NO_DIFFERENCE:
        return f"No difference above {limit}: {percent(judgement.ratio)} ({span(judgement)})"
    if verdict == CANNOT_TELL:
        but = ", but processes of one version differ twofold" if judgement.uneven else ""
        if judgement.high == inf and not 1 / judgement.over <= judgement.ratio <= judgement.over:
            tendency = f"{direction(judgement).capitalize()}, not yet certain"
            return f"{tendency} ({judgement.pairs} of at least {judgement.fewest} pairs){but}"
        return f"Cannot tell: {percent(judgement.ratio)} ({span(judgement)}){but}"
    how = f"{abs(100 * (judgement.ratio - 1)):.1f} % {'faster' if verdict == FASTER else 'slower'}"
    within = "" if verdict == FASTER or judgement.is_too_slow else f", less than the limit of {limit}"
    return f"{how[0].upper()}{how[1:]}{within} ({span(judgement)})"


def advice(measurement: Measurement) -> str:
    """Return how to learn more if the verdict is open; otherwise an empty text."""
    test, judgement = measurement.test, measurement.test.judgement
    if judgement.verdict != CANNOT_TELL:
        return ""
    if judgement.uneven:
        usual = [ns for pair in test.pairs for ns in pair.usual_ns]
        return (
            f"the usual step was {duration(min(usual))} in one process and {duration(max(usual))} in another: other "
            "programs set the pace, or threads that wait for each other; a quieter machine might tell, or "
            "OMP_NUM_THREADS=1 for both"
        )
    needed = max(pairs_for(judgement) or 0, judgement.fewest)
    minutes = needed * test.seconds / max(len(test.pairs), 1) / 60
    return f"some {needed} pairs might tell: --minutes {max(round(minutes * 1.2), 1)}, or a quieter machine"


def how_measured(measurement: Measurement) -> str:
    """Return how many processes were timed, and how."""
    by = compared_by(measurement.test.pairs)
    why = f" ({measurement.plan.why_runs})" if measurement.plan.why_runs else ""
    rng = f"the order of each pair at random; {measurement.test.seconds:.0f} s"
    pairs = counted(len(measurement.test.pairs), "fresh process", "fresh processes")
    return f"{pairs} of each, {_way(measurement, by)}{why}{BY[by]}; {rng}"


def _way(measurement: Measurement, by: ComparedBy) -> str:
    plan = measurement.plan
    if not plan.takes_turns:
        return f"run after run, {plan.turn_steps} steps each"
    if measurement.has_workers:
        whole = plan.settling + plan.turn_steps
        return (
            f"both at once, in {plan.turns} turns of {whole} steps; the first {plan.settling} of each turn, whose "
            "batches the workers had made before, do not count"
        )
    is_on_host = not any(first.gpu for first in measurement.first)
    without = ", without the time in which other programs had the CPU" if is_on_host and by != "quickest" else ""
    return f"both at once, in turns of a few steps{without}"


def cause(change: LikelyCause) -> str:
    """Return what changed, in words."""
    parts = []
    if change.count is not None:
        before, after = (f"{count:.3g}" for count in change.count)
        parts.append(f"{before} a step" if before == after else f"{before} to {after} a step")
    if change.time_ns is not None:
        parts.append(f"{duration(change.time_ns[0])} to {duration(change.time_ns[1])}")
    where = f" ({cut(change.where)})" if change.where else ""
    return f"{KINDS[change.kind]}{cut(change.what)}{where}: {', '.join(parts)}"


def clocks(runs: tuple[Clocks, ...]) -> list[str]:
    """Return lines on the clocks of the recorded runs if they differ, and on a busy machine."""
    if len(runs) < 2:  # noqa: PLR2004  before and after
        return []
    first, second = runs[:2]
    lines = []
    for name, before, after in (("GPU", first.gpu_mhz, second.gpu_mhz), ("CPU", first.cpu_mhz, second.cpu_mhz)):
        if before and after and abs(after / before - 1) > CLOCKS_DIFFER:
            lines.append(f"{name} clock: {before:.0f} to {after:.0f} MHz")
    busiest = max(run.load or 0.0 for run in runs)
    if busiest > first.cores:
        lines.append(f"the machine is busy: a load of {busiest:.1f} on {first.cores} cores")
    return lines


def usual_ns(measurement: Measurement, number: int) -> float:
    """Return the usual step of a version in ns: that of its median process."""
    usual = sorted(pair.usual_ns[number] for pair in measurement.test.pairs)
    return usual[len(usual) // 2]


def ab_to_text(
    measurement: Measurement,
    recorded: RecordedChanges | None,
    remarks: Sequence[str],
    *,
    width: int = 100,
    color: bool = False,
) -> str:
    """Return the result of a measurement as text for a terminal of this width."""
    return laid_out(_paragraphs(measurement, recorded, remarks), width=width, color=color)


def _paragraphs(
    measurement: Measurement, recorded: RecordedChanges | None, remarks: Sequence[str]
) -> Iterator[RenderableType]:
    before, after = measurement.programs
    yield Text(printable(f"{before.name} → {after.name}"), "bold")
    yield Text(f"{sentence(measurement.test.judgement)}.")
    yield section("Step")
    which = "mean" if compared_by(measurement.test.pairs) == "mean" else "usual"
    for number, program in enumerate(measurement.programs):
        usual = [pair.usual_ns[number] for pair in measurement.test.pairs]
        runs = counted(len(usual), "process", "processes")
        around = f"{min(usual) / NS_PER_MS:.4g} to {max(usual) / NS_PER_MS:.4g} ms in {runs}"
        yield fact(duration(usual_ns(measurement, number)), printable(f"{program.name}: the {which} step; {around}"))
    yield bullet(how_measured(measurement))
    mean = measurement.test.mean
    if mean.verdict not in {measurement.test.judgement.verdict, CANNOT_TELL}:
        yield bullet(f"in the mean of all steps, with work that comes only in some: {percent(mean.ratio)}")
    for remark in filter(None, (*remarks, advice(measurement))):
        yield bullet(printable(remark))
    if measurement.test.interrupted:
        yield bullet("interrupted; this is the result so far")
    if recorded is not None:
        yield from _changes(recorded)


def _changes(recorded: RecordedChanges) -> Iterator[RenderableType]:
    yield section("What changed, in a recorded run of each")
    causes = recorded.causes
    if causes is None:
        yield bullet(f"unknown: {printable(recorded.why)}")
        return
    if not causes:
        yield bullet("no difference beyond the noise of one run of each: the same ops, kernels, copies and waits")
    for number, change in enumerate(causes):
        likely = "likely cause: " if number == 0 and change.is_certain else ""
        yield bullet(printable(f"{likely}{cause(change)}"))
    yield from map(bullet, clocks(recorded.clocks))


def bisection_to_text(
    search: Bisection, describe: Callable[[str], str], *, width: int = 100, color: bool = False
) -> str:
    """Return the result of a search as text; `describe` returns a revision and its subject."""
    return laid_out(_search(search, describe), width=width, color=color)


def _search(search: Bisection, describe: Callable[[str], str]) -> Iterator[RenderableType]:
    if search.found is not None:
        yield Text(printable(f"{describe(search.found)}"), "bold")
        if search.ratio is not None:
            yield Text(f"{sentence(search.ratio)} than the good revision: the first slower one.")
    else:
        yield Text(f"Cannot tell which revision: {search.why}.", "bold")
        yield section("The slower one is among")
        yield from (bullet(printable(describe(commit))) for commit in search.suspects)
    yield section("Compared with the good revision")
    for attempt in search.tried:
        outcome = sentence(attempt.judgement) if attempt.judgement else f"left out: {attempt.why}"
        yield bullet(printable(f"{describe(attempt.commit)}: {outcome}"))
