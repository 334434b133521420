"""The report for programs: JSON with stable names, in milliseconds, bytes and GB/s."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pinprof.analyses.copies import CopyGroup
from pinprof.analyses.idle import DeviceTime
from pinprof.analyses.overlap import Overlap
from pinprof.analyses.parts import MeanStep
from pinprof.analyses.pause import Pause
from pinprof.analyses.syncs import Site, Syncs
from pinprof.hta.breakdowns import Breakdown
from pinprof.measure import KNOWN_COUNTS, PerStep, Profile
from pinprof.ranks import Ranks, SharedFinding, Times
from pinprof.rules import Finding, Findings, Saving
from pinprof.trust import FIGURES, Missing
from pinprof.units import ms
from pinprof.version import REPORT_SCHEMA, VERSION

FIELDS = {
    "busy": (*(f"gpu.{key}_ms" for key in ("busy", "kernel", "memcpy", "idle", "span")), "idle.time_ms"),
    "copies": (
        *(f"copies.{key}" for key in ("count", "bytes", "time_ms", "bandwidth_gbps")),
        "overlap.copy_ms",
        "overlap.reasons.count",
        "per_step.pageable_bytes",
    ),
    "overlap": (
        *("copies.overlapped_ms", "copies.exposed_ms", "per_step.exposed_ms"),
        *(f"overlap.{key}" for key in ("overlapped_ms", "exposed_ms", "fraction", "reasons.exposed_ms")),
    ),
    "causes": ("overlap.reasons.reason",),
    "stalls": (
        *(f"syncs.{key}" for key in ("count", "per_step", "stall_ms")),
        *(f"syncs.sites.{key}" for key in ("count", "per_step", "stall_ms", "drain_ms", "own_ms", "bubble_ms")),
        *("syncs.groups.stall_ms", "syncs.groups.bubble_ms", "copies.host_blocked_ms"),
        *(f"per_step.{key}" for key in ("hidden_syncs", "hidden_stall_ms", "stall_ms", "drain_ms", "bubble_ms")),
    ),
    "drain": (
        *(f"syncs.sites.{key}_ms" for key in ("drain", "own", "bubble")),
        *("syncs.groups.bubble_ms", "per_step.drain_ms", "per_step.bubble_ms"),
    ),
    "per_step": ("syncs.per_step", "syncs.sites.per_step", "loader.per_step_ms"),
}
"""Where the figures stand that may be withheld; of steps and sums per step nothing is left in the profile itself."""

Entry = tuple[Profile, Findings]
"""A trace's measurements and what the rules found in it."""


