"""The one sentence on top: how long the step takes, where its time goes, and what to do first."""

from typing import NamedTuple

from pinprof.analyses.parts import StepParts
from pinprof.measure import Profile
from pinprof.report.words import printable, step_known
from pinprof.rules import Finding, Findings, unsearched
from pinprof.units import duration, percent

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
    where = _where(profile, parts, step)
    return Headline(f"{length}; {where}." if where else f"{length}.", *_do(profile, findings, step))


def _where(profile: Profile, parts: StepParts | None, step: float | None) -> str:
    """Return where the step's time goes; the GPU's work takes as long without the profiler as with it."""
    if not profile.devices:
        return "no work of a GPU was recorded"
    if parts is None or not step:
        return ""
    exposed = float(parts.copy_ns.mean()) / step
    computing = float((parts.compute_ns + parts.both_ns).mean()) / step
    idle = max(1 - float((parts.length_ns - parts.idle_ns).mean()) / step, 0.0)
    shares = [(idle, f"the GPU is idle for {percent(idle)} of it{_because(profile)}")]
    shares.append((exposed, f"copies that no kernel hides take {percent(exposed)} of the GPU's time"))
    named = [words for share, words in sorted(shares, reverse=True) if share >= WORTH_NAMING]
    if named:
        return ", and ".join(named)
    return f"kernels run for {percent(min(computing, 1.0))} of it"


def _because(profile: Profile) -> str:
    busiest = max(profile.devices, key=lambda device: device.busy_ns)
    if "causes" in profile.withheld or not busiest.idle_by_cause:
        return ""
    words = IDLE_BECAUSE[busiest.idle_by_cause[0][0]]
    return f" {words}" if words else ""


def _do(profile: Profile, findings: Findings, step: float | None) -> tuple[str, int | None]:
    if not profile.devices:
        return "Record on a machine with a GPU and with ProfilerActivity.CUDA to see copies and waits.", None
    if findings:
        return _first(findings, step)
    reason = unsearched(profile)
    if reason:
        return f"Not searched in full: {reason.what}.", None
    return (HOST_ALONE if profile.bound == "host" else NOTHING_FOUND), None


def _first(findings: Findings, step: float | None) -> tuple[str, int]:
    first = findings[0]
    at = _at(first)
    if first.saving is None:
        brings = f"{duration(first.evidence.cost_ns)} of idle GPU or exposed copy go with it"
    elif first.saving.saving_ns:
        share = f" ({percent(first.saving.saving_ns / step)})" if step else ""
        brings = f"fixing it saves {duration(first.saving.saving_ns)}{share}"
    else:
        brings = "fixing it alone saves nothing"
        if findings.joint and findings.joint.saving_ns:
            brings += f", all findings together {duration(findings.joint.saving_ns)}"
    return f"First: {first.rule.title}{at}; {brings}.", 1


def _at(finding: Finding) -> str:
    evidence = finding.evidence
    if evidence.line is not None:
        return f" at {printable(f'{evidence.file}:{evidence.line}')}"
    return f" in {printable(evidence.function)}" if evidence.function else ""
