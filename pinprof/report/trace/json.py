"""The report for programs: JSON with stable names, in milliseconds, bytes and GB/s."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pinprof.analyses.launches import Launches
from pinprof.analyses.parts import MeanStep
from pinprof.analyses.pause import Pause
from pinprof.analyses.syncs import Stalled
from pinprof.hta.breakdowns import Breakdown
from pinprof.measurement.known import Known, Perhaps, given
from pinprof.measurement.profile import Profile
from pinprof.measurement.sums import CopySums, GpuSums, PerStep, WaitCost, WaitSite, whole_cost
from pinprof.measurement.trust import FIGURES, Doubt
from pinprof.ranks import Ranks
from pinprof.report.fields import maybe_ms, with_ms
from pinprof.report.job.json import ranks_fields
from pinprof.report.trace.course_json import course_of_run
from pinprof.report.trace.elsewhere import SeenWait, seen_elsewhere
from pinprof.report.trace.findings_json import finding_fields, joint_fields
from pinprof.report.trace.host_json import host_profile
from pinprof.report.trace.spent_json import spent
from pinprof.report.trace.verdict_json import verdicts
from pinprof.rules import Findings
from pinprof.version import REPORT_SCHEMA, VERSION
from pinprof.whatif.regions import Blocker

KNOWN_COUNTS = (
    "kernel",
    "gpu_memcpy",
    "gpu_memset",
    "cuda_runtime",
    "cuda_driver",
    "cuda_sync",
    "cpu_op",
    "python_function",
    "user_annotation",
)

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
        "ranks": None if ranks is None else ranks_fields(ranks),
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _machine(found: Iterable[Findings]) -> dict[str, Any]:
    """Return the machine whose bench findings rest on; nothing where they rest on none."""
    gpu = next((findings.machine for findings in found if findings.machine), None)
    return {"machine": {"gpu": gpu}} if gpu else {}


def _hta(breakdown: Breakdown) -> dict[str, Any]:
    """Return what HTA tells of a trace; path and rank are the trace's own."""
    fields = with_ms({key: value for key, value in vars(breakdown).items() if key not in {"path", "rank"}})
    fields["times"] = breakdown.times and with_ms(vars(breakdown.times))
    fields["kernels"] = [with_ms(vars(kernel)) for kernel in breakdown.kernels]
    fields["streams"] = [with_ms(vars(stream)) for stream in breakdown.streams]
    return fields | {"launches": breakdown.launches and vars(breakdown.launches)}


def _trace(profile: Profile, findings: Findings) -> dict[str, Any]:
    info, count = profile.info, profile.steps.count
    step = profile.step_ns
    return {
        "path": profile.path,
        "rank": info.rank,
        "world_size": info.world_size,
        "torch_version": info.torch_version,
        "devices": [{"name": device.name, "index": device.index} for device in info.devices],
        "span_ms": maybe_ms(profile.span_ns),
        "events": {
            **{name: profile.counts.get(name, 0) for name in KNOWN_COUNTS},
            "skipped": sum(profile.skipped.values()),
            "skipped_reasons": profile.skipped,
            "other": {name: number for name, number in profile.counts.items() if name not in KNOWN_COUNTS},
        },
        "missing": [_missing(entry) for entry in profile.doubts],
        **verdicts(profile, findings),
        "steps": _steps(profile),
        "per_step": _per_step(profile.sums) if profile.sums else None,
        "step_parts": [_parts(mean) for mean in profile.parts],
        "gpu": [_gpu(gpu) for gpu in profile.gpus],
        "copies": [_copies(group) for group in profile.copies],
        "overlap": _overlap(profile),
        "syncs": _syncs(profile),
        "idle": _idle(profile),
        "pause": _pause(profile.pause),
        "launches": _launches(profile.launches, findings.blockers),
        "loader": {
            "waits": profile.loader.waits,
            "wait_ms": maybe_ms(profile.loader.wait_ns),
            "per_step_ms": maybe_ms(profile.loader.wait_in_steps_ns / count)
            if count and not profile.withheld.per_step
            else None,
            "pinned": profile.loader.pinned,
            "pin_thread": profile.loader.pin_thread,
            "pins": profile.loader.pins,
        },
        **spent(profile),
        "host_profile": host_profile(profile),
        "host_memory": asdict(info.host_memory) if info.host_memory else None,
        "findings": [finding_fields(finding, step) for finding in findings],
        "joint": joint_fields(findings.joint, step),
    }


def _missing(entry: Doubt) -> dict[str, Any]:
    return {
        "check": entry.check,
        "level": entry.level,
        "what": entry.what,
        "effect": entry.effect,
        "remedy": entry.remedy,
        "invalidates": [figure for figure in FIGURES if figure in entry.withholds],
    }


