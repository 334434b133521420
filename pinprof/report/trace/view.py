"""The sections of the full report on a trace, in the order of the terminal and the page."""

from collections.abc import Iterator

from pinprof.analyses.copies import EXPOSURES
from pinprof.analyses.idle import IDLE
from pinprof.analyses.serving import DECODE, ServingPhase
from pinprof.ground.units import counted, duration, how_many, percent, rate, shortened, sizes
from pinprof.measurement.figures import LOADER_MS
from pinprof.measurement.profile import GpuSums, Profile, busiest, idle_outside
from pinprof.measurement.trust.doubt import Doubt, Withheld, given
from pinprof.report.findings.views import brief_views
from pinprof.report.html import Column, number_columns
from pinprof.report.trace import step
from pinprof.report.trace.sections.host import host_section
from pinprof.report.trace.sections.waits import wait_sections, waits_in_short
from pinprof.report.trace.sections.whole_run import course_sections, precision
from pinprof.report.trace.sections.work import (
    collectives_in_short,
    kernel_sections,
    kinds_in_short,
    op_sections,
    ops_in_short,
)
from pinprof.report.view import Fact, ReportTable, Section, Sentence, Styled
from pinprof.report.words import NOTHING, TRUST_TITLE, doubts, effect_and_remedy, not_shown
from pinprof.rules.rule import Findings
from pinprof.verdict.step_limits import LimitName

PARTS_SECTION = "parts"
MAX_LISTED_GPUS = 16
FAMILIES_WITH_LINES = ("copies", "waits")
"""Families of rules whose findings are at a line of the program."""
MIN_IDLE_SHARE_OF_BATCH = 0.02
"""A smaller share of a server's batch without GPU work is not explained."""
PHASE_NAMES = {"prefill": "prefill", "decode": "decode", "mixed": "prefill and decode", "other": "other"}
MAX_MARK_CHARS = 60
"""Characters of a mark of the server, in which the GPU is idle."""
SECOND_NS = 1e9


def doubt_sections(profile: Profile) -> Iterator[Section]:
    """Yield the doubts that readers must know before they trust the figures."""
    all_doubts, known = doubts(profile), _known_already(profile)
    grave = [entry for entry in all_doubts if entry.check not in known]
    brief = [_doubt(entry) for entry in grave[:1]]
    if len(grave) > 1:
        brief.append(f"Also: {'; '.join(entry.what for entry in grave[1:])}; see --full.")
    if all_doubts:
        yield Section(TRUST_TITLE, notes=list(map(_doubt, all_doubts)), brief=brief)


def _doubt(entry: Doubt) -> Sentence:
    return Styled(entry.what, "strong"), f": {effect_and_remedy(entry)}."


def _known_already(profile: Profile) -> set[str]:
    """Return the checks whose doubts the first lines of a short report imply."""
    known = set() if profile.gpus else {"no_gpu", "no_step_marks"}
    is_measured = profile.estimate.step_ns is not None and profile.estimate.source != "estimated"
    return known | ({"profiler_cost"} if is_measured else set())


def step_sections(profile: Profile) -> Iterator[Section]:
    """Yield how long the step is, and, for the bar of where its time goes, its title and how long the host waits."""
    shown, stalls = busiest(profile), list(step.stall_facts(profile))
    if shown is None:
        yield Section("Step", facts=[*_lengths(profile), *step.undivided_facts(profile), *stalls])
        return
    yield Section("Step", facts=list(_lengths(profile)))
    yield Section(step.division_title(profile, shown), facts=stalls, name=PARTS_SECTION)


def event_sections(profile: Profile, findings: Findings, *, rows: int | None = None) -> Iterator[Section]:
    """Yield the sections on the run, copies, waits, input, host, idle time, kernels and ops, and on what is absent.

    A terminal has the first `rows` of waits, lines, kernels and ops, None for all.
    """
    if profile.serving:
        yield serving_section(profile)
    if profile.whole_run:
        yield from course_sections(profile.whole_run, profile.step_ns)
    if profile.copies:
        yield copy_section(profile)
    yield from wait_sections(profile, rows=rows)
    if profile.loader.waits:
        yield _input(profile)
    host = host_section(profile, rows=rows)
    if host:
        yield host
    if profile.gpus:
        yield _idle(profile)
        yield from kernel_sections(profile, rows=rows)
    if profile.counts.get("cpu_op"):
        yield from op_sections(profile, rows=rows)
    absent = [entry for entry in profile.doubts if entry.level == "absent"]  # the figures are right without it
    if absent:
        lacks_lines = any(
            row.finding.evidence.line is None and row.rule.family in FAMILIES_WITH_LINES
            for row in brief_views(profile, findings)
        )
        brief = [_doubt(entry) for entry in absent if entry.check == "source_lines" and lacks_lines]
        yield Section("Not in this trace", notes=list(map(_doubt, absent)), brief=brief)


def in_short(profile: Profile, cause: LimitName | None) -> list[str]:
    """Return what GPU and host work on and wait for, a line each; `cause` is that of the verdict."""
    kernels, ops, collectives = kinds_in_short(profile, cause), ops_in_short(profile), collectives_in_short(profile)
    return [
        line for line in (kernels, ops, collectives, step.memory_in_short(profile), waits_in_short(profile)) if line
    ]


