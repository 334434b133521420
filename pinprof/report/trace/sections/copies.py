"""The section on copies: a table with a row for each direction and memory, and why copies are exposed."""

from collections.abc import Iterator

from pinprof.analyses.copies import EXPOSURES
from pinprof.ground.units import counted, duration, percent, rate, sizes
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import Withheld, given
from pinprof.report.html import Column, number_columns
from pinprof.report.view import Fact, ReportTable, Section
from pinprof.report.words import NOTHING, not_shown


def copy_section(profile: Profile) -> Section:
    """Return the table of copies, how much of their time kernels overlap, and why the rest is exposed."""
    columns = [Column("copy"), Column("host memory")]
    columns += number_columns("count", "bytes", "time", "overlapped", "exposed", "rate", "host blocked")
    rows = [] if profile.withheld.copies else list(copy_cells(profile))
    tables = [ReportTable("Each copy counted by itself", columns, rows)] if rows else []
    number, meaning = _overlapped(profile)
    overlap = Fact("overlapped", number, meaning, is_named=False)
    return Section(
        "Copies, in the whole trace", facts=[overlap], tables=tables, notes=list(_exposed(profile)), name="copies"
    )


def copy_cells(profile: Profile) -> Iterator[list[str]]:
    """Yield per group of copies: direction, memory, count, bytes, time, overlapped, exposed, rate, host blocked."""
    for group in profile.copies:
        copied, hidden, blocked_ns = given(group.copied), given(group.hidden), given(group.host_blocked_ns)
        rate_gbps = copied.bandwidth_gbps if copied else None
        yield [
            group.direction,
            NOTHING if group.host_memory == "none" else group.host_memory,
            str(copied.count) if copied else NOTHING,
            sizes(copied.bytes, group.unsized) if copied else NOTHING,
            duration(copied.time_ns) if copied else NOTHING,
            duration(hidden.overlapped_ns) if hidden else NOTHING,
            duration(hidden.exposed_ns) if hidden else NOTHING,
            NOTHING if rate_gbps is None else rate(rate_gbps),
            NOTHING if blocked_ns is None else duration(blocked_ns),
        ]


def _overlapped(profile: Profile) -> tuple[str, str]:
    overlap = profile.overlap
    if isinstance(overlap, Withheld):
        return NOTHING, f"overlap: {not_shown(overlap.reason)}"
    if overlap.value.fraction is None:
        return NOTHING, "overlap: unknown for these copies"
    known_time = duration(overlap.value.known_ns)
    return percent(overlap.value.fraction), f"of {known_time} copy time is overlapped by kernels"


def _exposed(profile: Profile) -> Iterator[str]:
    withheld = profile.withheld
    if withheld.overlap or withheld.causes:
        yield f"why copies are exposed: {not_shown(withheld.overlap, withheld.causes)}"
        return
    times = [copied.time_ns for group in profile.copies if (copied := given(group.copied))]
    shared_ns = sum(times) - (given(profile.copy_ns) or 0)
    if shared_ns:
        shared = duration(shared_ns)
        yield f"copies overlap each other for {shared}: this counts once here, and for each copy in the table"
    for group in profile.exposed:
        reason, count, exposed_ns = given(group.reason), given(group.count), given(group.exposed_ns)
        if reason is not None and count is not None and exposed_ns is not None:
            copies = counted(count, "copy", "copies")
            yield f"{duration(exposed_ns)} exposed in {copies}: {EXPOSURES[reason].sentence}"