def _idle(profile: Profile) -> list[dict[str, Any]]:
    """Return the idle time by cause; where causes are withheld, of no cause."""
    return [
        {"device": gpu.device, "cause": cause, "time_ms": maybe_ms(time)}
        for gpu in profile.gpus
        for cause, time in _idle_by_cause(gpu)
    ]


def _idle_by_cause(gpu: GpuSums) -> Iterable[tuple[str | None, int | None]]:
    if isinstance(gpu.idle_by_cause, Known):
        return gpu.idle_by_cause.value
    time = given(gpu.time)
    return [(None, time.idle_ns if time else None)]


def _pause(pause: Pause | None) -> dict[str, Any] | None:
    """Return the longest time per step in which the host ran no op and no call; None where that is not known."""
    return None if pause is None else with_ms(vars(pause))


def _launches(launches: Launches | None, blockers: Sequence[Blocker] | None) -> dict[str, Any] | None:
    """Return how kernels are launched, as traced; None where that is not known."""
    if launches is None:
        return None
    return {
        "per_step": launches.per_step,
        "median_kernel_us": launches.median_kernel_ns / 1000,
        "host_us_per_launch": launches.host_ns / 1000,
        "phases": [with_ms(vars(phase)) for phase in launches.phases],
        "ops": [with_ms(vars(each)) for each in launches.ops],
        "modules": [with_ms(vars(each)) for each in launches.modules],
        "blockers": None if blockers is None else [_blocker(each) for each in blockers],
    }


def _blocker(blocker: Blocker) -> dict[str, Any]:
    """Return what a CUDA graph of the step cannot hold."""
    return {"what": blocker.what, **blocker.place._asdict(), "per_step": blocker.per_step}


def _steps(profile: Profile) -> dict[str, Any]:
    steps, step = profile.steps, profile.estimate
    return {
        "count": steps.count,
        "source": steps.source,
        "marker": steps.marker,
        "step_marker": profile.info.step_marker,
        "host_ms": maybe_ms(steps.host_ns),
        "device_ms": maybe_ms(steps.device_ns),
        "traced_ms": maybe_ms(steps.traced_ns),
        "busy_ms": maybe_ms(steps.busy_ns),
        "busy_fraction": _share(steps.busy_ns, step.step_ns),
        "step_ms": maybe_ms(step.step_ns),
        "step_source": step.source,
        "range_ms": None if step.range_ns is None else [maybe_ms(bound) for bound in step.range_ns],
        "bound": profile.bound,
        **course_of_run(profile),
    }


def _share(busy_ns: float | None, step_ns: float | None) -> float | None:
    """Return how much of the step the GPU works; the trace may say a little more than all of it."""
    return min(busy_ns / step_ns, 1.0) if busy_ns is not None and step_ns else None


def _per_step(sums: PerStep) -> dict[str, Any]:
    waits = given(sums.waits)
    drained = given(waits.drained) if waits else None
    return {
        "hidden_syncs": waits and waits.hidden,
        "hidden_stall_ms": waits and maybe_ms(waits.hidden_stall_ns),
        "exposed_ms": maybe_ms(given(sums.exposed_ns)),
        "pageable_bytes": given(sums.pageable_bytes),
        "stall_ms": waits and maybe_ms(waits.stall_ns),
        "drain_ms": drained and maybe_ms(drained.drain_ns),
        "bubble_ms": drained and maybe_ms(drained.bubble_ns),
    }


def _parts(mean: MeanStep) -> dict[str, Any]:
    """Return how a mean step divides on a GPU; all but the device and `step_ms` add up to `step_ms`."""
    return {
        "device": mean.device,
        "step_ms": maybe_ms(mean.length_ns),
        "compute_ms": maybe_ms(mean.compute_ns),
        "overlapped_ms": maybe_ms(mean.both_ns),
        "exposed_ms": maybe_ms(mean.copy_ns),
        "memset_ms": maybe_ms(mean.memset_ns),
        "idle_ms": maybe_ms(mean.idle_ns),
    }


def _gpu(gpu: GpuSums) -> dict[str, Any]:
    time = given(gpu.time)
    return {
        "device": gpu.device,
        "busy_ms": time and maybe_ms(time.busy_ns),
        "kernel_ms": time and maybe_ms(time.kernel_ns),
        "memcpy_ms": time and maybe_ms(time.memcpy_ns),
        "idle_ms": time and maybe_ms(time.idle_ns),
        "span_ms": time and maybe_ms(time.span_ns),
    }


