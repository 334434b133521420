"""The first screen of a report in words: how long the step takes and why, what to do first, and what else costs time.

All take the facts of `first_screen.py`. Sentences are without their last full stop, unless they say otherwise.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from pinprof.analyses.launches import PAUSE_MEANING
from pinprof.analyses.step_parts import MeanStep
from pinprof.ground.units import between, counted, duration, percent, ranged
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import given
from pinprof.report.findings.views import MIN_SAVED_SHARE_OF_STEP, named
from pinprof.report.trace.first_screen import FirstScreen, is_of_verdict, removes_more
from pinprof.report.trace.sections.host import first_line, host_time
from pinprof.report.trace.sections.whole_run import WHY_IRREGULAR
from pinprof.report.trace.step import gpu_work_facts, name_of_whole, share_of_step, why_idle
from pinprof.report.words import (
    at_costliest_site,
    capitalized,
    known_length,
    printable,
    which_together,
    worth,
    worth_without_replay,
)
from pinprof.rules.rule import Finding
from pinprof.rules.search import finding_of_verdict, unsearched
from pinprof.trace.metadata.info import batches_held
from pinprof.trace.tables import DIRECTIONS, DTOH, HTOD
from pinprof.verdict.step_limits import AWAITED, BY_HOST, COMMUNICATION, COPY, GPU, IRREGULAR, LIMITS, LimitName
from pinprof.verdict.verdict import LimitCost

MIN_LOST_SHARE_OF_STEP = 0.02
"""Less lost time is not what to look at first."""
ADVICE_TO_MEASURE = "pinprof run SCRIPT measures the step without the profiler"
"""Advice where an estimated step is too uncertain to tell causes apart."""
REPORT_ALL_RANKS = "a report on all ranks of the job shows whether they transfer, or wait for other ranks"
ADVICE_BY_COLLECTIVE = (
    (
        "(?i)all_?reduce",
        "reduce gradients less often (no_sync() in micro-steps), in fewer bytes (a bf16 hook), or in smaller buckets",
    ),
    (
        "(?i)gather|scatter",
        "let FSDP prefetch weights, or keep them gathered (reshard_after_forward=False)",
    ),
    ("(?i)all_?to_?all", "exchange fewer rows, or overlap the exchange with independent work"),
)
"""By the name of the collective that is exposed longest."""
ADVICE_ON_PAIRS = "split batches into more micro-batches to keep all stages of the pipeline busy"
WHO_WAITS = "a report on all ranks of the job shows who waits for whom"
LESS_OFTEN = {
    "evaluation": "evaluate less often, or on less data",
    "epoch_end": "persistent_workers=True keeps the workers of a DataLoader from one epoch to the next",
    "checkpoint": "save checkpoints less often",
}
LESS_READ = "copy less to the host: compute on the GPU what is read of it"
SLOW_MEANING = (
    "the first launch of a kernel may load or compile its code, and a profiler of counters delays every launch. "
    "Record steps after a warm-up, without counters."
)
OF_ONE_STEP, OF_ALL_STEPS, OF_TRACE = "per step", "per step, as measured before the recording", "for the whole trace"


def step_length(profile: Profile) -> tuple[str, str]:
    """Return how long a step takes, empty if unknown, and of what and how that is known: as traced if not otherwise."""
    estimate, step_ns, length = profile.estimate, profile.step_ns, known_length(profile)
    is_step, is_estimated = profile.steps.whole == "step", estimate.source == "estimated"
    per = OF_ONE_STEP if is_step else f"{OF_TRACE}, in which no step was found"
    if not is_step and not is_estimated:
        per = f"{OF_ALL_STEPS}; the trace has no whole step"
    if length:
        known = ("estimated" if is_estimated else "", length.range and f"{length.range}{_runs_of_range(profile)}")
        certainty = "; ".join(filter(None, known))
        return length.number, f"{per} ({certainty})" if certainty else per
    if profile.step_range_ns:
        return between(*profile.step_range_ns), f"{per} (estimated)"
    if step_ns:
        return duration(step_ns), f"{per} as traced" if is_step else f"as traced {per}"
    return "", f"The length of the {profile.steps.whole} is not known"


def _runs_of_range(profile: Profile) -> str:
    if profile.estimate.source != "measured":
        return ""
    runs = profile.whole_run.runs if profile.whole_run else None
    if runs is None:
        return " in this run"
    return " in other runs" if runs.range_ns else f" in {len(runs.step_ns)} runs"


# Why the step is long


def headline(screen: FirstScreen, *, has_length: bool = True) -> str:
    """Return how long a step takes and why; of a file that is cut off, that it is so.

    A page that shows the length by itself leaves it out; then the headline is empty if nothing else is known.
    """
    words = _headline(screen, has_length=has_length or not step_length(screen.profile)[0])
    return f"The file is cut off. What is left of it: {words}" if words and screen.is_cut else words


def _headline(screen: FirstScreen, *, has_length: bool) -> str:
    if screen.is_empty:
        return "Nothing was recorded: the trace has no op, no call and no GPU work"
    length, why, cause = " ".join(step_length(screen.profile)).lstrip(), reason(screen), screen.verdict.cause
    if cause is not None:
        return f"{LIMITS[cause].word}: {f'{length}; ' if has_length else ''}{why}"
    if not has_length:
        return capitalized(why)
    before_why = ": " if screen.verdict.between else "; "
    return capitalized(length) + (f"{before_why}{why}" if why else "")


def known_headline(screen: FirstScreen) -> str | None:
    """Return the headline if it names a cause or the possible causes, otherwise None."""
    return headline(screen) if screen.verdict.cause is not None or screen.verdict.between else None


def reason(screen: FirstScreen) -> str:
    """Return why the step is long: the cause, the possible causes, or else where its time is lost; may be empty."""
    if screen.verdict.cause is not None:
        return _why(screen, screen.verdict.cause)
    if screen.verdict.between:
        return _cannot_tell(screen)
    return ", and ".join(lost_time(screen)) or _working(screen)


def _why(screen: FirstScreen, cause: LimitName) -> str:
    profile, verdict, mean = screen.profile, screen.verdict, screen.mean
    why, cost, step_ns = LIMITS[cause].why, verdict.cost, verdict.step_ns
    if cause == COPY and verdict.awaited:
        copies = counted(verdict.awaited, "copy", "copies")
        why = AWAITED.format("each copy" if verdict.awaited <= 1 else f"each of {copies}")
    if cost is None or not step_ns or (cause == GPU and mean is None):
        return why
    if cause == GPU and mean:
        return f"{_works_for(profile, mean)}" + (", and waits for the host" if profile.bound == "host" else "")
    if cause == IRREGULAR:
        return f"{why}. Over all steps, they add {duration(cost.ns)} to each{_share_of_run(profile)}"
    return f"{why}: {ranged(cost.ns, cost.range_ns)}, {percent(cost.ns / step_ns)} of the {profile.steps.whole}"


def _share_of_run(profile: Profile) -> str:
    run = profile.whole_run
    share = sum(entry.ns for entry in run.ledger if entry.what in WHY_IRREGULAR) / run.wall_ns if run else 0.0
    return f", {percent(share)} of the run" if share >= MIN_LOST_SHARE_OF_STEP else ""


def _cannot_tell(screen: FirstScreen) -> str:
    profile, mean, costs = screen.profile, screen.mean, screen.verdict.between
    known = f"{_works_for(profile, mean)}, and " if mean else ""
    if mean and any(cost.cause == COMMUNICATION for cost in costs):
        alone = share_of_step(mean.collective_ns, mean)
        known = f"collectives run alone for {alone} of the {name_of_whole(profile, mean)}, and "
    if len(costs) > 1:
        possible = [f"{LIMITS[cost.cause].lost} ({between(*cost.range_ns)})" for cost in costs]
        return f"{known}the trace cannot tell which costs most: {' or '.join(possible)}"
    return f"{known}the trace cannot tell what {LIMITS[costs[0].cause].lost} cost: {between(*costs[0].range_ns)}"


def lost_time(screen: FirstScreen) -> list[str]:
    """Return where the step's time is lost, most first."""
    profile, mean = screen.profile, screen.mean
    if mean is None:
        return []
    whole, why = name_of_whole(profile, mean), why_idle(profile, mean, screen.verdict)
    idle = f"{_gpu_name(profile, mean)} is idle for {share_of_step(mean.idle_ns, mean)} of the {whole}"
    copies = f"copies that no kernel overlaps take {share_of_step(mean.copy_ns, mean)} of the {whole}"
    times = [(mean.idle_ns, f"{idle} ({why})" if why else idle), (mean.copy_ns, copies)]
    least_ns = MIN_LOST_SHARE_OF_STEP * mean.length_ns
    return [words for time_ns, words in sorted(times, reverse=True) if time_ns >= least_ns > 0]


