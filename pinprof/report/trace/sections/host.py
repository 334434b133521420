"""Where the host's time goes: a section of the report, and the costliest lines for traces without GPU work."""

from itertools import islice

from pinprof.analyses.host_samples import CalledLine, CodeKind, HostPlace, HostSums
from pinprof.ground.units import counted, duration, percent
from pinprof.measurement.figures import LOADER_MS
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import given
from pinprof.report.html import Column, number_columns
from pinprof.report.view import ReportTable, Section
from pinprof.report.words import NOTHING, place, printable

HOST_TITLE = "Where the host's time goes, sampled without the profiler"
KIND_NAMES: dict[CodeKind, str] = {
    "user": "your code",
    "torch": "torch",
    "library": "Python and other packages",
    "input": "the DataLoader",
}
WHAT_COUNTS = "a call in C, such as an operator of torch, counts for the Python code that makes it"
MIN_KIND_SHARE_OF_LINE = 0.1
"""A kind of code that has a smaller share of a line's samples is not named."""
MAX_HOST_LINES = 20
"""The most lines that a table lists: lines after these have hardly more than one sample each."""
MAX_LINES_NAMED = 3
MIN_PART_SHARE, MAX_PARTS_OF_LINE = 0.02, 6
"""A part of a line is named if it takes at least this share of the time; at most this many parts are named."""
MIN_LINE_SHARE = 0.05
MAX_ERROR_OF_SHARE = 0.2
"""If shares may be off by more than this (twenty samples or fewer), only the tables show them, no sentence."""
LOAD_IN_WORKERS = "let workers make the batches: DataLoader(..., num_workers=4, persistent_workers=True)"
LOAD_FASTER = "more workers (num_workers), persistent_workers=True, or less work per sample"


def host_section(profile: Profile, *, rows: int | None = None) -> Section | None:
    """Return the lines and functions with most time; None if the recording was made without sampling.

    A terminal shows only the first `rows` of the lines; None: all of them.
    """
    sums, recorded = profile.host, profile.info.host
    why_not: list[str] = []
    if recorded and recorded.why_not:
        why_not.append(f"{'not sampled further' if recorded.samples else 'not sampled'}: {recorded.why_not}")
    if sums is None:
        return Section(HOST_TITLE, notes=why_not, name="host") if why_not else None
    first = f"; the first {MAX_HOST_LINES} of {len(sums.called)} lines" if len(sums.called) > MAX_HOST_LINES else ""
    lines = ReportTable(
        f"The innermost of your lines, which add up to the time of the main thread{first}",
        [Column("your line"), Column("in"), *number_columns("of the time", "of the step", "samples")],
        cells := [
            (place(row.place) or "no line of yours", running_code(row), *_share_cells(profile, sums, row.count))
            for row in sums.called[:MAX_HOST_LINES]
        ],
        cells[:rows],
    )
    functions = ReportTable(
        f"Own time of functions; {WHAT_COUNTS}",
        [Column("function"), Column("of"), *number_columns("own time", "of the step", "samples", "with callees")],
        [_function_cells(profile, sums, row) for row in sums.functions if row.own][:MAX_HOST_LINES],
        (),
    )
    precision = f"{counted(sums.samples, 'sample')} in {counted(sums.steps, 'step')}: {_precision(sums)}"
    notes = [*why_not, f"{_shares_by_kind(sums)} ({precision})"]
    for line in () if profile.gpus else named_lines(profile):
        named = (("below it", parts_of_line(profile, line)), ("what helps", input_remedy(profile, line)))
        remarks = "; ".join(f"{what}: {words}" for what, words in named if words)
        notes += [f"{printable(place(line.place))}, {remarks}"] if remarks else []
    return Section(HOST_TITLE, tables=[lines, functions], notes=notes, name="host")


def _precision(sums: HostSums) -> str:
    return f"shares are right within {100 * _largest_error(sums):.0f} points"