def _copies(group: CopySums) -> dict[str, Any]:
    copied, hidden = given(group.copied), given(group.hidden)
    return {
        "direction": group.direction,
        "host_memory": None if group.host_memory == "none" else group.host_memory,
        "count": copied and copied.count,
        "bytes": copied and copied.bytes,
        "unsized": group.unsized,
        "time_ms": copied and maybe_ms(copied.time_ns),
        "overlapped_ms": hidden and maybe_ms(hidden.overlapped_ns),
        "exposed_ms": hidden and maybe_ms(hidden.exposed_ns),
        "bandwidth_gbps": copied and copied.bandwidth_gbps,
        "host_blocked_ms": maybe_ms(given(group.host_blocked_ns)),
    }


def _overlap(profile: Profile) -> dict[str, Any]:
    overlap = given(profile.overlap)
    return {
        "copy_ms": maybe_ms(given(profile.copy_ns)),
        "overlapped_ms": overlap and maybe_ms(overlap.overlapped_ns),
        "exposed_ms": overlap and maybe_ms(overlap.exposed_ns),
        "fraction": overlap and overlap.fraction,
        "reasons": [
            {"reason": given(each.reason), "count": given(each.count), "exposed_ms": maybe_ms(given(each.exposed_ns))}
            for each in profile.exposed
        ],
    }


def _syncs(profile: Profile) -> dict[str, Any]:
    waits = [site for site in profile.sites if site.is_wait]
    total = _together(profile, (site.total for site in waits))
    in_steps = _together(profile, (site.in_steps for site in waits))
    return {
        "count": total and total.count,
        "per_step": _per(profile, in_steps),
        "stall_ms": total and maybe_ms(total.stall_ns),
        "sites": [_site(profile, site) for site in profile.sites],
        "groups": _groups(profile),
        "watched_steps": profile.info.watched.steps if profile.info.watched else None,
        "seen_elsewhere": [_seen(wait) for wait in seen_elsewhere(profile)],
    }


def _seen(wait: SeenWait) -> dict[str, Any]:
    """Return waits that only watching saw."""
    return {
        **wait.place._asdict(),
        "stack": list(wait.stack),
        "called": wait.called,
        "thread": wait.thread,
        "count": wait.waits,
        "steps": wait.steps,
        "every": wait.every,
        "per_step": wait.waits / wait.of if wait.of else None,
    }


def _together(profile: Profile, costs: Iterable[Perhaps[WaitCost]]) -> Stalled | None:
    """Return what waits cost together; None if that is withheld, also where there is none."""
    if profile.withheld.stalls:
        return None
    known = [cost.value for cost in costs if isinstance(cost, Known)]
    return Stalled(sum(cost.count for cost in known), sum(cost.stall_ns for cost in known))


def _per(profile: Profile, in_steps: Stalled | None) -> float | None:
    """Return how many waits there are per step; None without complete steps, and where that is withheld."""
    count = profile.steps.count
    return in_steps.count / count if in_steps and count and not profile.withheld.per_step else None


def _site(profile: Profile, site: WaitSite) -> dict[str, Any]:
    total = given(site.total)
    whole = given(total.whole) if total else None
    return {
        "cause": site.cause,
        "op": site.op,
        "call": site.call,
        **site.place._asdict(),
        "library": site.library and site.library._asdict(),
        "path": list(site.path),
        "stack": list(site.stack),
        "thread": site.thread,
        "count": total and total.count,
        "per_step": _per(profile, given(site.in_steps)),
        "stall_ms": total and maybe_ms(total.stall_ns),
        "drain_ms": whole and maybe_ms(whole.drain_ns),
        "own_ms": whole and maybe_ms(whole.own_ns),
        "bubble_ms": whole and maybe_ms(whole.idle_ns),
        "verdict": site.verdict,
        "group": site.group,
        "guards": list(site.guards),
    }


def _groups(profile: Profile) -> list[dict[str, Any]]:
    """Return the groups of sites whose waits only move if one of them is removed alone, each with its sums."""
    members: dict[int, list[int]] = {}
    for index, site in enumerate(profile.sites):
        if site.group is not None:
            members.setdefault(site.group, []).append(index)
    return [
        {"group": number, "sites": indices, **_sums(profile, [profile.sites[index].total for index in indices])}
        for number, indices in sorted(members.items())
    ]


def _sums(profile: Profile, costs: Sequence[Perhaps[WaitCost]]) -> dict[str, Any]:
    together, whole = _together(profile, costs), [whole_cost(cost) for cost in costs]
    idle = None if None in whole else sum(cost.idle_ns for cost in whole if cost)
    return {"stall_ms": together and maybe_ms(together.stall_ns), "bubble_ms": maybe_ms(idle)}
