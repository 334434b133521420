"""`pinprof report --json`: stable names, in milliseconds, bytes and GB/s."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from pinprof.analyses.by_name.kernels import KernelSums, KernelTime
from pinprof.analyses.by_name.names import Origin
from pinprof.analyses.by_name.ops import OpSums, OpTime
from pinprof.analyses.host_samples import HostPlace
from pinprof.analyses.syncs.sites import Stalled
from pinprof.document import encoded, filled, maybe_ms, range_ms
from pinprof.documents import by_name, waits
from pinprof.documents import report as documents
from pinprof.ground.step_statistics import CONFIDENCE
from pinprof.ground.units import ms
from pinprof.hta.breakdowns import Breakdown
from pinprof.measurement.figures import BUSY_FRACTION, BUSY_MS, FIGURES, LOADER_MS, SYNCS, TraceFigure
from pinprof.measurement.profile import CopySums, GpuSums, Profile, WaitSite
from pinprof.measurement.trust import FIGURE_KINDS
from pinprof.measurement.trust.doubt import Known, KnownOrWithheld, given
from pinprof.ranks.rank import Ranks
from pinprof.report.findings.json import costs_of, finding_of, joint_of, ranks_of, verdict_of
from pinprof.report.trace.sections.host import MAX_PARTS_OF_LINE, measured_step_ns
from pinprof.report.trace.sections.waits import seen_elsewhere
from pinprof.report.trace.sections.work import step_share, without_profiler_ns
from pinprof.rules.rule import Findings

NS_PER_US = 1000
MAX_HOST_PLACES = 200
MeasuredTrace = tuple[Profile, Findings]


def traces_to_json(
    entries: Sequence[MeasuredTrace], ranks: Ranks | None = None, hta: Mapping[str, Breakdown] | None = None
) -> str:
    """Return the report on the traces as JSON text.

    `ranks` compares the traces if they are the ranks of one job; `hta` holds HTA's figures on them, by path. If the
    findings rest on the bench of a machine, the document's `machine` names its GPU.
    """
    gpu = next((findings.machine for _, findings in entries if findings.machine), None)
    document = documents.ReportJson(
        machine=documents.MeasuredOn(gpu) if gpu else UNSET,
        traces=[trace_of(profile, findings, (hta or {}).get(profile.path)) for profile, findings in entries],
        ranks=None if ranks is None else ranks_of(ranks),
    )
    return encoded(document)


def trace_of(profile: Profile, findings: Findings, hta: Breakdown | None = None) -> documents.TraceJson:
    """Return the part of the document that is on one trace."""
    info, step_ns = profile.info, profile.step_ns
    kernels, ops = (given(profile.kernels), given(profile.ops)) if profile.steps.count else (None, None)
    return filled(
        documents.TraceJson,
        info,
        profile,
        path=profile.path,
        events=_events(profile),
        missing=[
            filled(documents.Missing, doubt, invalidates=[kind for kind in FIGURE_KINDS if kind in doubt.withholds])
            for doubt in profile.doubts
        ],
        verdict=verdict_of(profile, findings),
        verdicts=costs_of(findings),
        steps=_steps(profile),
        per_step=documents.per_step({figure.name: _value(figure, profile) for figure in FIGURES if not figure.place})
        if profile.has_sums
        else None,
        step_parts=[filled(documents.StepPart, mean) for mean in profile.parts],
        gpu=[filled(documents.GpuJson, gpu, given(gpu.time)) for gpu in profile.gpus],
        copies=[_copies_json(group) for group in profile.copies],
        overlap=_overlap(profile),
        syncs=_syncs(profile),
        idle=[row for gpu in profile.gpus for row in _idle(gpu)],
        launches=filled(
            by_name.LaunchesJson,
            profile.launches,
            findings,
            median_kernel_us=profile.launches.median_kernel_ns / NS_PER_US,
            host_us_per_launch=profile.launches.host_ns / NS_PER_US,
        )
        if profile.launches
        else None,
        loader=filled(waits.Loader, profile.loader, per_step_ms=maybe_ms(given(LOADER_MS.of(profile)))),
        kernels=[_kernel(profile, kernels, row) for row in kernels.rows] if kernels else [],
        kernel_sums=_kernel_sums(profile, kernels) if kernels else None,
        ops=[_op(profile, ops, row) for row in ops.rows] if ops else [],
        op_sums=filled(by_name.OpSumsJson, _sums(profile, ops, ops.own_ns), host_ms=_ms(profile, ops.host_ns))
        if ops
        else None,
        host_profile=_host_profile(profile),
        findings=[finding_of(finding, step_ns) for finding in findings],
        joint=joint_of(findings.joint, step_ns),
        hta=hta.figures if hta else None,
        serving=[
            filled(
                by_name.ServingPhaseJson,
                phase,
                phase=phase.name,
                fills=[by_name.FillJson(mark, ms(time_ns)) for mark, time_ns in phase.fills],
            )
            for phase in profile.serving
        ],
    )


def _events(profile: Profile) -> documents.Events:
    counts = {name: profile.counts.get(name, 0) for name in documents.EVENT_CATEGORIES}
    return documents.Events(
        **counts,
        skipped=sum(profile.skipped.values()),
        skipped_reasons=profile.skipped,
        other={name: number for name, number in profile.counts.items() if name not in counts},
    )


# The step


def _steps(profile: Profile) -> documents.StepsJson:
    step, course = profile.estimate, profile.whole_run
    timed, runs = (course.timed, course.runs) if course else (None, None)
    return filled(
        documents.StepsJson,
        profile.steps,
        step,
        profile,
        step_marker=profile.info.step_marker,
        busy_fraction=given(BUSY_FRACTION.of(profile)),
        busy_ms=maybe_ms(given(BUSY_MS.of(profile))),
        step_source=step.source,
        range_ms=range_ms(profile.step_range_ns),
        regular=filled(documents.Regular, timed, count=timed.steps, confidence=CONFIDENCE) if timed else None,
        runs=filled(documents.RunsJson, runs, confidence=CONFIDENCE) if runs else None,
        irregular=[filled(documents.IrregularJson, row) for row in profile.unlike],
        ledger=[filled(documents.Entry, entry, fraction=entry.ns / course.wall_ns) for entry in course.ledger]
        if course
        else None,
    )


def _value(figure: TraceFigure, profile: Profile) -> float | None:
    value = given(figure.of(profile))
    return maybe_ms(value) if figure.unit == "ns" else value


# Waits, copies, idle time


def _syncs(profile: Profile) -> waits.SyncsJson:
    return filled(
        waits.SyncsJson,
        _joint_cost(profile, (site.total for site in profile.sites if site.is_wait)),
        per_step=given(SYNCS.of(profile)),
        sites=[_site(profile, site) for site in profile.sites],
        groups=list(_groups(profile)),
        watched_steps=profile.info.watched.steps if profile.info.watched else None,
        seen_elsewhere=[
            filled(waits.Seen, wait, count=wait.waits, per_step=wait.waits / wait.of if wait.of else None)
            for wait in seen_elsewhere(profile)
        ],
    )


def _site(profile: Profile, site: WaitSite) -> waits.SiteJson:
    cost, in_steps, count = given(site.total_cost), given(site.in_steps), profile.steps.count
    return filled(
        waits.SiteJson,
        site,
        given(site.total),
        cost,
        per_step=in_steps.count / count if in_steps and count and not profile.withheld.per_step else None,
        bubble_ms=ms(cost.idle_ns) if cost else None,
    )


def _groups(profile: Profile) -> Iterator[waits.Group]:
    for number in sorted({site.group for site in profile.sites if site.group is not None}):
        indices = [index for index, site in enumerate(profile.sites) if site.group == number]
        sites = [profile.sites[index] for index in indices]
        stalled, costs = (
            _joint_cost(profile, (site.total for site in sites)),
            [given(site.total_cost) for site in sites],
        )
        idle_ns = None if None in costs else sum(cost.idle_ns for cost in costs if cost)
        yield filled(waits.Group, stalled, group=number, sites=indices, bubble_ms=maybe_ms(idle_ns))


def _joint_cost(profile: Profile, costs: Iterable[KnownOrWithheld[Stalled]]) -> Stalled | None:
    """Return the sum of known costs of waits; None if stalls are withheld."""
    if profile.withheld.stalls:
        return None
    values = [cost.value for cost in costs if isinstance(cost, Known)]
    return Stalled(sum(cost.count for cost in values), sum(cost.stall_ns for cost in values))


def _copies_json(group: CopySums) -> waits.CopiesJson:
    return filled(
        waits.CopiesJson,
        group,
        given(group.copied),
        given(group.hidden),
        host_memory=None if group.host_memory == "none" else group.host_memory,
        host_blocked_ms=maybe_ms(given(group.host_blocked_ns)),
    )


def _overlap(profile: Profile) -> waits.OverlapJson:
    reasons = [
        waits.Exposed(given(row.reason), given(row.count), maybe_ms(given(row.exposed_ns))) for row in profile.exposed
    ]
    return filled(waits.OverlapJson, given(profile.overlap), copy_ms=maybe_ms(given(profile.copy_ns)), reasons=reasons)


def _idle(gpu: GpuSums) -> Iterator[waits.IdleJson]:
    """Yield the idle time of a GPU by cause, or in all if causes are withheld."""
    if isinstance(gpu.idle_by_cause, Known):
        yield from (waits.IdleJson(gpu.device, cause, ms(time)) for cause, time in gpu.idle_by_cause.value)
    else:
        time = given(gpu.time)
        yield waits.IdleJson(gpu.device, None, ms(time.idle_ns) if time else None)


# By name


def _kernel(profile: Profile, sums: KernelSums, row: KernelTime) -> by_name.KernelJson:
    return filled(
        by_name.KernelJson,
        _times(profile, row.name, row.count, row.time_ns, row.origin),
        row,
        share=row.time_ns / sums.busy_ns if sums.busy_ns else None,
        step_share=step_share(profile, sums, row),
        streams=[by_name.LaneJson(*lane) for lane in row.lanes],
    )


def _op(profile: Profile, sums: OpSums, row: OpTime) -> by_name.Op:
    return filled(
        by_name.Op,
        _times(profile, row.name, row.count, row.own_ns, row.origin),
        share=row.own_ns / sums.host_ns if sums.host_ns else None,
        without_profiler_ms=maybe_ms(without_profiler_ns(profile, sums, row.own_ns)),
        stall_ms=None if row.stall_ns is None else _ms(profile, row.stall_ns),
        kernels=None if row.kernels is None else row.kernels / profile.steps.divisor,
        kernel_ms=None if row.kernel_ns is None else _ms(profile, row.kernel_ns),
    )


def _kernel_sums(profile: Profile, sums: KernelSums) -> by_name.KernelSumsJson:
    return filled(
        by_name.KernelSumsJson,
        _sums(profile, sums, sums.time_ns),
        busy_ms=_ms(profile, sums.busy_ns),
        kinds=[
            by_name.KernelsOfKind(
                kind.kind,
                kind.count / profile.steps.divisor,
                _ms(profile, kind.time_ns),
                kind.time_ns / sums.time_ns if sums.time_ns else None,
                None if kind.tensor_core_ns is None else _ms(profile, kind.tensor_core_ns),
            )
            for kind in sums.kinds
        ],
    )


def _sums(profile: Profile, sums: KernelSums | OpSums, time_ns: int) -> by_name.Sums:
    left_out, left_ms = sums.names - len(sums.rows), _ms(profile, sums.left_ns)
    return by_name.Sums(names=sums.names, left_out=left_out, left_out_ms=left_ms, ms=_ms(profile, time_ns))


def _times(profile: Profile, name: str, count: int, time_ns: int, origin: Origin) -> by_name.Times:
    per_step, mean_us = count / profile.steps.divisor, round(time_ns / count / NS_PER_US, 3)
    return filled(by_name.Times, origin, name=name, count=per_step, ms=_ms(profile, time_ns), mean_us=mean_us)


def _ms(profile: Profile, time_ns: int) -> float:
    """Return the sum of a time over the complete steps as ms per step."""
    return ms(time_ns / profile.steps.divisor)


def _host_profile(profile: Profile) -> by_name.HostProfileJson | None:
    recorded, sums = profile.info.host, profile.host
    if recorded is None:
        return None
    if sums is None:
        return filled(by_name.HostProfileJson, recorded, kinds=[], called=[], lines=[], functions=[])
    step_ns = measured_step_ns(profile)

    def samples(count: int) -> dict[str, Any]:
        """Return samples as a share with its error, both fractions, and as a time of the step without the profiler."""
        share, time_ms = sums.share(count), ms(sums.share(count) * step_ns) if step_ns else None
        return {"samples": count, "share": share, "error": sums.error(count), "per_step_ms": time_ms}

    def lines(rows: Sequence[HostPlace]) -> list[by_name.HostLine]:
        return [
            filled(by_name.HostLine, row, **samples(row.own), total_share=sums.share(row.total))
            for row in rows[:MAX_HOST_PLACES]
        ]

    return filled(
        by_name.HostProfileJson,
        recorded,
        kinds=[by_name.KindJson(kind, **samples(count)) for kind, count in sums.kinds],
        called=[
            filled(
                by_name.Called,
                row,
                **samples(row.count),
                kinds=dict(row.kinds),
                parts=dict(row.parts[:MAX_PARTS_OF_LINE]),
            )
            for row in sums.called[:MAX_HOST_PLACES]
        ],
        lines=lines(sums.lines),
        functions=lines(sums.functions),
    )
