"""The verdict of a report in words: how long the step takes and why, what to do first, and what shows it."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from pinprof.analyses.launches import PAUSE_MEANING
from pinprof.analyses.step_parts import MeanStep
from pinprof.measurement.profile import OUTSIDE_WORK, Profile, busiest, busiest_idle_times
from pinprof.measurement.trust.doubt import given
from pinprof.report.trace.finding_views import MIN_SAVED_SHARE_OF_STEP, brief_views, named
from pinprof.report.trace.host import first_line, host_time
from pinprof.report.trace.step import gpu_work_facts, name_of_whole, share_of_step, why_idle
from pinprof.report.trace.whole_run import OF_STEPS
from pinprof.report.words import (
    at_costliest_site,
    capitalized,
    joined_by_or,
    known_length,
    printable,
    which_together,
    worth,
    worth_without_replay,
)
from pinprof.rules.rule import Finding, Findings
from pinprof.rules.search import finding_of_verdict, unsearched
from pinprof.trace.metadata.info import batches_held
from pinprof.trace.tables import DIRECTIONS, DTOH, HTOD
from pinprof.trace.vendors import foreign_vendor
from pinprof.units import between, counted, duration, how_many, percent, ranged
from pinprof.verdict.step_limits import (
    AWAITED,
    BY_HOST,
    COMMUNICATION,
    COPY,
    GPU,
    HOST,
    INPUT,
    IRREGULAR,
    LIMITS,
    LimitName,
)
from pinprof.verdict.verdict import LimitCost, Verdict

WORTH_NAMING = 0.02
"""A smaller share of the step is not what to look at first."""
WORK = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cpu_op", "python_function")
"""Categories of events; a recording in which anything ran has some of them."""
MEASURE = "pinprof run SCRIPT measures the step without the profiler"
"""Advice where an estimated step is too uncertain to tell causes apart."""
ALL_RANKS = "a report on all ranks of the job shows whether they transfer, or wait for other ranks"
IN_JOB = "the comparison of the ranks shows who waits for whom"
ALONE = 0.1
"""Collectives that run alone for this share of the step need a word, whatever else the cause is."""
RARER = {
    "evaluation": "evaluate less often, or on less data",
    "epoch_end": "persistent_workers=True keeps the workers of a DataLoader from one epoch to the next",
    "checkpoint": "save checkpoints less often",
}
"""What to do about irregular steps, by their reason."""
LESS_READ = "copy less to the host: compute on the GPU what is read of it"
"""What to do first about copies to the host."""
ALSO_NAMED = 0.05
"""Further causes that cost at least this share of the step are named."""
CLEARLY_MORE = 1.1
"""A fix that saves this many times the cost of the verdict's cause also saves time of other causes."""
USUALLY_HELD = 16
"""Batches that 8 workers have ready, 2 each: what the queues may hold where their number is not known."""
PAUSED = 0.5
"""A pause of the host that takes this share of the GPU's idle time is what to look at first."""
SLOW_MEANING = (
    "the first launch of a kernel may load or compile its code, and a profiler of counters delays every launch. "
    "Record steps after a warm-up, without counters."
)
OTHER_CAUSES = "other causes, each alone (they overlap)"
NO_RULE_FITS = "No rule of pinprof fits: the timeline shows when the GPU is idle or only copies."
NONE_ALONE = "No single change saves a measurable time."


def verdict_sentence(profile: Profile, verdict: Verdict) -> str:
    """Return how long a step takes and why, without the last full stop; of a file that is cut off, that it is so."""
    sentence = _sentence(profile, verdict)
    return f"The file is cut off. What is left of it: {sentence}" if is_cut(profile) else sentence


def _sentence(profile: Profile, verdict: Verdict) -> str:
    if not any(category in WORK or foreign_vendor(category) for category in profile.counts):
        return "Nothing was recorded: the trace has no op, no call and no GPU work"
    if verdict.cause is not None:
        length, why = step_length(profile), _why(profile, verdict, verdict.cause)
        return f"{LIMITS[verdict.cause].word}: {length}; {why}"
    length, mean = capitalized(step_length(profile)), busiest(profile)
    if verdict.between:
        return f"{length}: {_cannot_tell(profile, verdict)}"
    where = ", and ".join(lost_time(profile, mean, verdict) if mean else []) or _working(profile, mean)
    return f"{length}; {where}" if where else length


