"""The one sentence on top: how long the step takes, where its time goes, and what to do first."""

from typing import NamedTuple

from pinprof.analyses.parts import MeanStep
from pinprof.analyses.pause import MEANING
from pinprof.measurement.division import OUTSIDE, busiest, busiest_idle_times
from pinprof.measurement.profile import Profile
from pinprof.report.trace.host import first_line, time_of_host
from pinprof.report.trace.step import AT_WORK, because, of_step, unit, where_it_goes
from pinprof.report.words import at_sites, begun, either, printable, step_known, untold
from pinprof.rules import Findings, unsearched
from pinprof.units import between, duration, how_many, percent
from pinprof.verdict import AWAITED, COMMUNICATION, COPY, GPU, IRREGULAR, LIMITS, Verdict

WORTH_NAMING = 0.02
"""A smaller share of the step is not what to look at first."""
PAUSED = 0.5
"""Where a pause of the host takes this share of the time in which the GPU is idle, it is what to look at first."""
SLOW_MEANING = (
    "the first launch of a kernel may load or compile its code, and a profiler of counters delays every launch. "
    "Record steps after a warm-up, without counters."
)
OF_TORCH = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cpu_op", "python_function")
"""Categories of events of which a recording has some, where anything ran in it."""
NOTHING_KNOWN = "No rule of pinprof fits: the timeline shows when the GPU is idle or only copies."


class Headline(NamedTuple):
    """What happens, and what to do first."""

    what: str
    do: str
    number: int | None = None
    """Of the finding that it is about, from 1; None where it is about none."""


def headline(profile: Profile, findings: Findings) -> Headline:
    """Return the sentence on a trace."""
    return Headline(f"{sentence(profile, findings.verdict)}.", *_do(profile, findings, profile.step_ns))


def sentence(profile: Profile, verdict: Verdict) -> str:
    """Return how long a step takes and why, without the last full stop."""
    if not any(profile.counts.get(category) for category in OF_TORCH):
        return "This trace has no event of torch: it is not a recording of torch.profiler, or nothing ran in it"
    if verdict.cause is not None:
        return f"{length_of(profile)}: {_why(profile, verdict)}"
    if verdict.between:
        return f"{length_of(profile)}: {_cannot_tell(profile, verdict)}"
    mean = busiest(profile)
    where = ", and ".join(_lost(profile, mean) if mean else []) or _working(profile, mean)
    return f"{length_of(profile)}; {where}" if where else length_of(profile)


def _why(profile: Profile, verdict: Verdict) -> str:
    why, cost, mean = _because(verdict), verdict.cost, busiest(profile)
    if cost is None or not verdict.step_ns or (verdict.cause == GPU and mean is None):
        return why
    if verdict.cause == GPU and mean:
        works = f"{_named(profile, mean)} works for {of_step(mean.work_ns, mean)} of it"
        return works + (", and waits for the host" if profile.bound == "host" else "")
    if verdict.cause == IRREGULAR:
        return f"{why}. That adds {duration(cost.ns)} to each step on average"
    return f"{why}. That costs {duration(cost.ns)} of it ({percent(cost.ns / verdict.step_ns)})"


def _because(verdict: Verdict) -> str:
    """Return why the step is long, without what it costs."""
    if verdict.cause != COPY or not verdict.awaited:
        return LIMITS[verdict.cause or ""].why
    several = verdict.awaited > 1
    return AWAITED.format(f"each of {how_many(verdict.awaited)} copies" if several else "each copy")


def _cannot_tell(profile: Profile, verdict: Verdict) -> str:
    """Return between which causes the trace cannot tell, with what each may cost."""
    mean, costs = busiest(profile), verdict.between
    works = f"{_named(profile, mean)} works for {of_step(mean.work_ns, mean)} of it, and " if mean else ""
    if mean and any(cost.cause == COMMUNICATION for cost in costs):
        works = f"collectives run alone for {of_step(mean.talking_ns, mean)} of it, and "
    what = f"what {LIMITS[costs[0].cause].lost} cost: {between(*costs[0].range_ns)}"
    if len(costs) > 1:
        named = [f"{LIMITS[cost.cause].lost} ({between(*cost.range_ns)})" for cost in costs]
        what = f"which costs most: {either(named)}"
    return f"{works}the trace cannot tell {what}"


def length_of(profile: Profile) -> str:
    """Return how long a step takes: without the profiler where that is known, else as traced."""
    known, step = step_known(profile.estimate), profile.step_ns
    is_step = profile.steps.whole == "step"
    per = "per step" if is_step else "for the whole trace, in which no step was found"
    if known:
        return f"{known[0]} {per}" + (" (estimated)" if profile.estimate.source == "estimated" else "")
    if step:
        return f"{duration(step)} {per} as traced" if is_step else f"{duration(step)} as traced {per}"
    return f"The length of the {profile.steps.whole} is not known"


