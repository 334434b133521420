"""The facts of a report's first screen: the step, why it is as long, and what to change first. Here nothing is worded.

`verdict.py` puts them into the sentences that the terminal, the page, the brief and the JSON share.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pinprof.analyses.launches import Pause, SlowLaunches
from pinprof.analyses.step_parts import MeanStep
from pinprof.measurement.profile import OUTSIDE_WORK, Profile, busiest, busiest_idle_times
from pinprof.report.findings.views import MIN_SAVED_SHARE_OF_STEP, FindingView, finding_views
from pinprof.rules.rule import Finding, Findings
from pinprof.rules.search import finding_of_verdict
from pinprof.trace.metadata.info import batches_held
from pinprof.trace.vendors import foreign_vendor
from pinprof.verdict.step_limits import BY_HOST, COMMUNICATION, GPU, HOST, INPUT, IRREGULAR, LimitName
from pinprof.verdict.verdict import LimitCost, Verdict

EVENT_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cpu_op", "python_function")
"""A recording in which anything ran has events of some of these."""
MIN_FURTHER_CAUSE_SHARE_OF_STEP = 0.05
"""Further causes that cost at least this share of the step are named."""
MIN_COLLECTIVE_SHARE_OF_STEP = 0.1
"""Collectives that run alone for this share of the step need a word, whatever else the cause is."""
MIN_PAUSE_SHARE_OF_IDLE = 0.5
"""A pause of the host that takes this share of the GPU's idle time is what to look at first."""
MIN_SURPLUS_FACTOR = 1.1
"""A fix that saves this many times the cost of the verdict's cause also saves time of other causes."""
USUAL_BATCHES_IN_QUEUES = 16
"""Batches that 8 workers have ready, 2 each: what the queues may hold where their number is not known."""


@dataclass(frozen=True)
class FirstScreen:
    """What the first screen says of a trace."""

    profile: Profile
    findings: Findings
    mean: MeanStep | None
    """The mean step of the busiest GPU; None without a known step."""
    views: tuple[FindingView, ...]
    """All findings in words."""
    first: int | None
    """The index of the finding to change first; None if none saves much or answers the verdict."""
    further: tuple[LimitCost, ...]
    """Causes that cost much besides those of the verdict and the GPU's own work, the costliest first."""
    unanswered: tuple[LimitName, ...]
    """Causes of the verdict, and collectives that run alone, which neither the shown nor the first change answers."""
    pause: Pause | None
    """A pause of the host that takes most of the GPU's idle time."""
    slow_launches: SlowLaunches | None
    """Launches that take most of the GPU's idle time."""
    steps_of_queues: int
    """Steps whose batches may have been ready before the recording; 0 if the trace shows whether workers keep up."""

    @property
    def shown(self) -> tuple[FindingView, ...]:
        """The findings of the short report."""
        return tuple(view for view in self.views if view.is_brief)

    @property
    def verdict(self) -> Verdict:
        """Why the step is as long as it is."""
        return self.findings.verdict

    @property
    def is_cut(self) -> bool:
        """Whether the file ends too early."""
        return self.profile.doubt("truncated") is not None

    @property
    def is_empty(self) -> bool:
        """Whether nothing ran in the recording."""
        return not any(name in EVENT_CATEGORIES or foreign_vendor(name) for name in self.profile.counts)

    @property
    def lacks_ranks(self) -> bool:
        """Whether communication may be the cause, and this is not the report on all ranks of the job."""
        return not self.profile.of_job and any(cost.cause == COMMUNICATION for cost in self.verdict.between)


