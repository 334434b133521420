"""A trace without work of a GPU: where the time of the host goes, and the lines that take most of it."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from pinprof.analyses.host import CalledLine, HostSums
from pinprof.measurement.profile import Profile
from pinprof.report.layout import hanging
from pinprof.report.source import Quoting
from pinprof.report.trace.host import by_kind, measured_step_ns, of_kind
from pinprof.report.words import begun, place, printable
from pinprof.units import duration, percent

MOST = 3
"""Lines that are named."""
WORTH = 0.05
"""A smaller share of the time is not worth a line."""
INDENT = "     "
IN_PROCESS = "let workers make the batches: DataLoader(..., num_workers=4, persistent_workers=True)"
BY_WORKERS = "more workers (num_workers), persistent_workers=True, or less work per sample"


def time_of_host(profile: Profile) -> str:
    """Return where the time of the host goes in a few words; nothing where the trace does not tell."""
    if profile.host:
        return by_kind(profile.host)
    waits, step = profile.loader.wait_in_steps_ns / max(profile.steps.divisor, 1), profile.steps.traced_ns
    if profile.withheld.per_step or not step or waits < WORTH * step:
        return ""
    return f"the main thread waits {duration(waits)} of it ({percent(waits / step)}) for its DataLoader, as traced"


def first_line(profile: Profile) -> str:
    """Return the line that takes most of the time; nothing where none was sampled."""
    line = next(_lines(profile.host), None) if profile.host else None
    if line is None or profile.host is None:
        return ""
    return f"First: {printable(place(line.place))}, {_time(profile, profile.host, line)}."


def slow_lines(profile: Profile, quoting: Quoting) -> Iterator[RenderableType]:
    """Yield the lines of the program that take most of the time, each with its code and what it waits for."""
    lines = list(_lines(profile.host))[:MOST] if profile.host else []
    if not lines or profile.host is None:
        return
    yield Text("\nLines that take the time, timed without the profiler", "bold")
    for number, line in enumerate(lines, start=1):
        yield hanging(Text(f"{number:>3}. "), Text(f"{_time(profile, profile.host, line)}"))
        code = quoting.line(line.place)
        where = Text.assemble((printable(place(line.place)), "dim"), f"  {code}" if code else "")
        yield hanging(Text(INDENT), where)
        if line.kinds[0][0] == "input":
            yield hanging(Text(f"{INDENT}→ "), Text(begun(way_out(profile))))


def way_out(profile: Profile) -> str:
    """Return what makes batches come sooner."""
    return IN_PROCESS if profile.loader.in_process else BY_WORKERS


def _lines(sums: HostSums | None) -> Iterator[CalledLine]:
    """Yield the lines of the program that take a share worth naming, most first."""
    for line in sums.called if sums else ():
        if sums and line.line is not None and sums.share(line.count) >= WORTH:
            yield line


def _time(profile: Profile, sums: HostSums, line: CalledLine) -> str:
    share, step_ns = sums.share(line.count), measured_step_ns(profile)
    time = f"{duration(share * step_ns)}, {percent(share)}" if step_ns else percent(share)
    return f"{time} of the {profile.steps.whole}: in {of_kind(line)}"
