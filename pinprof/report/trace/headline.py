"""The one sentence on top: how long the step takes, and why."""

from collections.abc import Iterator

from pinprof.analyses.step_parts import MeanStep
from pinprof.measurement.division import busiest
from pinprof.measurement.profile import Profile
from pinprof.report.trace.host import time_of_host
from pinprof.report.trace.step import at_work, of_step, unit, while_idle
from pinprof.report.trace.whole_run import of_runs
from pinprof.report.words import either, step_known
from pinprof.units import between, duration, how_many, percent
from pinprof.verdict import AWAITED, COMMUNICATION, COPY, GPU, HOST, IRREGULAR, LIMITS, Cost, LimitName, Verdict

WORTH_NAMING = 0.02
"""A smaller share of the step is not what to look at first."""
OF_TORCH = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cpu_op", "python_function")
"""Categories of events of which a recording has some, where anything ran in it."""
MEASURE = "pinprof run SCRIPT measures the step without the profiler"
"""How to find out what an estimated step cannot tell: its range is why the causes' ranges hold 0."""
ALL_RANKS = "a report on all ranks of the job shows whether they transfer, or wait for other ranks"


def sentence(profile: Profile, verdict: Verdict) -> str:
    """Return how long a step takes and why, without the last full stop."""
    if not any(profile.counts.get(category) for category in OF_TORCH):
        return "This trace has no event of torch: it is not a recording of torch.profiler, or nothing ran in it"
    if verdict.cause is not None:
        return f"{length_of(profile)}: {_why(profile, verdict, verdict.cause)}"
    if verdict.between:
        return f"{length_of(profile)}: {_cannot_tell(profile, verdict)}"
    mean = busiest(profile)
    where = ", and ".join(lost(profile, mean) if mean else []) or _working(profile, mean)
    return f"{length_of(profile)}; {where}" if where else length_of(profile)


def why_long(profile: Profile, verdict: Verdict) -> str | None:
    """Return the same where a cause is named, or the trace cannot tell between some; else None."""
    return sentence(profile, verdict) if verdict.cause is not None or verdict.between else None


def _why(profile: Profile, verdict: Verdict, cause: LimitName) -> str:
    why, cost, mean = LIMITS[cause].why, verdict.cost, busiest(profile)
    if cause == COPY and verdict.awaited:
        why = AWAITED.format("each copy" if verdict.awaited <= 1 else f"each of {how_many(verdict.awaited)} copies")
    if cost is None or not verdict.step_ns or (cause == GPU and mean is None):
        return why
    if cause == GPU and mean:
        works = f"{_named(profile, mean)} works for {of_step(mean.work_ns, mean)} of it"
        return works + (", and waits for the host" if profile.bound == "host" else "")
    if cause == IRREGULAR:
        return f"{why}. Over all steps, they add {duration(cost.ns)} per step"
    return f"{why}. That costs {duration(cost.ns)} of it ({percent(cost.ns / verdict.step_ns)})"


def _cannot_tell(profile: Profile, verdict: Verdict) -> str:
    """Return between which causes the trace cannot tell, with what each may cost."""
    mean, costs = busiest(profile), verdict.between
    works = f"{_named(profile, mean)} works for {of_step(mean.work_ns, mean)} of it, and " if mean else ""
    if mean and any(cost.cause == COMMUNICATION for cost in costs):
        works = f"collectives run alone for {of_step(mean.collective_ns, mean)} of it, and "
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
    runs = profile.whole_run.runs if profile.whole_run else None
    if known and runs and profile.estimate.source == "measured":
        which = "other runs" if runs.range_ns else f"{len(runs.step_ns)} runs"
        return f"{known[0]} {per} ({of_runs(runs)} in {which})"
    if known:
        return f"{known[0]} {per}" + (" (estimated)" if profile.estimate.source == "estimated" else "")
    if step:
        return f"{duration(step)} {per} as traced" if is_step else f"{duration(step)} as traced {per}"
    return f"The length of the {profile.steps.whole} is not known"


def lost(profile: Profile, mean: MeanStep) -> list[str]:
    """Return where the step's time is lost, most first."""
    idle, whole = while_idle(profile, mean), unit(profile, mean)
    it = "it" if whole == profile.steps.whole else f"the {whole}"
    is_idle = f"{_named(profile, mean)} is idle for {of_step(mean.idle_ns, mean)} of {it}"
    times = [
        (mean.idle_ns, f"{is_idle} ({idle})" if idle else is_idle),
        (mean.copy_ns, f"copies that no kernel overlaps take {of_step(mean.copy_ns, mean)} of {it}"),
    ]
    return [words for time, words in sorted(times, reverse=True) if time >= WORTH_NAMING * mean.length_ns > 0]


def _named(profile: Profile, mean: MeanStep) -> str:
    """Return what the GPU of a mean step is called: by its number where there are several."""
    return "the GPU" if len(profile.parts) == 1 else f"GPU {mean.device}"


def _working(profile: Profile, mean: MeanStep | None) -> str:
    if not profile.gpus:
        cut = "the end of the file is lost, and with it all work of the GPU"
        alone = time_of_host(profile)
        return (cut if is_cut(profile) else "no GPU work was recorded") + (f". The host: {alone}" if alone else "")
    for fact in at_work(profile) if profile.withheld.step else ():
        return f"the GPU works for {fact.number}, {fact.meaning}"
    return f"kernels run for {of_step(mean.compute_ns + mean.both_ns, mean)} of it" if mean else ""


def is_cut(profile: Profile) -> bool:
    """Return whether the file ends too early."""
    return profile.doubt("truncated") is not None


def of_causes(verdict: Verdict) -> Iterator[Cost]:
    """Yield the causes that are told apart, the costliest first."""
    return (cost for cost in verdict.costs if cost.cause != HOST or cost.cause == verdict.cause)


def way_to_ranks(verdict: Verdict) -> list[str]:
    """Return where to look for what a trace cannot tell of collectives; nothing where they matter not."""
    return [ALL_RANKS] if any(cost.cause == COMMUNICATION for cost in verdict.between) else []
