"""The sampled time of the host for programs: part of the report in JSON."""

from dataclasses import asdict
from typing import Any

from pinprof.analyses.host import CalledLine, HostPlace, HostSums
from pinprof.measurement.profile import Profile
from pinprof.report.trace.host import measured_step_ns
from pinprof.units import ms

MOST_PLACES = 200
"""Of the host's lines and functions, those with the most samples."""


def host_profile(profile: Profile) -> dict[str, Any] | None:
    """Return the sampled stacks and their sums; None where the recording has none, not even the reason."""
    recorded, sums = profile.info.host, profile.host
    if recorded is None:
        return None
    return {
        **asdict(recorded),
        "kinds": [{"kind": kind, **_share(profile, sums, count)} for kind, count in sums.kinds] if sums else [],
        "called": [_called(profile, sums, row) for row in sums.called[:MOST_PLACES]] if sums else [],
        "lines": [_host_place(profile, sums, row) for row in sums.lines[:MOST_PLACES]] if sums else [],
        "functions": [_host_place(profile, sums, row) for row in sums.functions[:MOST_PLACES]] if sums else [],
    }


def _called(profile: Profile, sums: HostSums, row: CalledLine) -> dict[str, Any]:
    return {**row.place._asdict(), **_share(profile, sums, row.count), "kinds": dict(row.kinds)}


def _host_place(profile: Profile, sums: HostSums, row: HostPlace) -> dict[str, Any]:
    whole = {"total": row.total, "total_share": sums.share(row.total)}
    return {**row.place._asdict(), "origin": row.origin, **_share(profile, sums, row.own), **whole}


def _share(profile: Profile, sums: HostSums, count: int) -> dict[str, Any]:
    """Return samples as a share with its error, both fractions, and as a time of the step without the profiler."""
    step = measured_step_ns(profile)
    time = ms(sums.share(count) * step) if step else None
    return {"samples": count, "share": sums.share(count), "error": sums.error(count), "per_step_ms": time}