def _working(screen: FirstScreen) -> str:
    profile, mean = screen.profile, screen.mean
    if not profile.gpus:
        cut = "the end of the file is lost, and with it all work of the GPU"
        of_host = host_time(profile)
        return (cut if screen.is_cut else "no GPU work was recorded") + (f". The host: {of_host}" if of_host else "")
    for fact in gpu_work_facts(profile) if profile.withheld.step else ():
        return f"the GPU works for {fact.number}, {fact.meaning}"
    if mean is None:
        return ""
    return (
        f"kernels run for {share_of_step(mean.compute_ns + mean.both_ns, mean)} of the {name_of_whole(profile, mean)}"
    )


def _works_for(profile: Profile, mean: MeanStep) -> str:
    share = share_of_step(mean.work_ns, mean)
    return f"{_gpu_name(profile, mean)} works for {share} of the {name_of_whole(profile, mean)}"


def _gpu_name(profile: Profile, mean: MeanStep) -> str:
    return "the GPU" if len(profile.parts) == 1 else f"GPU {mean.device}"


# What to do first


class FirstAction(NamedTuple):
    """What to do first."""

    sentence: str
    """With its full stop; it says so if there is nothing to do."""
    do: str | None
    """The same as a clause; None if there is nothing to do."""


def advice(screen: FirstScreen) -> FirstAction:
    """Return the change with the largest predicted saving; without one, what answers the verdict."""
    profile, verdict = screen.profile, screen.verdict
    if not profile.gpus:
        line = first_line(profile)
        return _first(line) if line else _remark(how_to_record_gpu(profile))
    if screen.first is not None:
        return _first(_change(screen, screen.findings[screen.first]))
    if verdict.cause in {None, *BY_HOST} and (screen.pause or screen.slow_launches):
        return _remark(_long_pause(screen) or _slow_launches(screen))
    if verdict.cause is not None:
        return _first(_answer(profile, verdict.cause))
    if verdict.between:
        return _first(f"{REPORT_ALL_RANKS}; {ADVICE_TO_MEASURE}" if screen.lacks_ranks else ADVICE_TO_MEASURE)
    return FirstAction(why_no_finding(screen) or "No single change saves a measurable time.", None)


