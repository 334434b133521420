"""What shows why the step is long, and what to do first: one advice in the terminal, on the page and in JSON."""

from collections.abc import Iterator
from typing import NamedTuple

from pinprof.analyses.launches import MEANING
from pinprof.measurement.division import OUTSIDE, busiest, busiest_idle_times
from pinprof.measurement.known import given
from pinprof.measurement.profile import Profile
from pinprof.report.trace.actions import WORTH, brief_actions
from pinprof.report.trace.headline import MEASURE, is_cut, lost, of_causes, way_to_ranks
from pinprof.report.trace.host import first_line
from pinprof.report.words import all_together, at_sites, begun, printable, untold, worth
from pinprof.rules import Finding, Findings, finding_of_verdict, unsearched
from pinprof.trace.tables import DIRECTIONS, DTOH, HTOD
from pinprof.units import between, duration, how_many
from pinprof.verdict import BY_HOST, COPY, LIMITS, LimitName

LESS_READ = "copy less to the host: compute on the GPU what is read of it"
"""What to do first about copies to the host."""
ALSO = 0.05
"""Further causes that cost at least this share of the step are named."""
CLEARLY = 1.1
"""A fix that saves this many times the cost of the verdict's cause also saves time of other causes."""
PAUSED = 0.5
"""Where a pause of the host takes this share of the time in which the GPU is idle, it is what to look at first."""
SLOW_MEANING = (
    "the first launch of a kernel may load or compile its code, and a profiler of counters delays every launch. "
    "Record steps after a warm-up, without counters."
)
NO_RULE_FITS = "No rule of pinprof fits: the timeline shows when the GPU is idle or only copies."
NONE_ALONE = "No single change saves a measurable time."


class Advice(NamedTuple):
    """What to do first."""

    sentence: str
    """As the terminal and the page show it; where there is nothing to do, that."""
    do: str | None
    """The same as a clause; None where there is nothing to do."""
    finding: int | None = None
    """Place of the finding that it is about, from 0; None where it is about none."""


def advice(profile: Profile, findings: Findings) -> Advice:
    """Return the change with the largest predicted saving; where none is predicted, what answers the verdict."""
    if not profile.gpus:
        line = first_line(profile)
        return _first(line) if line else _remark(way_to_gpu(profile))
    place = _place(profile, findings)
    if place is not None:
        return _first(_change(profile, findings, place), place)
    verdict = findings.verdict
    alone = _long_pause(profile) or _slow_launches(profile) if verdict.cause in {None, *BY_HOST} else ""
    if alone:
        return _remark(alone)
    if verdict.cause is not None:
        return _first(_answer(profile, verdict.cause))
    if verdict.between:
        return _first("; ".join([*way_to_ranks(verdict), MEASURE]))
    return Advice(unfound(profile, findings) or NONE_ALONE, None)


def _first(what: str, finding: int | None = None) -> Advice:
    return Advice(f"First: {what}.", what, finding)


def _remark(sentence: str) -> Advice:
    return Advice(sentence, sentence.removesuffix("."))


def evidence(profile: Profile, findings: Findings) -> Iterator[str]:
    """Yield what shows why a step is long, and where that is to be found that the trace cannot tell."""
    verdict = findings.verdict
    cost, step = verdict.cost, verdict.step_ns or 1.0
    if cost and verdict.cause != "gpu" and cost.range_ns[1] > cost.range_ns[0]:
        yield f"it may cost {between(*cost.range_ns)}"
    named = {verdict.cause, "gpu", *(cost.cause for cost in verdict.between)}
    also = [cost for cost in of_causes(verdict) if cost.cause not in named and cost.ns >= ALSO * step]
    if also:
        costs = ", ".join(f"{LIMITS[cost.cause].lost} {duration(cost.ns)}" for cost in also)
        yield f"other causes, each alone (they overlap): {costs}"
    if _place(profile, findings) is not None:  # else it is what to do
        yield from way_to_ranks(verdict)


def _place(profile: Profile, findings: Findings) -> int | None:
    """Return the place of the finding to mend first; None where none saves much and none answers the verdict."""
    least, verdict = WORTH * (profile.step_ns or 0.0), findings.verdict
    joint = findings.joint.saving_ns if findings.joint else 0.0
    if findings and findings[0].saving and max(findings[0].saving.saving_ns, joint) >= least > 0:
        return 0
    answer = finding_of_verdict(findings)
    if answer is not None or verdict.cause is not None or verdict.between:
        return answer
    return next((action.place for action in brief_actions(profile, findings)), None)


def _change(profile: Profile, findings: Findings, place: int) -> str:
    """Return what to mend and what that saves, joined with the verdict where it is about another cause."""
    finding, joint, least = findings[place], findings.joint, WORTH * (profile.step_ns or 0.0)
    if finding.saving:
        saves = f"fixing it {worth(finding, profile, in_short=True)}"
    else:
        saves = untold(finding) or f"it {worth(finding, profile)}"
    if finding.saving and finding.saving.saving_ns < least and joint and joint.saving_ns >= least:
        saves += f", {all_together(joint)} {duration(joint.saving_ns)}"
    at = printable(at_sites(finding))
    return f"{finding.title}{at} ({finding.rule.id}); {saves}{_joined(profile, findings, place)}"


