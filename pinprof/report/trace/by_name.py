"""Kernels by GPU time and ops by host time: the sections of a report that list them by name."""

import re
from collections.abc import Iterator, Sequence

from pinprof.analyses.by_name.kernels import KernelSums, KernelTime
from pinprof.analyses.by_name.names import Origin
from pinprof.analyses.by_name.ops import OpSums, OpTime
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import Withheld
from pinprof.report.elements import Column
from pinprof.report.view import Cell, Fact, ReportTable, Section, Styled
from pinprof.report.words import NOTHING, not_shown, place, printable, short_place, with_more
from pinprof.units import counted, duration, how_many, percent

FEW = 5
"""Rows of a table in a terminal, unless more are asked for."""
MAX_LABEL = 48
"""Longest label of a kernel in characters."""
DECORATION = re.compile(r"^void |\(anonymous namespace\)::|\b(at::native|at|c10|std)::")
"""Parts that the names of many kernels share."""

WITHOUT = "without profiler"
OP_COLUMNS = ("op", "called by", "count", "own time", "mean", "of host time", WITHOUT, "stall")
OP_MEANING = "own time: without the ops that an op calls; stall: the part of it in calls that can block"


def kernel_sections(profile: Profile, *, rows: int | None) -> Iterator[Section]:
    """Yield the kernels by GPU time, those of collectives apart; a terminal has the first `rows`, None for all."""
    title = f"Kernels by GPU time, {profile.steps.per}"
    if isinstance(profile.kernels, Withheld):
        meaning = f"the time of kernels: {not_shown(profile.kernels.reason)}"
        yield Section(title, facts=[Fact("kernels", NOTHING, meaning, is_named=False)], name="kernels")
        return
    sums = profile.kernels.value
    kernels, collectives = ([row for row in sums.rows if row.communication == apart] for apart in (False, True))
    columns = ("kernel", "launched by", "count", "time", "mean", "of the GPU's work", f"of the {profile.steps.whole}")
    left = list(_left_out(profile, sums, "kernel"))
    of_collectives = f"Collectives by GPU time, {profile.steps.per}; waiting for other ranks counts"
    for name, called, sums_of in (("kernel", title, kernels), ("collective", of_collectives, collectives)):
        is_last = name == "collective" or not collectives
        cells = [_kernel_cells(profile, sums, row) for row in sums_of]
        if sums_of:
            yield _name_section(called, name, columns, cells, most=rows, notes=left if is_last else ())


def _kernel_cells(profile: Profile, sums: KernelSums, row: KernelTime) -> tuple[Cell, ...]:
    steps, of_step = profile.steps.divisor, step_share(profile, sums, row)
    return (
        Styled(kernel_label(row.name), "code"),
        ", ".join(filter(None, (printable(row.op) if row.op else "", _origin(row.origin)))) or NOTHING,
        how_many(row.count / steps),
        duration(row.time_ns / steps),
        duration(row.time_ns / row.count),
        percent(row.time_ns / sums.busy_ns) if sums.busy_ns else NOTHING,
        NOTHING if of_step is None else percent(of_step),
    )


def _name_section(
    title: str,
    name: str,
    columns: Sequence[str],
    rows: Sequence[tuple[Cell, ...]],
    *,
    most: int | None,
    facts: Sequence[Fact] = (),
    notes: Sequence[str] = (),
) -> Section:
    """Return a section with a row for each name, without empty columns."""
    kept = [at for at in range(len(columns)) if any(row[at] != NOTHING for row in rows)]
    titles = [Column(columns[at], is_number=at > 1) for at in kept]
    cells = [[row[at] for at in kept] for row in rows]
    listed = cells[:most]
    more = len(rows) - len(listed)
    return Section(
        title,
        facts=facts,
        tables=[ReportTable(title, titles, cells, listed, grid=f"{name}s")],
        notes=notes,
        left_out=[f"and {counted(more, f'more {name}')} by name: --all"] if more else [],
        name=f"{name}s",
    )


def step_share(profile: Profile, sums: KernelSums, row: KernelTime) -> float | None:
    """Return the share of the step in which kernels of a name run, the mean of the GPUs; None without a known step."""
    step = profile.step_ns
    return row.time_ns / (profile.steps.divisor * sums.devices * step) if step and sums.devices else None


def op_sections(profile: Profile, *, rows: int | None) -> Iterator[Section]:
    """Yield the ops by host time; a terminal has the first `rows`, None for all."""
    title = f"Ops by host time, {profile.steps.per} as traced, with the profiler's cost in it"
    if isinstance(profile.ops, Withheld):
        meaning = f"the time of ops: {not_shown(profile.ops.reason)}"
        yield Section(title, facts=[Fact("ops", NOTHING, meaning, is_named=False)], name="ops")
        return
    sums = profile.ops.value
    if not sums.rows:
        return
    share = f", {percent(sums.own_ns / sums.host_ns)} of the host's time" if sums.host_ns else ""
    in_ops = f"in ops{share}; the rest is Python and what is not recorded"
    fact = Fact("ops", duration(sums.own_ns / profile.steps.divisor), in_ops, is_named=False)
    cells = [_op_cells(profile, sums, row) for row in sums.rows]
    notes = [OP_MEANING]
    if any(without_profiler_ns(profile, sums, row.own_ns) is not None for row in sums.rows):
        scaled = f"scaled to the {profile.steps.whole} without the profiler"
        notes.append(f"{WITHOUT}: {scaled}; the profiler slows some ops more than others")
    notes += _left_out(profile, sums, "op")
    yield _name_section(title, "op", OP_COLUMNS, cells, most=rows, facts=[fact], notes=notes)


def _op_cells(profile: Profile, sums: OpSums, row: OpTime) -> tuple[Cell, ...]:
    steps, without = profile.steps.divisor, without_profiler_ns(profile, sums, row.own_ns)
    return (
        Styled(printable(row.name), "code"),
        _origin(row.origin) or NOTHING,
        how_many(row.count / steps),
        duration(row.own_ns / steps),
        duration(row.own_ns / row.count),
        percent(row.own_ns / sums.host_ns) if sums.host_ns else NOTHING,
        NOTHING if without is None else duration(without),
        NOTHING if row.stall_ns is None else duration(row.stall_ns / steps),
    )


def without_profiler_ns(profile: Profile, sums: OpSums, time_ns: int) -> float | None:
    """Return a time scaled to the step without the profiler; None if the step is not host-bound.

    This is not a measurement: the profiler slows some ops more than others.
    """
    step = profile.estimate.step_ns
    host_bound = profile.bound == "host" or not profile.gpus
    return time_ns / sums.host_ns * step if host_bound and step and sums.host_ns else None


def _left_out(profile: Profile, sums: KernelSums | OpSums, what: str) -> Iterator[str]:
    """Yield how many names the rows leave out, and their time, if there are any."""
    left, time = sums.names - len(sums.rows), duration(sums.left_ns / profile.steps.divisor)
    if left:
        yield f"{counted(left, f'more {what}')} of other names, {time} together, left out"


def _origin(origin: Origin) -> str:
    """Return the user's place and the module of most of the time, as far as they are known."""
    where = with_more(place(short_place(origin.place)), origin.places)
    module = with_more(f"in {printable(origin.module)}" if origin.module else "", origin.modules)
    return ", ".join(filter(None, (where, module)))


def kernel_label(name: str) -> str:
    """Return the beginning of a kernel's name without the parts that many names share."""
    plain = DECORATION.sub("", printable(name))
    return plain if len(plain) <= MAX_LABEL else plain[: MAX_LABEL - 1] + "…"