def known_verdict(profile: Profile, verdict: Verdict) -> str | None:
    """Return `verdict_sentence` if it names a cause or the possible causes, otherwise None."""
    return verdict_sentence(profile, verdict) if verdict.cause is not None or verdict.between else None


def _why(profile: Profile, verdict: Verdict, cause: LimitName) -> str:
    why, cost, mean = LIMITS[cause].why, verdict.cost, busiest(profile)
    if cause == COPY and verdict.awaited:
        why = AWAITED.format("each copy" if verdict.awaited <= 1 else f"each of {how_many(verdict.awaited)} copies")
    if cost is None or not verdict.step_ns or (cause == GPU and mean is None):
        return why
    if cause == GPU and mean:
        works = f"{_gpu_name(profile, mean)} works for {share_of_step(mean.work_ns, mean)} of it"
        return works + (", and waits for the host" if profile.bound == "host" else "")
    if cause == IRREGULAR:
        run = profile.whole_run
        spent = sum(entry.ns for entry in run.ledger if entry.what in OF_STEPS) / run.wall_ns if run else 0.0
        of_run = f", {percent(spent)} of the run" if spent >= WORTH_NAMING else ""
        return f"{why}. Over all steps, they add {duration(cost.ns)} to each{of_run}"
    costs = ranged(cost.ns, cost.range_ns)
    certainty = "; ".join(filter(None, (percent(cost.ns / verdict.step_ns), costs.range)))
    return f"{why}, which costs {costs.number} of it ({certainty})"


def _cannot_tell(profile: Profile, verdict: Verdict) -> str:
    """Return the causes that the trace cannot tell apart, with what each may cost."""
    mean, costs = busiest(profile), verdict.between
    works = f"{_gpu_name(profile, mean)} works for {share_of_step(mean.work_ns, mean)} of it, and " if mean else ""
    if mean and any(cost.cause == COMMUNICATION for cost in costs):
        works = f"collectives run alone for {share_of_step(mean.collective_ns, mean)} of it, and "
    what = f"what {LIMITS[costs[0].cause].lost} cost: {between(*costs[0].range_ns)}"
    if len(costs) > 1:
        named = [f"{LIMITS[cost.cause].lost} ({between(*cost.range_ns)})" for cost in costs]
        what = f"which costs most: {joined_by_or(named)}"
    return f"{works}the trace cannot tell {what}"


def _range_of(profile: Profile) -> str:
    """Return which runs the range of a measured step covers."""
    runs = profile.whole_run.runs if profile.whole_run else None
    if profile.estimate.source != "measured":
        return ""
    if runs is None:
        return " in this run"
    return " in other runs" if runs.range_ns else f" in {len(runs.step_ns)} runs"


def step_length(profile: Profile) -> str:
    """Return how long a step takes: without the profiler if that is known, otherwise as traced."""
    estimate, step = profile.estimate, profile.step_ns
    is_step = profile.steps.whole == "step"
    per = "per step" if is_step else "for the whole trace, in which no step was found"
    if not is_step and estimate.source != "estimated":
        per = "per step, as measured before the recording; the trace has no whole step"
    length = known_length(profile)
    if length:
        where = f"{length.range}{_range_of(profile)}" if length.range else ""
        certainty = "; ".join(filter(None, ("estimated" if estimate.source == "estimated" else "", where)))
        return f"{length.number} {per}" + (f" ({certainty})" if certainty else "")
    if profile.step_range_ns:
        return f"{between(*profile.step_range_ns)} {per} (estimated)"
    if step:
        return f"{duration(step)} {per} as traced" if is_step else f"{duration(step)} as traced {per}"
    return f"The length of the {profile.steps.whole} is not known"


