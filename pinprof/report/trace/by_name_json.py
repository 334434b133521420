"""Where the time goes by name, for programs: kernels, ops, launches, and the sampled host."""

from collections.abc import Sequence
from typing import TypedDict

from pinprof.analyses.by_name.kernels import KernelSums, KernelTime
from pinprof.analyses.by_name.names import Origin
from pinprof.analyses.by_name.ops import OpSums, OpTime
from pinprof.analyses.host_samples import CalledLine, HostPlace, HostSums
from pinprof.analyses.launches import Launches
from pinprof.document import filled, maybe_ms
from pinprof.documents import by_name as documents
from pinprof.documents.fields import blockers
from pinprof.measurement.profile import Profile
from pinprof.report.trace.by_name import step_share, without_profiler_ns
from pinprof.report.trace.host import measured_step_ns
from pinprof.units import ms
from pinprof.whatif.graphs import Blocker

NS_PER_US = 1000
MOST_PLACES = 200
"""Of the host's lines and functions, those with the most samples."""


class SampleFields(TypedDict):
    """Samples as a share with its error, both fractions, and as a time of the step without the profiler."""

    samples: int
    share: float
    error: float
    per_step_ms: float | None


def kernel_of(profile: Profile, sums: KernelSums, row: KernelTime) -> documents.Kernel:
    """Return the kernels of one name."""
    return filled(
        documents.Kernel,
        _times(profile, row.name, row.count, row.time_ns, row.origin),
        share=row.time_ns / sums.busy_ns if sums.busy_ns else None,
        step_share=step_share(profile, sums, row),
        communication=row.communication,
        streams=[documents.Lane(*lane) for lane in row.lanes],
        op=row.op,
    )


def kernel_sums(profile: Profile, sums: KernelSums) -> documents.KernelSums:
    """Return all kernels together."""
    return filled(documents.KernelSums, _sums(profile, sums, sums.time_ns), busy_ms=_ms(profile, sums.busy_ns))


def op_of(profile: Profile, sums: OpSums, row: OpTime) -> documents.Op:
    """Return the ops of one name."""
    return filled(
        documents.Op,
        _times(profile, row.name, row.count, row.own_ns, row.origin),
        share=row.own_ns / sums.host_ns if sums.host_ns else None,
        without_profiler_ms=maybe_ms(without_profiler_ns(profile, sums, row.own_ns)),
        stall_ms=None if row.stall_ns is None else _ms(profile, row.stall_ns),
        kernels=None if row.kernels is None else row.kernels / profile.steps.divisor,
        kernel_ms=None if row.kernel_ns is None else _ms(profile, row.kernel_ns),
    )


def op_sums(profile: Profile, sums: OpSums) -> documents.OpSums:
    """Return all ops together."""
    return filled(documents.OpSums, _sums(profile, sums, sums.own_ns), host_ms=_ms(profile, sums.host_ns))


def _sums(profile: Profile, sums: KernelSums | OpSums, time_ns: int) -> documents.Sums:
    return documents.Sums(
        names=sums.names,
        left_out=sums.names - len(sums.rows),
        left_out_ms=_ms(profile, sums.left_ns),
        ms=_ms(profile, time_ns),
    )


def _times(profile: Profile, name: str, count: int, time_ns: int, origin: Origin) -> documents.Times:
    per_step, mean_us = count / profile.steps.divisor, round(time_ns / count / NS_PER_US, 3)
    return filled(documents.Times, origin, name=name, count=per_step, ms=_ms(profile, time_ns), mean_us=mean_us)


def _ms(profile: Profile, time_ns: int) -> float:
    """Return a time of the complete steps together as ms per step."""
    return ms(time_ns / profile.steps.divisor)


def launches_of(launches: Launches, forbids: Sequence[Blocker] | None) -> documents.Launches:
    """Return how kernels are launched, as traced; `forbids` is what a CUDA graph of the step cannot hold."""
    return documents.Launches(
        per_step=launches.per_step,
        median_kernel_us=launches.median_kernel_ns / NS_PER_US,
        host_us_per_launch=launches.host_ns / NS_PER_US,
        phases=[filled(documents.Phase, phase, phase=phase.name) for phase in launches.phases],
        ops=[filled(documents.Launcher, op) for op in launches.ops],
        modules=[filled(documents.Launcher, module) for module in launches.modules],
        blockers=None if forbids is None else blockers(forbids),
    )


def host_profile(profile: Profile) -> documents.HostProfile | None:
    """Return the sampled stacks and their sums; None where the recording has none, not even the reason."""
    recorded, sums = profile.info.host, profile.host
    if recorded is None:
        return None
    return filled(
        documents.HostProfile,
        recorded,
        kinds=[documents.Kind(kind, **_samples(profile, sums, count)) for kind, count in sums.kinds] if sums else [],
        called=[_called(profile, sums, row) for row in sums.called[:MOST_PLACES]] if sums else [],
        lines=[_host_line(profile, sums, row) for row in sums.lines[:MOST_PLACES]] if sums else [],
        functions=[_host_line(profile, sums, row) for row in sums.functions[:MOST_PLACES]] if sums else [],
    )


def _called(profile: Profile, sums: HostSums, row: CalledLine) -> documents.Called:
    return documents.Called(*row.place, **_samples(profile, sums, row.count), kinds=dict(row.kinds))


def _host_line(profile: Profile, sums: HostSums, row: HostPlace) -> documents.HostLine:
    return documents.HostLine(
        *row.place,
        row.origin,
        **_samples(profile, sums, row.own),
        total=row.total,
        total_share=sums.share(row.total),
    )


def _samples(profile: Profile, sums: HostSums, count: int) -> SampleFields:
    step = measured_step_ns(profile)
    time = ms(sums.share(count) * step) if step else None
    return SampleFields(samples=count, share=sums.share(count), error=sums.error(count), per_step_ms=time)