def to_json(entries: Sequence[Entry], ranks: Ranks | None = None, hta: Mapping[str, Breakdown] | None = None) -> str:
    """Return the report on the traces as JSON text; fields that nothing filled are null or empty.

    `ranks` compares the traces if they are the ranks of one job; `hta` is what HTA tells of them, by path.
    Where findings rest on the bench of a machine, `machine` names its GPU.
    """
    told = {path: _hta(breakdown) for path, breakdown in (hta or {}).items()}
    document = {
        "schema": REPORT_SCHEMA,
        "pinprof_version": VERSION,
        **_machine(findings for _, findings in entries),
        "traces": [_trace(profile, findings) | {"hta": told.get(profile.path)} for profile, findings in entries],
        "ranks": None if ranks is None else _ranks(ranks),
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _machine(found: Iterable[Findings]) -> dict[str, Any]:
    """Return the machine whose bench findings rest on; nothing where they rest on none."""
    gpu = next((findings.machine for findings in found if findings.machine), None)
    return {"machine": {"gpu": gpu}} if gpu else {}


def _hta(breakdown: Breakdown) -> dict[str, Any]:
    """Return what HTA tells of a trace; path and rank are the trace's own."""
    fields = _with_ms({key: value for key, value in vars(breakdown).items() if key not in {"path", "rank"}})
    fields["times"] = breakdown.times and _with_ms(vars(breakdown.times))
    fields["kernels"] = [_with_ms(vars(kernel)) for kernel in breakdown.kernels]
    fields["streams"] = [_with_ms(vars(stream)) for stream in breakdown.streams]
    return fields | {"launches": breakdown.launches and vars(breakdown.launches)}


def _ranks(ranks: Ranks) -> dict[str, Any]:
    return {
        "world_size": ranks.world_size,
        "slowest_rank": ranks.slowest_rank,
        "skew_ms": _ms(ranks.skew_ns),
        "clocks_within_ms": _ms(ranks.clocks_within_ns),
        "reason": ranks.reason,
        "choice": list(ranks.choice),
        "spread": _spread(ranks.spread_ns),
        "rows": [
            {**_with_ms(vars(row)), "stalls": _by_cause(row.stalls), "idle": _by_cause(row.idle)} for row in ranks.rows
        ],
        "collectives": [_with_ms(vars(row)) for row in ranks.collectives],
        "findings": [_shared(shared) for shared in ranks.findings],
    }


def _spread(times: tuple[float, float, float] | None) -> dict[str, Any] | None:
    """Return how the steps of the ranks lie."""
    return None if times is None else dict(zip(("least_ms", "median_ms", "most_ms"), map(_ms, times), strict=True))


def _by_cause(times: Times) -> list[dict[str, Any]]:
    return [{"cause": cause, "time_ms": _ms(time)} for cause, time in times]


def _shared(shared: SharedFinding) -> dict[str, Any]:
    finding, at = shared.finding, shared.finding.evidence
    return {
        "rule": finding.rule.id,
        "title": finding.rule.title,
        **at.place._asdict(),
        "cost_ms": _ms(at.cost_ns),
        "saving_ms": _ms(finding.saving.saving_ns) if finding.saving else None,
        "ranks": list(shared.ranks),
    }


def _with_ms(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields with the times in milliseconds."""
    return {
        f"{key[:-3]}_ms" if key.endswith("_ns") else key: _ms(value) if key.endswith("_ns") else value
        for key, value in fields.items()
    }


def _ms(ns: float | None) -> float | None:
    return None if ns is None else ms(ns)


def _trace(profile: Profile, findings: Findings) -> dict[str, Any]:
    return _without(profile.withheld, _everything(profile, findings))


def _without(withheld: Iterable[str], section: dict[str, Any]) -> dict[str, Any]:
    """Return the report on a trace without the figures that are withheld: null, wherever they stand."""
    hidden = {field for figure in withheld for field in FIELDS.get(figure, ())}

    def blanked(path: str, value: Any) -> Any:
        if path in hidden:
            return None
        if isinstance(value, list):
            return [blanked(path, item) for item in value]
        if isinstance(value, dict):
            return {key: blanked(f"{path}.{key}", item) for key, item in value.items()}
        return value

    return {key: blanked(key, value) for key, value in section.items()}


def _everything(profile: Profile, findings: Findings) -> dict[str, Any]:
    info, count = profile.info, profile.steps.count
    step = profile.step_ns
    return {
        "path": profile.path,
        "rank": info.rank,
        "world_size": info.world_size,
        "torch_version": info.torch_version,
        "devices": [{"name": device.name, "index": device.index} for device in info.devices],
        "span_ms": _ms(profile.span_ns),
        "events": {
            **{name: profile.counts.get(name, 0) for name in KNOWN_COUNTS},
            "skipped": sum(profile.skipped.values()),
            "skipped_reasons": profile.skipped,
            "other": {name: number for name, number in profile.counts.items() if name not in KNOWN_COUNTS},
        },
        "missing": [_missing(entry) for entry in profile.missing],
        "steps": _steps(profile),
        "per_step": _per_step(profile.per_step) if profile.per_step else None,
        "step_parts": [_parts(mean) for mean in profile.mean_steps],
        "gpu": [_device(device) for device in profile.devices],
        "copies": [_copies(group) for group in profile.copies],
        "overlap": _overlap(profile.overlap),
        "syncs": _syncs(profile.syncs, count),
        "idle": _idle(profile),
        "pause": _pause(profile.pause),
        "loader": {
            "waits": profile.loader.waits,
            "wait_ms": _ms(profile.loader.wait_ns),
            "per_step_ms": _ms(profile.loader.wait_in_steps_ns / count) if count else None,
            "pinned": profile.loader.pinned,
            "pin_thread": profile.loader.pin_thread,
            "pins": profile.loader.pins,
        },
        "host_memory": asdict(info.host_memory) if info.host_memory else None,
        "findings": [_finding(finding, step) for finding in findings],
        "joint": _joint(findings.joint, step),
    }


def _missing(entry: Missing) -> dict[str, Any]:
    return {
        "check": entry.check,
        "level": entry.level,
        "what": entry.what,
        "effect": entry.effect,
        "remedy": entry.remedy,
        "invalidates": [figure for figure in FIGURES if figure in entry.invalidates],
    }


def _idle(profile: Profile) -> list[dict[str, Any]]:
    """Return the idle time by cause; where causes are withheld, of no cause."""
    unknown = "causes" in profile.withheld
    return [
        {"device": device.device, "cause": cause, "time_ms": _ms(time)}
        for device in profile.devices
        for cause, time in ([(None, device.idle_ns)] if unknown else device.idle_by_cause)
    ]


def _pause(pause: Pause | None) -> dict[str, Any] | None:
    """Return the longest time per step in which the host ran no op and no call; None where that is not known."""
    return None if pause is None else _with_ms(vars(pause))


def _steps(profile: Profile) -> dict[str, Any]:
    steps, step = profile.steps, profile.step
    return {
        "count": steps.count,
        "source": steps.source,
        "marker": steps.marker,
        "step_marker": profile.info.step_marker,
        "host_ms": _ms(steps.host_ns),
        "device_ms": _ms(steps.device_ns),
        "traced_ms": _ms(steps.traced_ns),
        "busy_ms": _ms(steps.busy_ns),
        "step_ms": _ms(step.step_ns),
        "step_source": step.source,
        "range_ms": None if step.range_ns is None else [_ms(bound) for bound in step.range_ns],
        "bound": profile.bound,
    }


def _per_step(sums: PerStep) -> dict[str, Any]:
    return {
        "hidden_syncs": sums.hidden_waits,
        "hidden_stall_ms": _ms(sums.hidden_stall_ns),
        "exposed_ms": _ms(sums.exposed_ns),
        "pageable_bytes": sums.pageable_bytes,
        "stall_ms": _ms(sums.stall_ns),
        "drain_ms": _ms(sums.drain_ns),
        "bubble_ms": _ms(sums.bubble_ns),
    }


def _parts(mean: MeanStep) -> dict[str, Any]:
    """Return how a mean step divides on a GPU; all but the device and `step_ms` add up to `step_ms`."""
    return {
        "device": mean.device,
        "step_ms": _ms(mean.length_ns),
        "compute_ms": _ms(mean.compute_ns),
        "overlapped_ms": _ms(mean.both_ns),
        "exposed_ms": _ms(mean.copy_ns),
        "memset_ms": _ms(mean.memset_ns),
        "idle_ms": _ms(mean.idle_ns),
    }


def _device(device: DeviceTime) -> dict[str, Any]:
    return {
        "device": device.device,
        "busy_ms": _ms(device.busy_ns),
        "kernel_ms": _ms(device.kernel_ns),
        "memcpy_ms": _ms(device.memcpy_ns),
        "idle_ms": _ms(device.idle_ns),
        "span_ms": _ms(device.span_ns),
    }


def _copies(group: CopyGroup) -> dict[str, Any]:
    return {
        "direction": group.direction,
        "host_memory": None if group.host_memory == "none" else group.host_memory,
        "count": group.count,
        "bytes": group.bytes,
        "unsized": group.unsized,
        "time_ms": _ms(group.time_ns),
        "overlapped_ms": _ms(group.overlapped_ns),
        "exposed_ms": _ms(group.exposed_ns),
        "bandwidth_gbps": group.bandwidth_gbps,
        "host_blocked_ms": _ms(group.host_blocked_ns),
    }


def _overlap(overlap: Overlap) -> dict[str, Any]:
    copy = sum(device.copy_ns for device in overlap.devices)
    overlapped = sum(device.overlapped_ns for device in overlap.devices)
    return {
        "copy_ms": _ms(copy),
        "overlapped_ms": _ms(overlapped),
        "exposed_ms": _ms(copy - overlapped),
        "fraction": overlap.fraction,
        "reasons": [
            {"reason": reason, "count": count, "exposed_ms": _ms(time)} for reason, count, time in overlap.by_reason
        ],
    }


def _syncs(syncs: Syncs, steps: int) -> dict[str, Any]:
    counted = [site for site in syncs.sites if site.is_wait]
    return {
        "count": sum(site.total.count for site in counted),
        "per_step": sum(site.in_steps.count for site in counted) / steps if steps else None,
        "stall_ms": _ms(sum(site.total.stall_ns for site in counted)),
        "sites": [_site(site, steps) for site in syncs.sites],
        "groups": _groups(syncs),
    }


def _site(site: Site, steps: int) -> dict[str, Any]:
    return {
        "cause": site.cause,
        "op": site.op,
        "call": site.call,
        **site.place._asdict(),
        "stack": list(site.stack),
        "thread": site.thread,
        "count": site.total.count,
        "per_step": site.in_steps.count / steps if steps else None,
        "stall_ms": _ms(site.total.stall_ns),
        "drain_ms": _ms(site.total.drain_ns),
        "own_ms": _ms(site.total.own_ns),
        "bubble_ms": _ms(site.total.bubble_ns),
        "verdict": site.verdict,
        "group": site.group,
    }


def _groups(syncs: Syncs) -> list[dict[str, Any]]:
    """Return the groups of sites whose waits only move if one of them is removed alone, each with its sums."""
    numbers = sorted({site.group for site in syncs.sites if site.group is not None})
    members = {number: [index for index, site in enumerate(syncs.sites) if site.group == number] for number in numbers}
    return [
        {
            "group": number,
            "sites": indices,
            "stall_ms": _ms(sum(syncs.sites[index].total.stall_ns for index in indices)),
            "bubble_ms": _ms(sum(syncs.sites[index].total.bubble_ns for index in indices)),
        }
        for number, indices in members.items()
    ]


def _finding(finding: Finding, step_ns: float | None) -> dict[str, Any]:
    return {
        "rule": finding.rule.id,
        "title": finding.rule.title,
        "severity": finding.severity,
        **finding.evidence.place._asdict(),
        "evidence": finding.evidence.text,
        "cost_ms": _ms(finding.evidence.cost_ns),
        **_saving(finding.saving, step_ns),
        "then": _then(finding, step_ns),
        "fix": finding.rule.fix,
        "fix_code": {"before": finding.rule.before, "after": finding.rule.code},
    }


def _saving(saving: Saving | None, step_ns: float | None) -> dict[str, Any]:
    if saving is None or not step_ns:
        return {"saving_ms": None, "saving_fraction": None, "range_ms": None}
    return {
        "saving_ms": _ms(saving.saving_ns),
        "saving_fraction": saving.saving_ns / step_ns,
        "range_ms": [_ms(bound) for bound in saving.range_ns],
    }


def _then(finding: Finding, step_ns: float | None) -> dict[str, Any] | None:
    """Return what a fix makes possible, and what both bring together; None where that is no more."""
    then = finding.evidence.then
    if then is None or finding.with_then is None:
        return None
    return {"rule": then.rule, "what": then.what, **_saving(finding.with_then, step_ns)}


def _joint(saving: Saving | None, step_ns: float | None) -> dict[str, Any] | None:
    """Return what all fixes bring together; None where a replay cannot tell."""
    if saving is None or not step_ns:
        return None
    return {**_saving(saving, step_ns), "predicted_step_ms": _ms(step_ns - saving.saving_ns)}
