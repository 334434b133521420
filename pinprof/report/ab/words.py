"""The sentences about two versions of a program."""

from collections.abc import Mapping
from math import inf

from pinprof.ab import CANNOT_TELL, FASTER, NO_DIFFERENCE, Contest, Judgement
from pinprof.ab.causes import Cause
from pinprof.ab.clocks import Clocks
from pinprof.ab.duel import ComparedBy, compared_by
from pinprof.ab.verdict import pairs_for
from pinprof.report.words import cut
from pinprof.units import counted, duration

CLOCKS_DIFFER = 0.03
"""Clocks that differ by more than this share make one version slower by themselves."""
BY: Mapping[ComparedBy, str] = {
    "usual": "",
    "quickest": ", by the quickest step of each turn",
    "mean": ", by the mean step, for workers set the pace",
}


def percent(ratio: float) -> str:
    """Return a ratio as the difference from 1: "+3.1 %", "-0.4 %"."""
    if ratio == inf:
        return "unlimited"
    places = 1 if abs(ratio - 1) < 1 else 0
    return f"{round(100 * (ratio - 1), places) + 0.0:+.{places}f} %"  # 0.0 has no sign of its own


def span(judgement: Judgement) -> str:
    """Return where the ratio lies."""
    if judgement.high == inf:
        return f"{judgement.fewest} pairs are needed for an interval"
    return f"{percent(judgement.low)} to {percent(judgement.high)}"


def sentence(judgement: Judgement) -> str:
    """Return the verdict: the number first."""
    limit, verdict = f"{100 * judgement.limit:.3g} %", judgement.verdict
    if verdict == NO_DIFFERENCE:
        return f"No difference above {limit}: {percent(judgement.ratio)} ({span(judgement)})"
    if verdict == CANNOT_TELL:
        but = ", but processes of one version differ twofold" if judgement.uneven else ""
        return f"Cannot tell: {percent(judgement.ratio)} ({span(judgement)}){but}"
    how = f"{abs(100 * (judgement.ratio - 1)):.1f} % {'faster' if verdict == FASTER else 'slower'}"
    within = "" if verdict == FASTER or judgement.is_too_slow else f", less than the limit of {limit}"
    return f"{how[0].upper()}{how[1:]}{within} ({span(judgement)})"


def advice(contest: Contest) -> str:
    """Return how to learn more, where the verdict leaves it open; else nothing."""
    duel, judgement = contest.duel, contest.duel.judgement
    if judgement.verdict != CANNOT_TELL:
        return ""
    if judgement.uneven:
        usual = [ns for pair in duel.pairs for ns in pair.usual_ns]
        return (
            f"the usual step was {duration(min(usual))} in one process and {duration(max(usual))} in another: other "
            "programs set the pace, or threads that wait for each other; a quieter machine might tell, or "
            "OMP_NUM_THREADS=1 for both"
        )
    needed = max(pairs_for(judgement) or 0, judgement.fewest)
    minutes = needed * duel.seconds / max(len(duel.pairs), 1) / 60
    return f"some {needed} pairs might tell: --minutes {max(round(minutes * 1.2), 1)}, or a quieter machine"


def how_measured(contest: Contest) -> str:
    """Return how many processes were timed, and how."""
    by = compared_by(contest.duel.pairs)
    why = f" ({contest.why_runs})" if contest.why_runs else ""
    lot = f"the order of each pair by lot; {contest.duel.seconds:.0f} s"
    pairs = counted(len(contest.duel.pairs), "fresh process", "fresh processes")
    return f"{pairs} of each, {_way(contest, by)}{why}{BY[by]}; {lot}"


def _way(contest: Contest, by: ComparedBy) -> str:
    plan = contest.plan
    if contest.turns == "runs":
        return f"run after run, {plan.turn_steps} steps each"
    if contest.has_workers:
        whole = plan.settling + plan.turn_steps
        return (
            f"both at once, in {plan.turns} turns of {whole} steps; the first {plan.settling} of each turn, whose "
            "batches the workers had made before, do not count"
        )
    is_on_host = not any(first.gpu for first in contest.first)
    without = ", without the time in which other programs had the CPU" if is_on_host and by != "quickest" else ""
    return f"both at once, in turns of a few steps{without}"


def cause(change: Cause) -> str:
    """Return what changed, in words."""
    parts = []
    if change.count is not None:
        before, after = (f"{count:.3g}" for count in change.count)
        parts.append(f"{before} a step" if before == after else f"{before} to {after} a step")
    if change.time_ns is not None:
        parts.append(f"{duration(change.time_ns[0])} to {duration(change.time_ns[1])}")
    where = f" ({cut(change.where)})" if change.where else ""
    return f"{KINDS[change.kind]}{cut(change.what)}{where}: {', '.join(parts)}"


KINDS = {
    "input": "input: ",
    "wait": "wait: ",
    "copy": "copy: ",
    "launches": "",
    "kernel": "kernel ",
    "op": "op ",
    "edit": "changed line: ",
    "line": "line: ",
}


def clocks(seen: tuple[Clocks, ...]) -> list[str]:
    """Return what the clocks of the recorded runs say, if they differ or the machine was busy."""
    if len(seen) < 2:  # noqa: PLR2004  before and after
        return []
    said = []
    for name, before, after in (
        ("GPU", seen[0].gpu_mhz, seen[1].gpu_mhz),
        ("CPU", seen[0].cpu_mhz, seen[1].cpu_mhz),
    ):
        if before and after and abs(after / before - 1) > CLOCKS_DIFFER:
            said.append(f"{name} clock: {before:.0f} to {after:.0f} MHz")
    busiest = max((each.load or 0.0 for each in seen), default=0.0)
    if busiest > seen[0].cores:
        said.append(f"the machine is busy: a load of {busiest:.1f} on {seen[0].cores} cores")
    return said