def _lengths(profile: Profile) -> Iterator[Fact]:
    times, length, limit = profile.steps, step.step_fact(profile), step.bound_fact(profile)
    measured = list(precision(profile.whole_run)) if profile.whole_run else []
    if length.meaning != step.AS_TRACED:
        yield length._replace(meaning=length.meaning.partition(" (")[0]) if measured else length
    yield from measured
    if times.traced_ns is not None:
        named = (("host", times.host_ns), ("GPU", times.device_ns))
        parts = ", ".join(f"{name} {duration(time)}" for name, time in named if time is not None)
        where = "the whole trace" if times.whole == "trace" else "in the trace"
        meaning = f"{where}, with the profiler's cost in it ({parts})"
        name = "as traced" if length.meaning != step.AS_TRACED else length.name
        yield Fact(name, duration(times.traced_ns), meaning, is_named=False)
    elif profile.withheld.step:
        meaning = f"the step in the trace: {not_shown(profile.withheld.step)}"
        yield Fact("as traced", NOTHING, meaning, is_named=False)
    if limit:
        yield limit
    yield from step.memory_facts(profile)


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


def _input(profile: Profile) -> Section:
    loader, notes = profile.loader, []
    wait_ns = given(LOADER_MS.of(profile))
    if loader.pinned is not None:
        memory = "pinned" if loader.pinned else "pageable"
        thread = ", and a pin-memory thread is at work" if loader.pin_thread else ""
        notes.append(f"batches are copied from {memory} memory{thread}")
    wait = NOTHING if wait_ns is None else duration(wait_ns)
    waits = Fact("input", wait, "the thread that makes the steps is in its DataLoader", is_named=False)
    return Section(f"Input, {profile.steps.per}", facts=[waits], notes=notes, name="input")


def _idle(profile: Profile) -> Section:
    gpus = profile.gpus[:MAX_LISTED_GPUS]
    notes = [note for gpu in gpus for note in _idle_by_cause(profile, gpu)]
    if more := len(profile.gpus) - len(gpus):
        notes.append(f"and {more} more GPUs, all in the JSON report")
    if profile.withheld.causes and not profile.withheld.busy:
        notes.append(f"by cause: {not_shown(profile.withheld.causes)}")
    title = "Idle GPU, in the whole trace as traced"
    return Section(title, facts=list(map(_idle_time, gpus)), notes=notes, name="idle")


def _idle_time(gpu: GpuSums) -> Fact:
    name = f"GPU {gpu.device}"
    if isinstance(gpu.time, Withheld):
        return Fact(name, NOTHING, f"{name} is idle: {not_shown(gpu.time.reason)}", is_named=False)
    time = gpu.time.value
    share = percent(time.idle_ns / time.span_ns if time.span_ns else 0.0)
    meaning = f"{name} is idle ({share} of the time from its first work to its last)"
    return Fact(name, duration(time.idle_ns), meaning, is_named=False)


def _idle_by_cause(profile: Profile, gpu: GpuSums) -> Iterator[str]:
    on_gpu = f"on GPU {gpu.device}, " if len(profile.gpus) > 1 else ""
    for cause, idle in given(gpu.idle_by_cause) or ():
        yield f"{on_gpu}{duration(idle)}: {IDLE[cause].why}"
    outside = idle_outside(profile, gpu) if given(gpu.time) else 0
    if outside:
        whole = profile.steps.whole
        yield f"{on_gpu}another {duration(outside)} of the {whole} lie before its first work or after its last"


MORE_STEPS = "the recorded steps contain no prefill: `pinprof run --steps 100` records more of them"


def serving_section(profile: Profile) -> Section:
    """Return the batches of requests by phase."""
    phases = profile.serving
    facts = {
        phase.name: Fact(PHASE_NAMES[phase.name], duration(phase.step_ns), "; ".join(_words_of_phase(phase)))
        for phase in phases
    }
    decode = facts.get(DECODE) or facts[phases[0].name]
    brief = f"Batches of {decode.name}: {decode.number} as traced, {decode.meaning}."
    notes = [MORE_STEPS] if profile.info.by_pinprof and list(facts) == [DECODE] else []
    return Section("Prefill and decode, as traced", facts=[*facts.values()], notes=notes, brief=[brief], name="serving")


def _words_of_phase(phase: ServingPhase) -> Iterator[str]:
    requests = f" of {counted(phase.requests, 'request')}" if phase.requests else ""
    tokens = ""
    if phase.tokens:
        of_batch, per_second = counted(phase.tokens, "token"), phase.tokens / phase.step_ns * SECOND_NS
        tokens = f" and {of_batch}, {per_second:,.0f} tokens per second"
    yield f"{counted(phase.count, 'batch', 'batches')}{requests}{tokens}"
    if phase.launches:
        graphs = f"{how_many(phase.graphs)} of them of CUDA graphs" if phase.graphs else "none of a CUDA graph"
        yield f"{how_many(phase.launches)} launches, {graphs}"
    if phase.idle_ns >= MIN_IDLE_SHARE_OF_BATCH * phase.step_ns:
        fills = [f"{duration(ns)} in {shortened(mark, MAX_MARK_CHARS)}" for mark, ns in phase.fills]
        within = f", of it {', '.join(fills)}" if fills else ""
        yield f"no GPU work for {duration(phase.idle_ns)} ({percent(phase.idle_ns / phase.step_ns)}){within}"