def lost_time(profile: Profile, mean: MeanStep, verdict: Verdict) -> list[str]:
    """Return where the step's time is lost, most first."""
    idle, whole = why_idle(profile, mean, verdict), name_of_whole(profile, mean)
    it = "it" if whole == profile.steps.whole else f"the {whole}"
    is_idle = f"{_gpu_name(profile, mean)} is idle for {share_of_step(mean.idle_ns, mean)} of {it}"
    times = [
        (mean.idle_ns, f"{is_idle} ({idle})" if idle else is_idle),
        (mean.copy_ns, f"copies that no kernel overlaps take {share_of_step(mean.copy_ns, mean)} of {it}"),
    ]
    return [words for time, words in sorted(times, reverse=True) if time >= WORTH_NAMING * mean.length_ns > 0]


def _gpu_name(profile: Profile, mean: MeanStep) -> str:
    """Return "the GPU", or "GPU" and its number if there are several."""
    return "the GPU" if len(profile.parts) == 1 else f"GPU {mean.device}"


def _working(profile: Profile, mean: MeanStep | None) -> str:
    if not profile.gpus:
        cut = "the end of the file is lost, and with it all work of the GPU"
        alone = host_time(profile)
        return (cut if is_cut(profile) else "no GPU work was recorded") + (f". The host: {alone}" if alone else "")
    for fact in gpu_work_facts(profile) if profile.withheld.step else ():
        return f"the GPU works for {fact.number}, {fact.meaning}"
    return f"kernels run for {share_of_step(mean.compute_ns + mean.both_ns, mean)} of it" if mean else ""


def is_cut(profile: Profile) -> bool:
    """Return whether the file ends too early."""
    return profile.doubt("truncated") is not None


def listed_costs(verdict: Verdict) -> Iterator[LimitCost]:
    """Yield the costs of all causes, the costliest first; that of the host only if it is the verdict."""
    return (cost for cost in verdict.costs if cost.cause != HOST or cost.cause == verdict.cause)


def how_to_see_ranks(profile: Profile, verdict: Verdict) -> list[str]:
    """Return the advice to report on all ranks, if communication may be the cause, and that is not done yet."""
    return [ALL_RANKS] if not profile.of_job and any(cost.cause == COMMUNICATION for cost in verdict.between) else []


def input_uncertain(profile: Profile) -> str:
    """Return why the recorded steps do not show whether workers keep up: batches may have waited in their queues."""
    batches, steps = batches_held(profile.info.made), profile.steps.count
    if not profile.loader.by_workers or profile.bound == INPUT or profile.estimate.source != "estimated":
        return ""
    if steps > (batches or USUALLY_HELD):
        return ""
    queues = "the workers' queues" + (f", which hold {counted(batches, 'batch', 'batches')}," if batches else "")
    has = f"it has {counted(steps, 'step')}, before which {queues} may have been full"
    return f"The trace cannot tell whether the input keeps up: {has}"


# What to do first


class FirstAction(NamedTuple):
    """What to do first."""

    sentence: str
    """For the terminal and the page; it says so if there is nothing to do."""
    do: str | None
    """The same as a clause; None if there is nothing to do."""
    finding: int | None = None
    """The index of the finding that it is about."""


def advice(profile: Profile, findings: Findings) -> FirstAction:
    """Return the change with the largest predicted saving; without one, what answers the verdict."""
    if not profile.gpus:
        line = first_line(profile)
        return _first(line) if line else _remark(how_to_record_gpu(profile))
    number = _first_finding(profile, findings)
    if number is not None:
        return _first(_change(profile, findings, number), number)
    verdict = findings.verdict
    alone = _long_pause(profile) or _slow_launches(profile) if verdict.cause in {None, *BY_HOST} else ""
    if alone:
        return _remark(alone)
    if verdict.cause is not None:
        return _first(_answer(profile, verdict.cause))
    if verdict.between:
        return _first("; ".join([*how_to_see_ranks(profile, verdict), MEASURE]))
    return FirstAction(why_no_finding(profile, findings) or NONE_ALONE, None)


def _first(what: str, finding: int | None = None) -> FirstAction:
    return FirstAction(f"First: {what}.", what, finding)


def _remark(sentence: str) -> FirstAction:
    return FirstAction(sentence, sentence.removesuffix("."))


def evidence(profile: Profile, findings: Findings) -> Iterator[str]:
    """Yield what else makes a step long, and where to find what the trace cannot tell."""
    costs = other_costs(findings.verdict)
    if costs:
        yield f"{OTHER_CAUSES}: {', '.join(map(_cost, costs))}"
    if _first_finding(profile, findings) is not None:  # without one it is the advice itself
        yield from how_to_see_ranks(profile, findings.verdict)
    yield from filter(None, (input_uncertain(profile),))