def _first(clause: str) -> FirstAction:
    return FirstAction(f"First: {clause}.", clause)


def _remark(sentence: str) -> FirstAction:
    return FirstAction(sentence, sentence.removesuffix("."))


def _change(screen: FirstScreen, finding: Finding) -> str:
    profile, joint = screen.profile, screen.findings.joint
    least_ns = MIN_SAVED_SHARE_OF_STEP * (profile.step_ns or 0.0)
    if finding.saving and finding.saving.saving_ns < least_ns and joint and joint.saving_ns >= least_ns:
        saves = f"{which_together(joint)} save {duration(joint.saving_ns)}"
    elif finding.saving:
        saves = f"fixing it {worth(finding, profile, in_short=True)}"
    else:
        saves = worth_without_replay(finding) or f"it {worth(finding, profile)}"
    at = printable(at_costliest_site(finding))
    return f"{finding.title}{at} ({finding.rule.id}); {saves}{_in_verdict(screen, finding)}"


def _in_verdict(screen: FirstScreen, finding: Finding) -> str:
    """Return how a change relates to the verdict: it removes more than its cause, or is about another one."""
    findings, cause = screen.findings, screen.verdict.cause
    if cause is None or is_of_verdict(findings, finding):
        return "; that includes time of other causes" if removes_more(findings, finding) else ""
    answer = finding_of_verdict(findings)
    other = _answer(screen.profile, cause) if answer is None else named(findings[answer])
    largest = "" if finding.evidence.is_irregular else ", the largest predicted saving"
    return f"{largest}; as for {LIMITS[cause].lost}: {other}"


def _long_pause(screen: FirstScreen) -> str:
    profile, pause = screen.profile, screen.pause
    if pause is None:
        return ""
    of = "each step" if profile.steps.count > 1 else f"the {profile.steps.whole}"
    return (
        f"The host runs no op and no call for {duration(pause.time_ns)} of {of}, as traced, "
        f"{printable(pause.between)}: that is {PAUSE_MEANING}. "
        "A profiler of Python code, such as py-spy, shows the line."
    )


def _slow_launches(screen: FirstScreen) -> str:
    slow = screen.slow_launches
    if slow is None:
        return ""
    launches = f"{counted(slow.count, 'launch', 'launches')} {'takes' if slow.count == 1 else 'take'}"
    return f"{launches} {duration(slow.time_ns)} {screen.profile.steps.per}, as traced: {SLOW_MEANING}"


