"""The one sentence on top: how long the step takes, where its time goes, and what to do first."""

from typing import NamedTuple

from pinprof.analyses.parts import StepParts
from pinprof.measure import Profile
from pinprof.report.words import printable, step_known
from pinprof.rules import Findings, unsearched
from pinprof.rules.sums import at
from pinprof.units import duration, percent

MOST = 0.9
"""Where less of the idle time than this share has the cause that is named, others matter too."""
WORTH_NAMING = 0.02
"""A smaller share of the step is not what to look at first."""
IDLE_BECAUSE = {
    "host_wait": "because the host launches too late",
    "sync_bubble": "because the host waits for the GPU and has nothing queued then",
    "kernel_wait": "while work is queued",
    "input_wait": "because the host waits for the next batch",
    "communication_wait": "while the host is in a collective",
    "other": "",
}
HOST_ALONE = (
    "No copy or wait is to blame: the host cannot launch kernels as fast as the GPU runs them. Fewer and larger ones "
    "help: torch.compile, CUDA graphs, larger batches."
)
NOTHING_FOUND = "No copy or wait costs it a measurable time."
NOTHING_KNOWN = "No rule of pinprof knows what to change: the timeline shows when it happens."


class Headline(NamedTuple):
    """What happens, and what to do first."""

    what: str
    do: str
    number: int | None = None
    """Of the finding that it is about, from 1; None where it is about none."""


def headline(profile: Profile, findings: Findings, parts: StepParts | None) -> Headline:
    """Return the sentence on a trace; `parts` are the steps of its busiest GPU, None where they are not shown."""
    known, step = step_known(profile.step), profile.step.step_ns or profile.steps.traced_ns
    if known:
        length = f"{known[0]} per step" + (" (estimated)" if profile.step.source == "estimated" else "")
    elif step:
        length = f"{duration(step)} per step as traced"
    else:
        length = "The length of the step is not known"
    lost = _lost(profile, parts, step)
    where = ", and ".join(lost) or _working(profile, parts, step)
    what = f"{length}; {where}." if where else f"{length}."
    return Headline(what, *_do(profile, findings, step, is_lost=bool(lost)))


def _lost(profile: Profile, parts: StepParts | None, step: float | None) -> list[str]:
    """Return where the step's time is lost, most first; the GPU's work takes as long with the profiler as without."""
    if parts is None or not step:
        return []
    exposed = float(parts.copy_ns.mean()) / step
    idle = max(1 - float((parts.length_ns - parts.idle_ns).mean()) / step, 0.0)
    shares = [(idle, f"the GPU is idle for {percent(idle)} of it{_because(profile)}")]
    shares.append((exposed, f"copies that no kernel hides take {percent(exposed)} of the step"))
    return [words for share, words in sorted(shares, reverse=True) if share >= WORTH_NAMING]


def _working(profile: Profile, parts: StepParts | None, step: float | None) -> str:
    if not profile.devices:
        return "no work of a GPU was recorded"
    if parts is None or not step:
        return ""
    computing = float((parts.compute_ns + parts.both_ns).mean()) / step
    return f"kernels run for {percent(min(computing, 1.0))} of it"


def _because(profile: Profile) -> str:
    busiest = max(profile.devices, key=lambda device: device.busy_ns)
    if "causes" in profile.withheld or not busiest.idle_by_cause:
        return ""
    cause, time = busiest.idle_by_cause[0]
    mostly = ", mostly" if time < MOST * busiest.idle_ns else ""
    return f"{mostly} {IDLE_BECAUSE[cause]}" if IDLE_BECAUSE[cause] else ""


def _do(profile: Profile, findings: Findings, step: float | None, *, is_lost: bool) -> tuple[str, int | None]:
    if not profile.devices:
        return "Record on a machine with a GPU and with ProfilerActivity.CUDA to see copies and waits.", None
    if findings:
        return _first(findings, step)
    reason = unsearched(profile)
    if reason:
        return f"Not searched in full: {reason.what}.", None
    return host_alone(profile) or (NOTHING_KNOWN if is_lost else NOTHING_FOUND), None


def host_alone(profile: Profile) -> str:
    """Return what to do where the host is the limit and nothing was found that holds it up; nothing elsewhere."""
    if profile.bound != "host":  # known only where the causes of idle time are
        return ""
    busiest = max(profile.devices, key=lambda device: device.busy_ns)
    is_late = busiest.idle_by_cause and busiest.idle_by_cause[0][0] == "host_wait"
    return HOST_ALONE if is_late else ""


def _first(findings: Findings, step: float | None) -> tuple[str, int]:
    first = findings[0]
    if first.saving is None:
        brings = f"{duration(first.evidence.cost_ns)} of idle GPU or exposed copy go with it"
    elif first.saving.saving_ns:
        share = f" ({percent(first.saving.saving_ns / step)})" if step else ""
        brings = f"fixing it saves {duration(first.saving.saving_ns)}{share}"
    else:
        brings = "fixing it alone saves nothing"
        if findings.joint and findings.joint.saving_ns:
            brings += f", all findings together {duration(findings.joint.saving_ns)}"
    return f"First: {first.rule.title}{printable(at(first.evidence.place))}; {brings}.", 1