def next_cause(verdict: Verdict, but: Collection[str]) -> str:
    """Return which cause costs most after those of the verdict and of `but`; nothing if it may cost little."""
    least_ns = ALSO_NAMED * (verdict.step_ns or 1.0)
    sure = (cost for cost in other_costs(verdict) if cost.cause not in but and cost.range_ns[0] >= least_ns)
    return next((f"Another cause, by itself: {_cost(cost)}" for cost in sure), "")


def other_costs(verdict: Verdict) -> list[LimitCost]:
    """Return the causes that cost much, besides those of the verdict."""
    named = {verdict.cause, "gpu", *(cost.cause for cost in verdict.between)}
    least_ns = ALSO_NAMED * (verdict.step_ns or 1.0)
    return [cost for cost in listed_costs(verdict) if cost.cause not in named and cost.ns >= least_ns]


def _cost(cost: LimitCost) -> str:
    return f"{LIMITS[cost.cause].lost} {ranged(cost.ns, cost.range_ns)}"


def _first_finding(profile: Profile, findings: Findings) -> int | None:
    """Return the index of the finding to mend first; None if none saves much or answers the verdict."""
    least, verdict = MIN_SAVED_SHARE_OF_STEP * (profile.step_ns or 0.0), findings.verdict
    joint = findings.joint.saving_ns if findings.joint else 0.0
    if verdict.cause == IRREGULAR and not any(finding.evidence.is_irregular for finding in findings[:1]):
        return None
    if findings and findings[0].saving and max(findings[0].saving.saving_ns, joint) >= least > 0:
        return 0
    if findings and findings[0].evidence.is_irregular and findings[0].evidence.cost_ns >= least > 0:
        return 0
    answer = finding_of_verdict(findings)
    if answer is not None or verdict.cause is not None or verdict.between:
        return answer
    return next((view.number for view in brief_views(profile, findings)), None)


def _change(profile: Profile, findings: Findings, number: int) -> str:
    """Return what to mend and what that saves, with the verdict's own answer if the finding is about another cause."""
    finding, joint, least = findings[number], findings.joint, MIN_SAVED_SHARE_OF_STEP * (profile.step_ns or 0.0)
    if finding.saving and finding.saving.saving_ns < least and joint and joint.saving_ns >= least:
        saves = f"{which_together(joint)} save {duration(joint.saving_ns)}"
    elif finding.saving:
        saves = f"fixing it {worth(finding, profile, in_short=True)}"
    else:
        saves = worth_without_replay(finding) or f"it {worth(finding, profile)}"
    at = printable(at_costliest_site(finding))
    return f"{finding.title}{at} ({finding.rule.id}); {saves}{_joined(profile, findings, number)}"


def _joined(profile: Profile, findings: Findings, number: int) -> str:
    """Return how a change relates to the verdict: it removes more than its cause, or is about another one."""
    cause, finding = findings.verdict.cause, findings[number]
    if cause is None or is_of_verdict(findings, finding):
        return "; that includes time of other causes" if removes_more(findings, finding) else ""
    answer = finding_of_verdict(findings)
    other = _answer(profile, cause) if answer is None else named(findings[answer])
    largest = "" if finding.evidence.is_irregular else ", the largest predicted saving"
    return f"{largest}; as for {LIMITS[cause].lost}: {other}"


def is_of_verdict(findings: Findings, finding: Finding) -> bool:
    """Return whether a finding is about the verdict's cause, or the verdict has none."""
    return findings.verdict.cause is None or findings.verdict.cause in finding.rule.answers


def removes_more(findings: Findings, finding: Finding) -> bool:
    """Return whether a fix saves clearly more than the verdict's cause costs: it also saves time of other causes."""
    cost, saving = findings.verdict.cost, finding.saving
    if cost is None or saving is None or cost.cause not in finding.rule.answers:
        return False
    return saving.saving_ns > CLEARLY_MORE * cost.ns