def how_to_record_gpu(profile: Profile) -> str:
    """Return how to record GPU work, which the trace does not have, as a sentence."""
    remedy = next(doubt.remedy for doubt in profile.doubts if doubt.check == "no_gpu")
    return f"To see copies and waits: {remedy}." if remedy.startswith("record") else f"{capitalized(remedy)}."


def _answer(profile: Profile, cause: LimitName) -> str:
    """Return what to do about a cause of a long step if no finding says more.

    For copies it depends on the direction of most of their time, and on pageable memory; for irregular steps on what
    makes them longer.
    """
    if cause == COMMUNICATION:
        return _on_communication(profile) if profile.of_job else f"{_on_communication(profile)}; {WHO_WAITS}"
    if cause == IRREGULAR:
        longest = sorted(profile.unlike, key=lambda irregular: -irregular.per_step_ns)
        less_often = [LESS_OFTEN[irregular.reason] for irregular in longest if irregular.reason in LESS_OFTEN]
        return "; ".join(less_often) or LIMITS[cause].advice
    if cause != COPY:
        return LIMITS[cause].advice
    times_ns = dict.fromkeys((DIRECTIONS[HTOD], DIRECTIONS[DTOH]), 0)
    for group in profile.copies:
        copied = given(group.copied)
        if copied and group.direction in times_ns:
            times_ns[group.direction] += copied.time_ns
    if times_ns[DIRECTIONS[DTOH]] > times_ns[DIRECTIONS[HTOD]]:
        return LESS_READ
    pageable = any(group.host_memory == "pageable" for group in profile.copies)
    return f"pin memory, {LIMITS[COPY].advice}" if pageable else LIMITS[COPY].advice


def _on_communication(profile: Profile) -> str:
    """Return how to hide communication, or to have less of it, by the collectives that are exposed longest."""
    table = profile.communication.collectives
    exposed: Counter[str] = Counter()
    for name, time_ns in zip(table.name, table.exposed_ns.tolist(), strict=True):
        exposed[name] += time_ns
    if 2 * exposed.total() < profile.communication.exposed_ns:
        return ADVICE_ON_PAIRS
    longest = exposed.most_common(1)[0][0] if exposed else ""
    return next(
        (advice for named, advice in ADVICE_BY_COLLECTIVE if re.search(named, longest)), LIMITS[COMMUNICATION].advice
    )


# What else there is to know


def why_no_finding(screen: FirstScreen) -> str:
    """Return why rules were not checked, or that none holds, as a sentence; empty if all were checked and some hold."""
    unchecked, whole = unsearched(screen.profile), screen.profile.steps.whole
    if unchecked:
        return f"Some rules were not checked: {unchecked.what}."
    if screen.findings:
        return ""
    if screen.mean is None:
        return f"No {whole} has GPU work to search."
    if lost_time(screen):
        return "No rule of pinprof fits: the timeline shows when the GPU is idle or only copies."
    return f"No copy or wait costs the {whole} a measurable time."


def other_causes(screen: FirstScreen) -> str:
    """Return what else makes the step long; empty if nothing costs much."""
    costs = ", ".join(map(_cost, screen.further))
    return f"other causes, each alone (they overlap): {costs}" if costs else ""


def not_told(screen: FirstScreen) -> Iterator[str]:
    """Yield what the trace cannot tell: of other ranks, unless that is the advice itself, and of the input."""
    if screen.lacks_ranks and screen.first is not None:
        yield REPORT_ALL_RANKS
    if screen.steps_of_queues:  # batches may have waited in the queues
        batches = batches_held(screen.profile.info.made)
        queues = "the workers' queues" + (f", which hold {counted(batches, 'batch', 'batches')}," if batches else "")
        has = f"it has {counted(screen.steps_of_queues, 'step')}, before which {queues} may have been full"
        yield f"The trace cannot tell whether the input keeps up: {has}"


def unanswered(screen: FirstScreen) -> Iterator[str]:
    """Yield what to do about each cause that no change answers, as sentences."""
    for cause in screen.unanswered:
        yield f"As for {LIMITS[cause].lost}: {_answer(screen.profile, cause)}."


def _cost(cost: LimitCost) -> str:
    return f"{LIMITS[cost.cause].lost} {ranged(cost.ns, cost.range_ns)}"
