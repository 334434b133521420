"""What the GPU and the host work on: phases, kinds of kernels, kernels by GPU time, ops by host time."""

from collections.abc import Iterator, Sequence

from pinprof.analyses.by_name.kernels import KernelSums, KernelTime, KindTime
from pinprof.analyses.by_name.names import Origin
from pinprof.analyses.by_name.ops import OpSums, OpTime
from pinprof.ground.units import counted, duration, how_many, percent
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import Withheld, given
from pinprof.report.html import Column, number_columns
from pinprof.report.view import Cell, Fact, ReportTable, Section, Styled
from pinprof.report.words import NOTHING, not_shown, place, printable, short, short_place, with_more
from pinprof.trace.vendors import AMD_KERNEL
from pinprof.verdict.step_limits import GPU

MAX_KINDS = 3
MIN_KIND_SHARE = 0.08
MIN_SHARE_ON_CORES, MAX_SHARE_OFF_CORES = 0.95, 0.05
"""Kernels of a kind run on tensor cores if at least this share of their time is there; they do not, up to the other."""
DEFAULT_ROWS = 5
"""Rows of a table in a terminal, unless more are asked for."""
WITHOUT_PROFILER = "without profiler"
KIND_COLUMNS = (Column("kind"), *number_columns("count", "time", "of all kernels"), Column("tensor cores"))
OP_COLUMNS = ("op", "called by", "count", "own time", "mean", "of host time", WITHOUT_PROFILER, "stall")
OP_MEANING = "own time: without the ops that an op calls; stall: own time in calls that can block"


def kinds_in_short(profile: Profile, limit: str | None = None) -> str:
    """Return the kinds of kernels with most time, and of a GPU-bound step the costliest kernel; empty if unknown."""
    kernels = given(profile.kernels)
    if kernels is None or not kernels.time_ns:
        return ""
    named = [kind for kind in kernels.kinds[:MAX_KINDS] if kind.time_ns >= MIN_KIND_SHARE * kernels.time_ns]
    cores = _name_of_cores(kernels)
    shares = [
        f"{kind.kind} {percent(kind.time_ns / kernels.time_ns)}" + (f" ({on})" if (on := on_cores(kind, cores)) else "")
        for kind in named
    ]
    costliest = f"; the costliest: {_costliest(kernels)}" if limit == GPU else ""
    return f"Kernels: {', '.join(shares)}{costliest}"


def _costliest(sums: KernelSums) -> str:
    row = next((row for row in sums.rows if not row.communication), sums.rows[0])
    launched = ", ".join(filter(None, (row.op or "", _origin(row.origin))))
    return f"{short(row.name)}{f' of {launched}' if launched else ''}, {percent(row.time_ns / sums.busy_ns)}"


def ops_in_short(profile: Profile) -> str:
    """Return the costliest ops by their own time; empty with GPU work, whose kernels say more, or without ops."""
    sums = given(profile.ops)
    if profile.gpus or profile.doubt("truncated") or sums is None or not sums.host_ns or not sums.own_ns:
        return ""
    named = [
        f"{row.name} {duration(row.own_ns / profile.steps.divisor)} ({percent(row.own_ns / sums.host_ns)})"
        for row in sums.rows[:DEFAULT_ROWS]
        if row.own_ns
    ]
    return f"Ops, own time as traced: {', '.join(named)}"


def collectives_in_short(profile: Profile) -> str:
    """Return how long collectives run, and how much of that is hidden; empty if there are none."""
    kernels, sums = given(profile.kernels), profile.communication
    if kernels is None or not sums.time_ns:
        return ""
    hidden = percent(1 - sums.exposed_ns / sums.time_ns)
    time = duration(sums.time_ns / profile.steps.divisor)
    return f"Collectives: {time} {profile.steps.per}, waiting included; {hidden} overlapped by other kernels"


def _name_of_cores(sums: KernelSums) -> str:
    return "matrix cores" if any(AMD_KERNEL.search(row.name) for row in sums.rows) else "tensor cores"


def on_cores(kind: KindTime, cores: str = "tensor cores") -> str:
    """Return whether kernels of this kind run on tensor cores; empty for kinds that cannot use them, or if unknown."""
    if kind.tensor_core_ns is None or not kind.time_ns:
        return ""
    share, unknown = kind.tensor_core_ns / kind.time_ns, kind.unknown_ns / kind.time_ns
    if share >= MIN_SHARE_ON_CORES:
        return f"on {cores}"
    if unknown > MAX_SHARE_OFF_CORES:
        return f"at least {percent(share)} on {cores}" if share > MAX_SHARE_OFF_CORES else ""
    return f"no {cores}" if share <= MAX_SHARE_OFF_CORES else f"{percent(share)} on {cores}"


