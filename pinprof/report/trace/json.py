"""`pinprof report --json`: stable names, in milliseconds, bytes and GB/s."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from msgspec import UNSET, UnsetType

from pinprof.analyses.step_parts import MeanStep
from pinprof.analyses.whole_run.irregular_work import Irregular
from pinprof.analyses.whole_run.ledger import WholeRun
from pinprof.analyses.whole_run.regular_step import RegularStep, Runs
from pinprof.document import encoded, filled, maybe_ms, range_ms
from pinprof.documents import report as documents
from pinprof.documents.by_name import HostMemory, Pause
from pinprof.documents.fields import Device
from pinprof.hta.breakdowns import Breakdown
from pinprof.measurement.figures import BUSY_FRACTION, FIGURES, Figure
from pinprof.measurement.known import given
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust import FIGURE_KINDS as KINDS
from pinprof.measurement.trust import Doubt
from pinprof.ranks.rank import Ranks
from pinprof.report.trace.by_name_json import host_profile, kernel_of, kernel_sums, launches_of, op_of, op_sums
from pinprof.report.trace.findings_json import costs_of, finding_of, joint_of, ranks_of, verdict_of
from pinprof.report.trace.waits_json import copies_of, idle_of, loader_of, overlap_of, syncs_of
from pinprof.rules import Findings
from pinprof.step_statistics import CONFIDENCE
from pinprof.units import ms

Entry = tuple[Profile, Findings]
"""A trace's measurements and what the rules found in it."""


def to_json(entries: Sequence[Entry], ranks: Ranks | None = None, hta: Mapping[str, Breakdown] | None = None) -> str:
    """Return the report on the traces as JSON text; fields that nothing filled are null or empty.

    `ranks` compares the traces if they are the ranks of one job; `hta` is what HTA tells of them, by path.
    Where findings rest on the bench of a machine, `machine` names its GPU.
    """
    document = documents.Report(
        machine=_machine(findings for _, findings in entries),
        traces=[_trace(profile, findings, (hta or {}).get(profile.path)) for profile, findings in entries],
        ranks=None if ranks is None else ranks_of(ranks),
    )
    return encoded(document)


def _machine(all_findings: Iterable[Findings]) -> documents.MeasuredOn | UnsetType:
    """Return the machine whose bench findings rest on; nothing where they rest on none."""
    gpu = next((findings.machine for findings in all_findings if findings.machine), None)
    return documents.MeasuredOn(gpu) if gpu else UNSET


def _trace(profile: Profile, findings: Findings, hta: Breakdown | None) -> documents.Trace:
    info, step_ns = profile.info, profile.step_ns
    kernels, ops = (given(profile.kernels), given(profile.ops)) if profile.steps.count else (None, None)
    return documents.Trace(
        path=profile.path,
        rank=info.rank,
        world_size=info.world_size,
        torch_version=info.torch_version,
        devices=[filled(Device, device) for device in info.devices],
        span_ms=ms(profile.span_ns),
        events=_events(profile),
        missing=[_missing(doubt) for doubt in profile.doubts],
        verdict=verdict_of(profile, findings),
        verdicts=costs_of(findings),
        steps=_steps(profile),
        per_step=_per_step(profile),
        step_parts=[_part(mean) for mean in profile.parts],
        gpu=[filled(documents.Gpu, given(gpu.time), device=gpu.device) for gpu in profile.gpus],
        copies=[copies_of(group) for group in profile.copies],
        overlap=overlap_of(profile),
        syncs=syncs_of(profile),
        idle=[row for gpu in profile.gpus for row in idle_of(gpu)],
        pause=filled(Pause, profile.pause) if profile.pause else None,
        launches=launches_of(profile.launches, findings.blockers) if profile.launches else None,
        loader=loader_of(profile),
        kernels=[kernel_of(profile, kernels, row) for row in kernels.rows] if kernels else [],
        kernel_sums=kernel_sums(profile, kernels) if kernels else None,
        ops=[op_of(profile, ops, row) for row in ops.rows] if ops else [],
        op_sums=op_sums(profile, ops) if ops else None,
        host_profile=host_profile(profile),
        host_memory=HostMemory(**asdict(info.host_memory)) if info.host_memory else None,
        findings=[finding_of(finding, step_ns) for finding in findings],
        joint=joint_of(findings.joint, step_ns),
        hta=_hta(hta) if hta else None,
    )


