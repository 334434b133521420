"""Kernels by GPU time and ops by host time, in the words that the terminal and the page share."""

import re
from collections.abc import Sequence

from pinprof.analyses.spent import KernelSums, KernelTime, OpSums, OpTime, Origin
from pinprof.measurement.profile import Profile
from pinprof.report.words import NOTHING, in_short, place, printable
from pinprof.trace.lines import Place
from pinprof.units import counted, duration, how_many, percent

MAX_LABEL = 48
"""Longest label of a kernel in characters."""
DECORATION = re.compile(r"^void |\(anonymous namespace\)::|\b(at::native|at|c10|std)::")
"""What the names of many kernels have in common."""

WITHOUT = "without profiler"
OP_COLUMNS = ("op", "called by", "count", "own time", "mean", "of host time", WITHOUT, "stall", "kernels")
OP_MEANING = "own time: without the ops that an op calls; stall: the part of it in calls that can block"


def kernel_columns(profile: Profile) -> tuple[str, ...]:
    """Return the columns of the table of kernels."""
    return "kernel", "launched by", "count", "time", "mean", "of the GPU's work", f"of the {profile.steps.whole}"


def kernels_title(profile: Profile, *, communication: bool) -> str:
    """Return of what the table of kernels is."""
    if communication:
        return f"Collectives by GPU time, {profile.steps.per}; waiting for other ranks counts"
    return f"Kernels by GPU time, {profile.steps.per}"


def ops_title(profile: Profile) -> str:
    """Return of what the table of ops is."""
    return f"Ops by host time, {profile.steps.per} as traced, with the profiler's cost in it"


def of_kind(sums: KernelSums, *, communication: bool) -> list[KernelTime]:
    """Return the kernels of collectives, or all others."""
    return [row for row in sums.rows if row.communication == communication]


def kernel_cells(profile: Profile, sums: KernelSums, row: KernelTime) -> tuple[str, ...]:
    """Return what each of the columns says of the kernels of a name."""
    steps, of_step = profile.steps.divisor, step_share(profile, sums, row)
    return (
        kernel_label(row.name),
        ", ".join(filter(None, (printable(row.op) if row.op else "", origin_words(row.origin)))) or NOTHING,
        how_many(row.count / steps),
        duration(row.time_ns / steps),
        duration(row.time_ns / row.count),
        percent(row.time_ns / sums.busy_ns) if sums.busy_ns else NOTHING,
        NOTHING if of_step is None else percent(of_step),
    )


def step_share(profile: Profile, sums: KernelSums, row: KernelTime) -> float | None:
    """Return the share of the step in which kernels run, the mean of the GPUs; None where the step is not known."""
    step = profile.step_ns
    return row.time_ns / (profile.steps.divisor * sums.devices * step) if step and sums.devices else None


def op_cells(profile: Profile, sums: OpSums, row: OpTime) -> tuple[str, ...]:
    """Return what each of OP_COLUMNS says of the ops of a name."""
    steps, without = profile.steps.divisor, without_profiler_ns(profile, sums, row.own_ns)
    return (
        printable(row.name),
        origin_words(row.origin) or NOTHING,
        how_many(row.count / steps),
        duration(row.own_ns / steps),
        duration(row.own_ns / row.count),
        percent(row.own_ns / sums.host_ns) if sums.host_ns else NOTHING,
        NOTHING if without is None else duration(without),
        NOTHING if row.stall_ns is None else duration(row.stall_ns / steps),
        NOTHING if row.kernels is None else how_many(row.kernels / steps),
    )


def op_meanings(profile: Profile, rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return what the columns of these rows of ops mean."""
    if all(row[OP_COLUMNS.index(WITHOUT)] == NOTHING for row in rows):
        return [OP_MEANING]
    share = f"scaled to the {profile.steps.whole} without the profiler"
    return [OP_MEANING, f"{WITHOUT}: {share}; the profiler slows some ops more than others"]


def without_profiler_ns(profile: Profile, sums: OpSums, time_ns: int) -> float | None:
    """Return the same share of the step without the profiler; None where the host does not set the step's length.

    It is a share and no measurement: the profiler slows some ops more than others.
    """
    step = profile.estimate.step_ns
    host_bound = profile.bound == "host" or not profile.gpus
    return time_ns / sums.host_ns * step if host_bound and step and sums.host_ns else None


def in_all(profile: Profile, sums: OpSums) -> tuple[str, str]:
    """Return how long the host is in ops, and what that means."""
    share = f", {percent(sums.own_ns / sums.host_ns)} of the host's time" if sums.host_ns else ""
    return duration(sums.own_ns / profile.steps.divisor), f"in ops{share}; the rest is Python and what is not recorded"


def left_out(profile: Profile, sums: KernelSums | OpSums, what: str) -> str:
    """Return what a table of all rows leaves out; nothing where that is nothing."""
    left = sums.names - len(sums.rows)
    time = duration(sums.left_ns / profile.steps.divisor)
    return f"{counted(left, f'more {what}')} of other names, {time} together, left out" if left else ""


def origin_words(origin: Origin) -> str:
    """Return where most of the time comes from, as far as known: the user's place, and the module."""
    at = place(in_short(origin.place)) if origin.place != Place() else ""
    where = f"{at}{_more(origin.places)}" if at else ""
    module = f"in {printable(origin.module)}{_more(origin.modules)}" if origin.module else ""
    return ", ".join(filter(None, (where, module)))


def _more(count: int) -> str:
    return f" and {count - 1} more" if count > 1 else ""


def kernel_label(name: str) -> str:
    """Return the beginning of a kernel's name without what many have in common."""
    plain = DECORATION.sub("", printable(name))
    return plain if len(plain) <= MAX_LABEL else plain[: MAX_LABEL - 1] + "…"


def shown_columns(titles: Sequence[str], rows: Sequence[tuple[str, ...]]) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return a table without the columns in which no row has anything."""
    kept = [at for at in range(len(titles)) if any(row[at] != NOTHING for row in rows)]
    return [titles[at] for at in kept], [tuple(row[at] for at in kept) for row in rows]
