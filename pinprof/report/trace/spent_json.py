"""Kernels and ops by name for programs: part of the report in JSON."""

from typing import Any

from pinprof.analyses.spent import KernelSums, KernelTime, OpSums, OpTime, Origin
from pinprof.measurement.known import given
from pinprof.measurement.profile import Profile
from pinprof.report.trace.spent import step_share, without_profiler_ns
from pinprof.units import ms

NS_PER_US = 1000


def spent(profile: Profile) -> dict[str, Any]:
    """Return the kernels and ops of a step with their sums.

    Where they are withheld, and without complete steps, there are none, and null for the sums.
    """
    kernels, ops = (given(profile.kernels), given(profile.ops)) if profile.steps.count else (None, None)
    return {
        "kernels": [_kernel(profile, kernels, row) for row in kernels.rows] if kernels else [],
        "kernel_sums": kernels
        and {**_sums(profile, kernels, kernels.time_ns), "busy_ms": _ms(profile, kernels.busy_ns)},
        "ops": [_op(profile, ops, row) for row in ops.rows] if ops else [],
        "op_sums": ops and {**_sums(profile, ops, ops.own_ns), "host_ms": _ms(profile, ops.host_ns)},
    }


def _sums(profile: Profile, sums: KernelSums | OpSums, time_ns: int) -> dict[str, Any]:
    return {
        "names": sums.names,
        "left_out": sums.names - len(sums.rows),
        "left_out_ms": _ms(profile, sums.left_ns),
        "ms": _ms(profile, time_ns),
    }


def _kernel(profile: Profile, sums: KernelSums, row: KernelTime) -> dict[str, Any]:
    return {
        **_times(profile, row.name, row.count, row.time_ns, sums.busy_ns),
        "step_share": step_share(profile, sums, row),
        "communication": row.communication,
        "streams": [lane._asdict() for lane in row.lanes],
        "op": row.op,
        **_origin(row.origin),
    }


def _op(profile: Profile, sums: OpSums, row: OpTime) -> dict[str, Any]:
    without = without_profiler_ns(profile, sums, row.own_ns)
    return {
        **_times(profile, row.name, row.count, row.own_ns, sums.host_ns),
        "without_profiler_ms": None if without is None else ms(without),
        "stall_ms": None if row.stall_ns is None else _ms(profile, row.stall_ns),
        "kernels": None if row.kernels is None else row.kernels / profile.steps.divisor,
        "kernel_ms": None if row.kernel_ns is None else _ms(profile, row.kernel_ns),
        **_origin(row.origin),
    }


def _times(profile: Profile, name: str, count: int, time_ns: int, whole_ns: int) -> dict[str, Any]:
    return {
        "name": name,
        "count": count / profile.steps.divisor,
        "ms": _ms(profile, time_ns),
        "mean_us": round(time_ns / count / NS_PER_US, 3),
        "share": time_ns / whole_ns if whole_ns else None,
    }


def _origin(origin: Origin) -> dict[str, Any]:
    return {
        **origin.place._asdict(),
        "places": origin.places,
        "module": origin.module,
        "modules": origin.modules,
    }


def _ms(profile: Profile, time_ns: int) -> float:
    """Return a time of the complete steps together as ms per step."""
    return ms(time_ns / profile.steps.divisor)