def first_screen(profile: Profile, findings: Findings) -> FirstScreen:
    """Return the facts of the first screen of a trace."""
    verdict, views = findings.verdict, tuple(finding_views(profile, findings))
    shown = tuple(view for view in views if view.is_brief)
    first = _first_finding(profile, findings, shown) if profile.gpus else None
    of_verdict = [verdict.cause] if verdict.cause else [cost.cause for cost in verdict.between]
    answered = {cause for view in shown for cause in view.rule.answers}
    answered |= {GPU, IRREGULAR, *(of_verdict if first is None else ()), *((HOST,) if answered & BY_HOST else ())}
    mean = busiest(profile)
    alone = [COMMUNICATION] if mean and mean.collective_ns >= MIN_COLLECTIVE_SHARE_OF_STEP * mean.length_ns > 0 else []
    least_ns = MIN_FURTHER_CAUSE_SHARE_OF_STEP * (verdict.step_ns or 1.0)
    named = {verdict.cause, GPU, *(cost.cause for cost in verdict.between)}
    return FirstScreen(
        profile,
        findings,
        mean,
        views,
        first,
        further=tuple(cost for cost in listed_costs(verdict) if cost.cause not in named and cost.ns >= least_ns),
        unanswered=tuple(cause for cause in dict.fromkeys((*of_verdict, *alone)) if cause not in answered),
        pause=_long_pause(profile),
        slow_launches=_slow_launches(profile),
        steps_of_queues=_steps_of_queues(profile),
    )


def listed_costs(verdict: Verdict) -> Iterator[LimitCost]:
    """Yield the costs of all causes, the costliest first; that of the host only if it is the verdict."""
    return (cost for cost in verdict.costs if cost.cause != HOST or cost.cause == verdict.cause)


def is_of_verdict(findings: Findings, finding: Finding) -> bool:
    """Return whether a finding is about the verdict's cause, or the verdict has none."""
    return findings.verdict.cause is None or findings.verdict.cause in finding.rule.answers


def removes_more(findings: Findings, finding: Finding) -> bool:
    """Return whether a fix saves clearly more than the verdict's cause costs: it also saves time of other causes."""
    cost, saving = findings.verdict.cost, finding.saving
    if cost is None or saving is None or finding.evidence.seen or cost.cause not in finding.rule.answers:
        return False
    return saving.saving_ns > MIN_SURPLUS_FACTOR * cost.ns


def _first_finding(profile: Profile, findings: Findings, shown: tuple[FindingView, ...]) -> int | None:
    """Return the index of the finding to change first; None if none saves much or answers the verdict."""
    least_ns, verdict = MIN_SAVED_SHARE_OF_STEP * (profile.step_ns or 0.0), findings.verdict
    best = findings[0] if findings else None
    if verdict.cause == IRREGULAR and not (best and best.evidence.is_irregular):
        return None
    joint_ns = findings.joint.saving_ns if findings.joint else 0.0
    if best and best.saving and max(best.saving.saving_ns, joint_ns) >= least_ns > 0:
        return 0
    if best and best.evidence.is_irregular and best.evidence.cost_ns >= least_ns > 0:
        return 0
    answer = finding_of_verdict(findings)
    if answer is None and verdict.cause is None and not verdict.between and shown:
        return shown[0].number
    return answer


def _long_pause(profile: Profile) -> Pause | None:
    late_ns, around_ns = _late_ns(profile, "host_wait"), _late_ns(profile, OUTSIDE_WORK)
    pause, idle_ns = profile.pause, late_ns or around_ns
    if pause is None or not idle_ns or pause.time_ns < MIN_PAUSE_SHARE_OF_IDLE * idle_ns:
        return None
    if pause.time_ns > idle_ns and not late_ns:
        return None  # around the work of the only step: the host is done, and the GPU still works
    return pause


def _slow_launches(profile: Profile) -> SlowLaunches | None:
    slow, late_ns = profile.slow_launches, _late_ns(profile, "host_wait")
    return slow if slow and late_ns and slow.time_ns >= MIN_PAUSE_SHARE_OF_IDLE * late_ns else None


def _late_ns(profile: Profile, cause: str) -> float:
    """Return the GPU's idle time per step as traced, in ns; 0 unless it is mostly of this cause and host-bound."""
    if profile.bound != "host":  # known only where the causes of idle time are
        return 0.0
    times = busiest_idle_times(profile)
    idle_ns = max((profile.steps.traced_ns or 0.0) - (profile.steps.busy_ns or 0.0), 0.0)
    return idle_ns if max(times, key=lambda cause: times[cause]) == cause else 0.0


def _steps_of_queues(profile: Profile) -> int:
    """Return how many steps there are if batches may have been ready for all of them before the recording, else 0."""
    if not profile.loader.by_workers or profile.bound == INPUT or profile.estimate.source != "estimated":
        return 0
    steps = profile.steps.count
    return steps if steps <= (batches_held(profile.info.made) or USUAL_BATCHES_IN_QUEUES) else 0