def _lost(profile: Profile, mean: MeanStep) -> list[str]:
    """Return where the step's time is lost, most first."""
    it = "it" if unit(profile, mean) == profile.steps.whole else f"the {unit(profile, mean)}"
    times = [
        (
            mean.idle_ns,
            f"{_named(profile, mean)} is idle for {of_step(mean.idle_ns, mean)} of {it}{because(profile, mean)}",
        ),
        (mean.copy_ns, f"exposed copies, beside which no kernel runs, take {of_step(mean.copy_ns, mean)} of {it}"),
    ]
    return [words for time, words in sorted(times, reverse=True) if time >= WORTH_NAMING * mean.length_ns > 0]


def _named(profile: Profile, mean: MeanStep) -> str:
    """Return what the GPU of a mean step is called: by its number where there are several."""
    return "the GPU" if len(profile.parts) == 1 else f"GPU {mean.device}"


def _working(profile: Profile, mean: MeanStep | None) -> str:
    if not profile.gpus:
        alone = time_of_host(profile)
        return _without_gpu(profile) + (f". The host: {alone}" if alone else "")
    work = next((fact for fact in where_it_goes(profile) if fact.name == AT_WORK), None)
    if work:
        return f"the GPU works for {work.number}, {work.meaning}"
    return f"kernels run for {of_step(mean.compute_ns + mean.both_ns, mean)} of it" if mean else ""


def _without_gpu(profile: Profile) -> str:
    if is_cut(profile):
        return "the end of the file is lost, and with it all work of the GPU"
    return "no GPU work was recorded"


def is_cut(profile: Profile) -> bool:
    """Return whether the file ends too early."""
    return profile.doubt("truncated") is not None


def way_to_gpu(profile: Profile) -> str:
    """Return how to record what a trace without work of a GPU does not show."""
    remedy = next(entry.remedy for entry in profile.doubts if entry.check == "no_gpu")
    return f"{begun(remedy)}." if is_cut(profile) else f"To see copies and waits: {remedy}."


def _do(profile: Profile, findings: Findings, step: float | None) -> tuple[str, int | None]:
    if not profile.gpus:
        return first_line(profile) or way_to_gpu(profile), None
    paused = long_pause(profile)
    if findings and not (paused and profile.pause and _saves(findings) < profile.pause.time_ns):
        return _first(findings, step)
    if paused:
        return paused, None
    reason = unsearched(profile)
    if reason:
        return f"Not searched in full: {reason.what}.", None
    return nothing_found(profile), None


def nothing_found(profile: Profile) -> str:
    """Return what there is to say where the rules were asked and found nothing."""
    mean, whole = busiest(profile), profile.steps.whole
    if mean is None:
        return f"No {whole} has GPU work to search."
    if _lost(profile, mean):
        return host_alone(profile) or NOTHING_KNOWN
    return host_alone(profile) or f"No copy or wait costs the {whole} a measurable time."


def host_alone(profile: Profile) -> str:
    """Return what holds up the host where it is the limit and no rule found anything; nothing where that is unknown."""
    return long_pause(profile) or _slow_launches(profile)


def _slow_launches(profile: Profile) -> str:
    """Return that few launches take most of the time in which the GPU is idle; nothing else."""
    slow, late = profile.slow_launches, _late_ns(profile, "host_wait")
    if slow is None or not late or slow.time_ns < PAUSED * late:
        return ""
    which = f"{how_many(slow.count)} {'launch' if slow.count == 1 else 'launches'}"
    lasts = f"{which} {'takes' if slow.count == 1 else 'take'} {duration(slow.time_ns)} {profile.steps.per}, as traced"
    return f"{lasts}: {SLOW_MEANING}"


def long_pause(profile: Profile) -> str:
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


def _late_ns(profile: Profile, cause: str) -> float:
    """Return how long a step as traced the GPU is idle, in ns, if mostly for this cause and the host is the limit."""
    if profile.bound != "host":  # known only where the causes of idle time are
        return 0.0
    times = busiest_idle_times(profile)
    idle = max((profile.steps.traced_ns or 0.0) - (profile.steps.busy_ns or 0.0), 0.0)
    return idle if max(times, key=lambda cause: times[cause]) == cause else 0.0


def _saves(findings: Findings) -> float:
    first = findings[0]
    return first.saving.saving_ns if first.saving else first.most_ns or first.evidence.cost_ns


def _first(findings: Findings, step: float | None) -> tuple[str, int]:
    first = findings[0]
    if first.saving is None:
        brings = untold(first) or f"it concerns {duration(first.evidence.cost_ns)} of idle GPU or exposed copies"
    elif first.saving.saving_ns:
        share = f" ({percent(first.saving.saving_ns / step)})" if step else ""
        brings = f"fixing it saves {duration(first.saving.saving_ns)}{share}"
    else:
        brings = "fixing it alone saves nothing"
        if findings.joint and findings.joint.saving_ns:
            all_of = f"all but {' and '.join(findings.joint.without)}" if findings.joint.without else "all of them"
            brings += f", fixing {all_of} {duration(findings.joint.saving_ns)}"
    return f"First: {first.title}{printable(at_sites(first))}; {brings}.", 1
