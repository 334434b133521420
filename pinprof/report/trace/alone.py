"""A trace without work of a GPU: where the time of the host goes, and the lines that take most of it."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from pinprof.analyses.host import CalledLine
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
    if profile.withheld.per_step or not step or not WORTH * step <= waits <= step:  # longer: of steps unlike the others
        return ""
    return f"the main thread waits {duration(waits)} of it ({percent(waits / step)}) for its DataLoader, as traced"


def first_line(profile: Profile) -> str:
    """Return the line that takes most of the time; nothing where none was sampled."""
    lines = named_lines(profile)
    return f"First: {printable(place(lines[0].place))}, {_time(profile, lines[0])}." if lines else ""


def slow_lines(profile: Profile, quoting: Quoting) -> Iterator[RenderableType]:
    """Yield the lines of the program that take most of the time, each with its code and what it waits for."""
    lines = named_lines(profile)
    if not lines:
        return
    yield Text("\nLines that take the time, timed without the profiler", "bold")
    for number, line in enumerate(lines, start=1):
        yield hanging(Text(f"{number:>3}. "), Text(f"{_time(profile, line)}"))
        code = quoting.line(line.place, of_call=False)
        where = Text.assemble((printable(place(line.place)), "dim"), f"  {code}" if code else "")
        yield hanging(Text(INDENT), where)
        remedy = way_out(profile, line)
        if remedy:
            yield hanging(Text(f"{INDENT}→ "), Text(begun(remedy)))


def way_out(profile: Profile, line: CalledLine) -> str:
    """Return what makes batches come sooner where that is what the line waits for; else nothing."""
    if line.kinds[0][0] != "input":
        return ""
    return IN_PROCESS if profile.loader.in_process else BY_WORKERS


def named_lines(profile: Profile) -> list[CalledLine]:
    """Return the lines of the program that take a share worth naming, most first."""
    sums = profile.host
    if sums is None:
        return []
    return [line for line in sums.called if line.line is not None and sums.share(line.count) >= WORTH][:MOST]


def share_of(profile: Profile, line: CalledLine) -> tuple[float, float | None]:
    """Return the share of the step that a line takes, and its time in ns where the step was measured."""
    share, step_ns = profile.host.share(line.count) if profile.host else 0.0, measured_step_ns(profile)
    return share, share * step_ns if step_ns else None


def _time(profile: Profile, line: CalledLine) -> str:
    share, time_ns = share_of(profile, line)
    time = f"{duration(time_ns)}, {percent(share)}" if time_ns else percent(share)
    return f"{time} of the {profile.steps.whole}: in {of_kind(line)}"