def kind_sections(profile: Profile) -> Iterator[Section]:
    """Yield the phases, and the kinds of kernels, as tables."""
    if profile.launches:
        title = f"Phases, {profile.steps.per} as traced, with the profiler's cost in it"
        rows = [
            [phase.name or NOTHING, how_many(phase.launches), duration(phase.host_ns), duration(phase.kernel_ns)]
            for phase in profile.launches.phases
        ]
        columns = [Column("phase"), *number_columns("launches", "host", "GPU")]
        yield Section(title, tables=[ReportTable("The host's time until each launch", columns, rows)], name="phases")
    kernels = given(profile.kernels)
    if kernels is None or not kernels.time_ns:
        return
    kinds = ReportTable(
        "Kernels by what they do", KIND_COLUMNS, [_kind_cells(profile, kernels, kind) for kind in kernels.kinds]
    )
    notes = collectives_in_short(profile)
    yield Section(
        f"Kinds of kernels, {profile.steps.per}", tables=[kinds], notes=[notes] if notes else [], name="kinds"
    )


def _kind_cells(profile: Profile, sums: KernelSums, kind: KindTime) -> tuple[str, ...]:
    return (
        kind.kind,
        how_many(kind.count / profile.steps.divisor),
        duration(kind.time_ns / profile.steps.divisor),
        percent(kind.time_ns / sums.time_ns),
        on_cores(kind, _name_of_cores(sums)) or NOTHING,
    )


def kernel_sections(profile: Profile, *, rows: int | None) -> Iterator[Section]:
    """Yield the kernels by GPU time, those of collectives apart; a terminal has the first `rows`, None for all."""
    title = f"Kernels by GPU time, {profile.steps.per}"
    if isinstance(profile.kernels, Withheld):
        yield _withheld(title, "kernels", profile.kernels)
        return
    sums = profile.kernels.value
    kernels = [row for row in sums.rows if not row.communication]
    collectives = [row for row in sums.rows if row.communication]
    columns = ("kernel", "launched by", "count", "time", "mean", "of the GPU's work", f"of the {profile.steps.whole}")
    left_out = list(_left_out(profile, sums, "kernel"))
    of_collectives = f"Collectives by GPU time, {profile.steps.per}; waiting for other ranks counts"
    for name, heading, sums_of in (("kernel", title, kernels), ("collective", of_collectives, collectives)):
        is_last = name == "collective" or not collectives
        cells = [_kernel_cells(profile, sums, row) for row in sums_of]
        if sums_of:
            yield _name_section(heading, name, columns, cells, most=rows, notes=left_out if is_last else ())


def _withheld(title: str, name: str, why: Withheld) -> Section:
    meaning = f"the time of {name}: {not_shown(why.reason)}"
    return Section(title, facts=[Fact(name, NOTHING, meaning, is_named=False)], name=name)


def _kernel_cells(profile: Profile, sums: KernelSums, row: KernelTime) -> tuple[Cell, ...]:
    steps, of_step = profile.steps.divisor, step_share(profile, sums, row)
    return (
        Styled(short(row.name), "code"),
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
    kept = [index for index in range(len(columns)) if any(row[index] != NOTHING for row in rows)]
    titles = [Column(columns[index], is_number=index > 1) for index in kept]
    cells = [[row[index] for index in kept] for row in rows]
    listed = cells[:most]
    more = len(rows) - len(listed)
    return Section(
        title,
        facts=facts,
        tables=[ReportTable(title, titles, cells, listed, grid=f"{name}s")],
        notes=notes,
        left_out=[f"and {counted(more, f'more {name}')} by name: --json"] if more else [],
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
        yield _withheld(title, "ops", profile.ops)
        return
    sums = profile.ops.value
    if not sums.rows:
        return
    share = f", {percent(sums.own_ns / sums.host_ns)} of the host's time" if sums.host_ns else ""
    in_ops = f"in ops{share}; the rest is Python and unrecorded work"
    fact = Fact("ops", duration(sums.own_ns / profile.steps.divisor), in_ops, is_named=False)
    cells = [_op_cells(profile, sums, row) for row in sums.rows]
    notes = [OP_MEANING]
    if any(without_profiler_ns(profile, sums, row.own_ns) is not None for row in sums.rows):
        scaled = f"scaled to the {profile.steps.whole} without the profiler"
        notes.append(f"{WITHOUT_PROFILER}: {scaled}; the profiler slows some ops more than others")
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
    names, time = sums.names - len(sums.rows), duration(sums.left_ns / profile.steps.divisor)
    if names:
        yield f"{counted(names, f'more {what}')} of other names, {time} together, left out"


def _origin(origin: Origin) -> str:
    where = with_more(place(short_place(origin.place)), origin.places)
    module = with_more(f"in {printable(origin.module)}" if origin.module else "", origin.modules)
    return ", ".join(filter(None, (where, module)))