def _largest_error(sums: HostSums) -> float:
    return sums.error(sums.samples // 2)


def _shares_by_kind(sums: HostSums) -> str:
    return ", ".join(f"{percent(sums.share(count))} in {KIND_NAMES[kind]}" for kind, count in sums.kinds)


def _function_cells(profile: Profile, sums: HostSums, row: HostPlace) -> tuple[str, ...]:
    shares = *_share_cells(profile, sums, row.own), percent(sums.share(row.total))
    return (place(row.place), KIND_NAMES[row.origin], *shares)


def _share_cells(profile: Profile, sums: HostSums, count: int) -> tuple[str, str, str]:
    step_ns = measured_step_ns(profile)
    return share_with_error(profile, count), duration(sums.share(count) * step_ns) if step_ns else NOTHING, f"{count:,}"


def share_with_error(profile: Profile, count: int) -> str:
    """Return a number of samples as a share of the time, in percent, with its error in points."""
    return f"{percent(profile.host.share(count))} ± {100 * profile.host.error(count):.0f}" if profile.host else NOTHING


def measured_step_ns(profile: Profile) -> float | None:
    """Return the step without the profiler, for shares of samples; None if it is only estimated."""
    return profile.estimate.step_ns if profile.estimate.source != "estimated" else None


def running_code(row: CalledLine) -> str:
    """Return whose code runs while this line is the innermost one of the program."""
    kinds = [kind for kind, count in row.kinds if count >= MIN_KIND_SHARE_OF_LINE * row.count]
    return " and ".join(KIND_NAMES[kind] for kind in kinds)


def host_time(profile: Profile) -> str:
    """Return where the host's time goes in a few words; empty if the trace does not show it."""
    sums = profile.host
    if sums and _largest_error(sums) > MAX_ERROR_OF_SHARE:
        return f"its samples, {sums.samples}, are too few to tell where the time goes"
    if sums:
        return f"{_shares_by_kind(sums)} ({_precision(sums)})"
    waits, step = given(LOADER_MS.of(profile)), profile.steps.traced_ns
    if waits is None or not step or not MIN_LINE_SHARE * step <= waits <= step:  # a longer wait is of irregular steps
        return ""
    traced = f"the {profile.steps.whole} as traced, {duration(step)}"
    return f"{duration(waits)} in the DataLoader, {percent(waits / step)} of {traced}"


def first_line(profile: Profile) -> str:
    """Return the line that takes most of the time, and how long; empty if none was sampled."""
    lines = named_lines(profile)
    if not lines or not profile.host:
        return ""
    spent = f"{time_of_line(profile, lines[0])} ({_precision(profile.host)})"
    return f"{printable(place(lines[0].place))}, {spent}"


def input_remedy(profile: Profile, line: CalledLine) -> str:
    """Return what makes batches come sooner, if the line waits for them; otherwise an empty text."""
    if line.kinds[0][0] != "input":
        return ""
    return LOAD_IN_WORKERS if profile.loader.in_process else LOAD_FASTER


def named_lines(profile: Profile) -> list[CalledLine]:
    """Return the lines of the program that take a share worth naming, most first."""
    sums = profile.host
    if sums is None or _largest_error(sums) > MAX_ERROR_OF_SHARE:
        return []
    worth = (line for line in sums.called if line.line is not None and sums.share(line.count) >= MIN_LINE_SHARE)
    return list(islice(worth, MAX_LINES_NAMED))


def parts_of_line(profile: Profile, line: CalledLine) -> str:
    """Return what takes the time below a line of the program: "forward 44 %, backward 27 %"; empty for one part."""
    shares = [(name, profile.host.share(count)) for name, count in line.parts] if profile.host else []
    worth = [f"{printable(name)} {percent(share)}" for name, share in shares if share >= MIN_PART_SHARE]
    return ", ".join(worth[:MAX_PARTS_OF_LINE]) if len(worth) > 1 else ""  # a single part is the line itself


def time_of_line(profile: Profile, line: CalledLine) -> str:
    """Return how long a line takes and in whose code, in words."""
    share, step_ns = profile.host.share(line.count) if profile.host else 0.0, measured_step_ns(profile)
    time = f"{duration(share * step_ns)}, {percent(share)}" if step_ns else percent(share)
    return f"{time} of the {profile.steps.whole}: in {running_code(line)}"