def unanswered(profile: Profile, findings: Findings, shown: Collection[Finding]) -> Iterator[str]:
    """Yield what to do about each cause of the verdict that none of the changes shown answers."""
    verdict, mean = findings.verdict, busiest(profile)
    causes = [verdict.cause] if verdict.cause else [cost.cause for cost in verdict.between]
    answered = {GPU, IRREGULAR, *(cause for finding in shown for cause in finding.rule.answers)}
    if advice(profile, findings).finding is None:  # it is about the causes themselves
        answered.update(causes)
    if mean and mean.collective_ns >= ALONE * mean.length_ns > 0:
        causes.append(COMMUNICATION)
    if answered & BY_HOST:
        answered.add(HOST)
    for cause in dict.fromkeys(causes):
        if cause not in answered:
            yield f"As for {LIMITS[cause].lost}: {_answer(profile, cause)}."


def why_no_finding(profile: Profile, findings: Findings) -> str:
    """Return why rules were not checked, or that none holds; empty if all were checked and some hold."""
    reason, mean, whole = unsearched(profile), busiest(profile), profile.steps.whole
    if reason:
        return f"Some rules were not checked: {reason.what}."
    if findings:
        return ""
    if mean is None:
        return f"No {whole} has GPU work to search."
    return (
        NO_RULE_FITS
        if lost_time(profile, mean, findings.verdict)
        else f"No copy or wait costs the {whole} a measurable time."
    )


def _long_pause(profile: Profile) -> str:
    """Return that a pause of the host takes most of the GPU's idle time; empty if none does."""
    pause, late = profile.pause, _late_ns(profile, "host_wait") or _late_ns(profile, OUTSIDE_WORK)
    if pause is None or not late or pause.time_ns < PAUSED * late:
        return ""
    if pause.time_ns > late and not _late_ns(profile, "host_wait"):
        return ""  # around the work of the only step: the host is done, and the GPU still works
    where = f"{printable(pause.between)}: that is {PAUSE_MEANING}"
    of = "each step" if profile.steps.count > 1 else f"the {profile.steps.whole}"
    lasts = f"The host runs no op and no call for {duration(pause.time_ns)} of {of}, as traced"
    return f"{lasts}, {where}. A profiler of Python code, such as py-spy, shows the line."


def _slow_launches(profile: Profile) -> str:
    """Return that a few launches take most of the GPU's idle time; empty if none do."""
    slow, late = profile.slow_launches, _late_ns(profile, "host_wait")
    if slow is None or not late or slow.time_ns < PAUSED * late:
        return ""
    which = f"{how_many(slow.count)} {'launch' if slow.count == 1 else 'launches'}"
    lasts = f"{which} {'takes' if slow.count == 1 else 'take'} {duration(slow.time_ns)} {profile.steps.per}, as traced"
    return f"{lasts}: {SLOW_MEANING}"


def _late_ns(profile: Profile, cause: str) -> float:
    """Return the GPU's idle time per step as traced, in ns; 0 unless it is mostly of this cause and host-bound."""
    if profile.bound != "host":  # known only where the causes of idle time are
        return 0.0
    times = busiest_idle_times(profile)
    idle = max((profile.steps.traced_ns or 0.0) - (profile.steps.busy_ns or 0.0), 0.0)
    return idle if max(times, key=lambda cause: times[cause]) == cause else 0.0


def how_to_record_gpu(profile: Profile) -> str:
    """Return how to record GPU work, which the trace does not have."""
    remedy = next(entry.remedy for entry in profile.doubts if entry.check == "no_gpu")
    return f"To see copies and waits: {remedy}." if remedy.startswith("record") else f"{capitalized(remedy)}."


def _answer(profile: Profile, cause: LimitName) -> str:
    """Return what to do about a cause of a long step if no finding says more.

    For copies it depends on the direction of most of their time, and on pageable memory; for irregular steps on what
    makes them longer.
    """
    if cause == COMMUNICATION and profile.of_job:
        return IN_JOB
    if cause == IRREGULAR:
        longest = sorted(profile.unlike, key=lambda irregular: -irregular.per_step_ns)
        rarer = [RARER[irregular.reason] for irregular in longest if irregular.reason in RARER]
        return "; ".join(rarer) or LIMITS[cause].advice
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