def _joined(profile: Profile, findings: Findings, place: int) -> str:
    """Return how a change goes with the verdict: it may remove more than its cause, or be about another one."""
    cause, finding = findings.verdict.cause, findings[place]
    if cause is None or is_of_verdict(findings, finding):
        return "; that includes time of other causes" if removes_more(findings, finding) else ""
    answer = finding_of_verdict(findings)
    other = _answer(profile, cause) if answer is None else f"{findings[answer].title} ({findings[answer].rule.id})"
    return f", the largest predicted saving; as for {LIMITS[cause].lost}: {other}"


def is_of_verdict(findings: Findings, finding: Finding) -> bool:
    """Return whether a finding is about the verdict's cause, or there is no such cause."""
    return findings.verdict.cause is None or findings.verdict.cause in finding.rule.answers


def removes_more(findings: Findings, finding: Finding) -> bool:
    """Return whether a fix saves more than the verdict's cause costs, and so time of other causes, too."""
    cost, saving = findings.verdict.cost, finding.saving
    if cost is None or saving is None or cost.cause not in finding.rule.answers:
        return False
    return saving.saving_ns > CLEARLY * cost.ns


def unfound(profile: Profile, findings: Findings) -> str:
    """Return why rules are silent, or that none of them holds; nothing where some hold."""
    reason, mean, whole = unsearched(profile), busiest(profile), profile.steps.whole
    if reason:
        return f"Some rules were not checked: {reason.what}."
    if findings:
        return ""
    if mean is None:
        return f"No {whole} has GPU work to search."
    return NO_RULE_FITS if lost(profile, mean) else f"No copy or wait costs the {whole} a measurable time."


def _long_pause(profile: Profile) -> str:
    """Return that the host runs nothing for most of the time in which the GPU is idle; nothing else."""
    pause, late = profile.pause, _late_ns(profile, "host_wait") or _late_ns(profile, OUTSIDE)
    if pause is None or not late or pause.time_ns < PAUSED * late:
        return ""
    if pause.time_ns > late and not _late_ns(profile, "host_wait"):
        return ""  # around the work of the only step: the host is done, and the GPU still works
    where = f"{printable(pause.between)}: that is {MEANING}"
    of = "each step" if profile.steps.count > 1 else f"the {profile.steps.whole}"
    lasts = f"The host runs no op and no call for {duration(pause.time_ns)} of {of}, as traced"
    return f"{lasts}, {where}. A profiler of Python code, such as py-spy, shows the line."


def _slow_launches(profile: Profile) -> str:
    """Return that few launches take most of the time in which the GPU is idle; nothing else."""
    slow, late = profile.slow_launches, _late_ns(profile, "host_wait")
    if slow is None or not late or slow.time_ns < PAUSED * late:
        return ""
    which = f"{how_many(slow.count)} {'launch' if slow.count == 1 else 'launches'}"
    lasts = f"{which} {'takes' if slow.count == 1 else 'take'} {duration(slow.time_ns)} {profile.steps.per}, as traced"
    return f"{lasts}: {SLOW_MEANING}"


def _late_ns(profile: Profile, cause: str) -> float:
    """Return how long a step as traced the GPU is idle, in ns, if mostly for this cause and the host is the limit."""
    if profile.bound != "host":  # known only where the causes of idle time are
        return 0.0
    times = busiest_idle_times(profile)
    idle = max((profile.steps.traced_ns or 0.0) - (profile.steps.busy_ns or 0.0), 0.0)
    return idle if max(times, key=lambda cause: times[cause]) == cause else 0.0


def way_to_gpu(profile: Profile) -> str:
    """Return how to record what a trace without work of a GPU does not show."""
    remedy = next(entry.remedy for entry in profile.doubts if entry.check == "no_gpu")
    return f"{begun(remedy)}." if is_cut(profile) else f"To see copies and waits: {remedy}."


def _answer(profile: Profile, cause: LimitName) -> str:
    """Return what to do about a cause of a long step where no finding says more.

    Of copies: by the direction of most of their time, and whether any is of pageable memory.
    """
    if cause != COPY:
        return LIMITS[cause].advice
    times = dict.fromkeys((DIRECTIONS[HTOD], DIRECTIONS[DTOH]), 0)
    for group in profile.copies:
        copied = given(group.copied)
        if copied and group.direction in times:
            times[group.direction] += copied.time_ns
    if times[DIRECTIONS[DTOH]] > times[DIRECTIONS[HTOD]]:
        return LESS_READ
    pageable = any(group.host_memory == "pageable" for group in profile.copies)
    return f"pin memory, {LIMITS[COPY].advice}" if pageable else LIMITS[COPY].advice
