"""Where the host's time goes, in the words that the terminal and the page share."""

from collections.abc import Iterator

from pinprof.analyses.host import KINDS, CalledLine, HostPlace, HostSums, Kind
from pinprof.measurement.profile import Profile
from pinprof.report.words import MAX_CELL, NOTHING, cut, place
from pinprof.trace.lines import Place
from pinprof.units import counted, duration, percent

TITLE = "Where the host's time goes, sampled without the profiler"
KIND_NAMES: dict[Kind, str] = {
    "user": "your code",
    "torch": "torch",
    "library": "Python and other packages",
    "input": "the DataLoader",
}
WHAT_COUNTS = "a call in C, such as an operator of torch, counts for the Python code that makes it"
BESIDES_HOST = ("gpu", "communication")
"""What may limit a step other than the host."""
MOST = 0.9
"""Where more of a line's samples than this share are of one kind, it is called that kind alone."""


def matters(profile: Profile) -> bool:
    """Return whether the host's time may be what limits the step."""
    return profile.bound not in BESIDES_HOST


def by_kind(sums: HostSums) -> str:
    """Return how the time divides by kind of code."""
    parts = (f"{percent(sums.share(count))} in {KIND_NAMES[kind]}" for kind, count in sums.kinds)
    return ", ".join(parts)


def precision(sums: HostSums) -> str:
    """Return how much the samples can tell."""
    within = f"shares are right within {100 * sums.error(sums.samples // 2):.0f} points"
    return f"{counted(sums.samples, 'sample')} in {counted(sums.steps, 'step')}: {within}"


def called_cells(profile: Profile, sums: HostSums, row: CalledLine) -> tuple[str, ...]:
    """Return the cells of a line of the program: where, share, time of the step, samples, and what runs there."""
    at = cut(place(row.place) or "no line of yours", MAX_CELL)
    return (at, *_share_cells(profile, sums, row.count), of_kind(row))


def place_cells(profile: Profile, sums: HostSums, row: HostPlace) -> tuple[str, ...]:
    """Return the cells of a line or function: where, whose; share, time, samples of its own; its whole share."""
    at = cut(place(row.place) if row.line is not None else place(Place(row.file, None, row.function)), MAX_CELL)
    return (at, KIND_NAMES[row.origin], *_share_cells(profile, sums, row.own), percent(sums.share(row.total)))


def _share_cells(profile: Profile, sums: HostSums, count: int) -> tuple[str, str, str]:
    share = f"{percent(sums.share(count))} ± {100 * sums.error(count):.0f}"
    step_ns = measured_step_ns(profile)
    return share, duration(sums.share(count) * step_ns) if step_ns else NOTHING, f"{count:,}"


def measured_step_ns(profile: Profile) -> float | None:
    """Return the step without the profiler, of which samples are shares; None where it is only estimated."""
    return profile.estimate.step_ns if profile.estimate.source != "estimated" else None


def of_kind(row: CalledLine) -> str:
    """Return whose code runs while this is the innermost line of the program."""
    kind, most = row.kinds[0]
    if most >= MOST * row.count:
        return KIND_NAMES[kind]
    counts = dict(row.kinds)
    return ", ".join(f"{KIND_NAMES[kind]} {percent(counts[kind] / row.count)}" for kind in KINDS if kind in counts)


def not_sampled(profile: Profile) -> Iterator[str]:
    """Yield why the host was not sampled, or not to the end of the window."""
    host = profile.info.host
    if host is not None and host.why_not:
        yield f"{'not sampled further' if host.samples else 'not sampled'}: {host.why_not}"