def _events(profile: Profile) -> documents.Events:
    counts = {name: profile.counts.get(name, 0) for name in documents.CATEGORIES}
    return documents.Events(
        **counts,
        skipped=sum(profile.skipped.values()),
        skipped_reasons=profile.skipped,
        other={name: number for name, number in profile.counts.items() if name not in counts},
    )


def _missing(doubt: Doubt) -> documents.Missing:
    return filled(documents.Missing, doubt, invalidates=[kind for kind in KINDS if kind in doubt.withholds])


def _steps(profile: Profile) -> documents.Steps:
    steps, step, course = profile.steps, profile.estimate, profile.whole_run
    return filled(
        documents.Steps,
        steps,
        step_marker=profile.info.step_marker,
        busy_fraction=given(BUSY_FRACTION.of(profile)),
        step_ms=maybe_ms(step.step_ns),
        step_source=step.source,
        range_ms=range_ms(step.range_ns),
        bound=profile.bound,
        regular=_regular(course.timed) if course and course.timed else None,
        runs=_runs(course.runs) if course and course.runs else None,
        irregular=[_irregular(row) for row in profile.unlike],
        ledger=_ledger(course) if course else None,
    )


def _regular(timed: RegularStep) -> documents.Regular:
    """Return the regular step as it was timed without the profiler."""
    return filled(documents.Regular, timed, count=timed.steps, confidence=CONFIDENCE)


def _runs(runs: Runs) -> documents.Runs:
    """Return the regular step of each run of the program."""
    return filled(documents.Runs, runs, step_ms=[ms(step_ns) for step_ns in runs.step_ns], confidence=CONFIDENCE)


def _irregular(row: Irregular) -> documents.Irregular:
    return filled(documents.Irregular, row, ms=ms(row.ns), sites=[documents.Point(*place) for place in row.places])


def _ledger(course: WholeRun) -> list[documents.Entry]:
    """Return where the time of the whole run went."""
    return [
        filled(documents.Entry, entry, ms=ms(entry.ns), fraction=entry.ns / course.wall_ns) for entry in course.ledger
    ]


def _per_step(profile: Profile) -> documents.PerStep | None:
    """Return the sums per step; None without complete steps, and where all are withheld."""
    if not profile.has_sums:
        return None
    return documents.per_step({figure.name: _value(figure, profile) for figure in FIGURES if figure.is_in_record})


def _value(figure: Figure, profile: Profile) -> float | None:
    """Return a figure of the step, times in ms; None where it is withheld, or there is none."""
    value = given(figure.of(profile))
    return maybe_ms(value) if figure.unit == "ns" else value


def _part(mean: MeanStep) -> documents.StepPart:
    """Return how a mean step divides on a GPU."""
    return filled(
        documents.StepPart,
        mean,
        step_ms=ms(mean.length_ns),
        overlapped_ms=ms(mean.both_ns),
        exposed_ms=ms(mean.copy_ns),
    )


def _hta(breakdown: Breakdown) -> documents.Hta:
    """Return what HTA tells of a trace; its figures have the names of the document."""
    times, launches = breakdown.times, breakdown.launches
    return filled(
        documents.Hta,
        breakdown,
        times=filled(documents.HtaTimes, times) if times else None,
        kernels=[filled(documents.HtaKernel, kernel) for kernel in breakdown.kernels],
        streams=[filled(documents.HtaStream, stream) for stream in breakdown.streams],
        launches=filled(documents.HtaLaunches, launches) if launches else None,
    )
