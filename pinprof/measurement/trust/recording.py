"""Doubts about the recording: what it lacks or has lost, which of its times cannot be, and what the profiler cost."""

import numpy as np

from pinprof.analyses.steps import CPU_TAKEN, WHY, IrregularStep
from pinprof.ground.step_statistics import OTHER_STEPS
from pinprof.ground.units import NS_PER_MS, counted, duration, percent
from pinprof.measurement.trust import losses
from pinprof.measurement.trust.doubt import MATTERING_SHARE, Doubt, TrustFacts, figure_kinds, only_if
from pinprof.measurement.trust.launches import launches_of, launching
from pinprof.trace.metadata.run_log import IRREGULAR_WORK, RECORDED
from pinprof.trace.spans.step_names import numbers_of_steps
from pinprof.trace.tables import DTOH, HTOD, MEMCPY, NONE, UNKNOWN, WHOLE_TRACE, Bools, Trace
from pinprof.trace.vendors import FOREIGN_CALL, OWN_CALLS, foreign_vendor

MIN_INFLATION_OF_STEP = 1.1
"""If the profiler makes the step longer by more than this, a report says so: a finding of 10 % is of high severity."""

PLAIN_WINDOW = "pinprof recorded it without timing the step: keep the plain window (plain_steps)"
LINES_WINDOW = "pinprof recorded it without lines, or the program ended before: keep the window of lines (line_steps)"
"""Remedies for recordings of pinprof in which its options left out a window."""
UNMATCHED_LINES_REMEDY = (
    "pinprof recorded lines, but none for these waits, or several lines may have called them: record more steps "
    "(--steps)"
)
"""The remedy for recordings of pinprof in which none of the recorded lines fits a wait for certain."""

COPY_OR_RECORD_AGAIN = "copy the file again, or record it again"

CLOCKS_AGREE_NS = 2_000
"""GPU and host clocks agree to about a microsecond, and old traces are rounded to whole ones: a start up to this much
before its launch means nothing."""
WHOLE_NS = 1_000
"""Torch before 2.4 writes whole microseconds: a copy of no duration may have taken less than one."""
HOST_LINK_BYTES_PER_NS, MEMORY_BYTES_PER_NS = 450, 8_000
"""No copy between host and GPU is faster than NVLink-C2C, and no other one than the memory of a GPU."""
MAX_LAUNCH_LATENCY_NS = 20_000
"""A launch takes about 5 µs on the host and as long until the GPU starts, under a profiler up to 20 µs. If the clocks
differ by more, work that was launched late seems queued, and queued work seems launched late."""


def no_gpu(facts: TrustFacts) -> Doubt | None:
    """Report a trace of the host alone."""
    if len(facts.trace.gpu):
        return None
    has_calls = bool(len(facts.trace.calls))
    return Doubt(
        "no GPU activities",
        "copies, overlap and idle time cannot be measured, nor the idle time after waits"
        if has_calls
        else "copies, overlap, idle and stalls cannot be measured",
        _way_to_gpu_work(facts.trace),
        figure_kinds("busy", "copies", "overlap", "causes", "drain", "estimate") | only_if(not has_calls, "stalls"),
    )


def _way_to_gpu_work(trace: Trace) -> str:
    """Return how to record GPU work, after the reason why the trace has none, as far as it shows one."""
    others = [category for category in trace.counts if foreign_vendor(category)]
    gpus, by_pinprof = ", ".join(sorted(set(trace.info.machine))), trace.info.by_pinprof
    there_is = f"there is a GPU ({gpus}), " if gpus else ""
    how = "record again" if by_pinprof else "record with ProfilerActivity.CUDA,"
    uncategorized = trace.counts.get("", 0)
    vendors = ", ".join(dict.fromkeys(map(foreign_vendor, others)))
    move = 'move them to the GPU (model.to("cuda"), and each batch)'
    on_host = "CUDA was recorded, and the program launched nothing: its model and data are on the CPU"
    ways = (
        (trace.cut, COPY_OR_RECORD_AGAIN),
        (others, f"no kernel or copy is among the events of {vendors} ({', '.join(others)}) that pinprof reads"),
        (
            uncategorized and not len(trace.calls),
            f"{uncategorized:,} events have no category, as Ascend's profiler writes them, and are not read",
        ),
        (
            launching(trace.calls).any(),
            f"work was launched, so there is a GPU: {how} while nothing else uses CUPTI (counters, Nsight, DCGM)",
        ),
        (
            not len(trace.ops) and not len(trace.functions),
            "no op ran between the start of the profiler and its stop, or ProfilerActivity.CPU was not recorded",
        ),
        (len(trace.calls), f"{there_is}{on_host}; {move}"),
        (by_pinprof, "record again on a machine with a GPU, and let the program use it"),
        (gpus, f"{there_is}and no call of CUDA was recorded: record with ProfilerActivity.CUDA"),
    )
    without_reason = "record with ProfilerActivity.CUDA on a machine with a GPU"
    return next((way for holds, way in ways if holds), without_reason)


def no_calls(facts: TrustFacts) -> Doubt | None:
    """Report a trace of the GPU alone, or with the calls of a vendor whose waits pinprof does not know."""
    trace = facts.trace
    foreign = foreign_calls(trace)
    if not len(trace.gpu) or (len(trace.calls) and not foreign):
        return None
    if foreign:
        calls = " and ".join(f"{trace.counts[category]:,} {category}" for category in foreign)
        return Doubt(
            f"only calls of {foreign_vendor(foreign[0])} ({calls})",
            "pinprof does not know which of them wait: stalls, causes of idle time, and the step without the profiler "
            "are unknown",
            "pinprof knows the calls of CUDA and HIP",
            figure_kinds("stalls", "causes", "drain", "estimate"),
        )
    return Doubt(
        "no runtime calls",
        "stalls and the causes of idle time are unknown",
        "record it again: the profiler lost them" if trace.info.by_pinprof else "record with ProfilerActivity.CPU too",
        figure_kinds("stalls", "causes"),
    )


def no_ops(facts: TrustFacts) -> Doubt | None:
    """Report a trace in which nothing but calls shows what the host does."""
    trace = facts.trace
    if not len(trace.gpu) or not len(trace.calls) or trace.shows_host:
        return None
    return Doubt(
        "no ops",
        "what the host does between calls of the runtime is unknown, and which of it is done only once",
        "record with ProfilerActivity.CPU too",
        figure_kinds("causes", "estimate"),
    )


def foreign_calls(trace: Trace) -> list[str]:
    """Return the categories of another vendor's calls in a trace that has none of CUDA and HIP."""
    known = any(trace.counts.get(category) for category in OWN_CALLS)
    return [] if known else [category for category in trace.counts if FOREIGN_CALL.fullmatch(category)]


def truncated(facts: TrustFacts) -> Doubt | None:
    """Report a file that ended too early."""
    trace, cut = facts.trace, facts.trace.cut
    if cut is None:
        return None
    if cut.last_ns is None:
        lost = "all GPU work is lost"
    else:
        begin = min(int(table.start_ns[0]) for table in (trace.ops, trace.calls, trace.gpu) if len(table))
        lost = f"calls and GPU work are lost from {duration(max(cut.last_ns - begin, 0))} after its start"
    return Doubt(
        f"the end of the file: {cut.why.partition(';')[0]}",
        f"{lost}; later steps are left out, sums are too small, and the GPU seems idle where it was not",
        COPY_OR_RECORD_AGAIN,
        figure_kinds("busy", "causes"),
    )


def trailing_bytes(facts: TrustFacts) -> Doubt | None:
    """Report bytes after the end of the trace, as of two files in one."""
    if not facts.trace.trailing:
        return None
    what = f"{counted(facts.trace.trailing, 'byte')} after the end of the trace"
    return Doubt(what, "they are no part of it, and are not read", "copy the file again")


def repaired_events(facts: TrustFacts) -> Doubt | None:
    """Report events that were not JSON and have been repaired."""
    repaired = facts.trace.repaired
    if not repaired:
        return None
    return Doubt(
        f"the exact text of {counted(repaired, 'event')}",
        "they are not valid JSON and were repaired: names in them may be wrong",
        "record with a newer torch, which writes such names correctly",
    )


def unusable_events(facts: TrustFacts) -> Doubt | None:
    """Report events that the reader could not use."""
    skipped = facts.trace.skipped
    if not skipped:
        return None
    reasons = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in skipped.items())
    unusable = counted(sum(skipped.values()), "unusable event")
    lost, readable = facts.trace.skipped_kinds.get("wait", 0), len(facts.syncs.stalls.call)
    among = f", {counted(lost, 'wait')} of the host among them" if lost else ""
    matters = lost > 0 and lost >= MATTERING_SHARE * (lost + readable)
    return Doubt(
        f"{unusable} ({reasons})",
        f"they are left out{among}",
        COPY_OR_RECORD_AGAIN,
        only_if(matters, "stalls", "drain", "causes", "estimate"),
    )


def no_step_marks(facts: TrustFacts) -> Doubt | None:
    """Report that no step was found."""
    if facts.trace.steps.source != WHOLE_TRACE:
        return None
    return Doubt(
        "no step marks",
        "the whole trace counts as one step",
        COPY_OR_RECORD_AGAIN if facts.trace.cut else "call profiler.step() once per training step",
    )


def irregular_steps(facts: TrustFacts) -> Doubt | None:
    """Report irregular steps, which are not measured."""
    if not facts.irregular:
        return None
    longest = max(facts.irregular, key=lambda step: step.time_ns)
    of_all = int(facts.trace.steps.complete.sum()) + len(facts.irregular)
    number = numbers_of_steps(facts.trace)[longest.step]
    usual, more = duration(longest.usual_ns), sum(step.time_ns - step.usual_ns for step in facts.irregular) / of_all
    which = f"step {number} takes {duration(longest.time_ns)}" + (", the longest," if len(facts.irregular) > 1 else "")
    return Doubt(
        f"{counted(len(facts.irregular), 'step')} of {of_all} unlike the others ({which} instead of {usual})",
        f"all figures leave them out; {_why_unlike(facts.trace, longest)}, which adds {duration(more)} per step to "
        "the mean",
        "record again on a quiet machine"
        if longest.reason == CPU_TAKEN
        else "record steps without it, or look at it in the timeline",
    )


def _why_unlike(trace: Trace, step: IrregularStep) -> str:
    """Return why a step is unlike the others: what pinprof noted in it, else what the trace shows."""
    noted = trace.run.noted_in(RECORDED) if trace.run else []
    kinds = noted[step.step] if len(noted) == len(trace.steps) else set()
    named = [words for kind, words in IRREGULAR_WORK.items() if kind in kinds]
    return f"it has {' and '.join(named)} in it" if named and step.reason != CPU_TAKEN else WHY[step.reason]


def other_steps(facts: TrustFacts) -> Doubt | None:
    """Report timed steps that cannot be those of the trace."""
    step, traced, plain = facts.step.step_ns, facts.times.traced_ns, facts.trace.info.plain_step
    if facts.step.source != "measured" or not step or not traced or plain is None or plain.p10_ms is None:
        return None
    if plain.p10_ms * NS_PER_MS <= OTHER_STEPS * traced:
        return None
    return Doubt(
        f"the timed steps ({duration(step)}) are not those of the trace ({duration(traced)})",
        "the step without the profiler is not known",
        "name what marks a step (--step-marker), and record again",
        figure_kinds("estimate"),
    )


KEEPING_UP = "the profiler slows the host more than the DataLoader's workers: they may not keep up without it"


def profiler_cost(facts: TrustFacts) -> Doubt | None:
    """Report how much longer the profiler made the step, and whether that is only estimated."""
    step, traced = facts.step.step_ns, facts.times.traced_ns
    is_known = facts.step.is_sure or not len(facts.trace.gpu)
    longer = ""
    if step and traced and traced >= MIN_INFLATION_OF_STEP * step and facts.times.source != WHOLE_TRACE:
        longer = f"{traced / step:.2g} times as long"
    if is_known and longer:
        return Doubt(
            f"the profiler made the step {longer} ({duration(traced or 0)} for {duration(step or 0)})",
            "the host's times as traced, and the idle time after them, are too long",
            "the step, where it goes, and the savings do not contain that cost",
        )
    if is_known or foreign_calls(facts.trace):
        return None
    remedy = PLAIN_WINDOW if facts.trace.info.by_pinprof else "pinprof run and pinprof.profile measure it"
    if step is None and facts.step.range_ns is None:
        return Doubt(
            "the step without profiler",
            "the trace does not show it: all times of the step have the profiler's cost in them",
            remedy,
        )
    effect = (
        f"it is estimated; the profiler made it about {longer}, so the host's times are too long"
        if longer
        else "it is estimated; the profiler slows the host, and the trace does not show by how much"
    )
    return Doubt("the step without profiler", effect + (f"; {KEEPING_UP}" if facts.by_workers else ""), remedy)


def host_memory(facts: TrustFacts) -> Doubt | None:
    """Report copies whose kind of host memory was not recorded."""
    if not (facts.trace.gpu.host_memory == UNKNOWN).any():
        return None
    return Doubt(
        "the host memory of copies",
        "pinprof cannot tell pageable from pinned copies",
        "nothing helps: the vendor's profiler does not record it",
        absent=True,
    )


def copy_sizes(facts: TrustFacts) -> Doubt | None:
    """Report copies whose size is not recorded, or is one that no copy can have."""
    gpu, absurd = facts.trace.gpu, facts.trace.absurd_sizes
    copies = gpu.bytes[gpu.category == MEMCPY]
    unsized = int((copies == NONE).sum())
    if not unsized and not absurd:
        return None
    corrupt = f"; {counted(absurd, 'recorded size is', 'recorded sizes are')} corrupt" if absurd else ""
    return Doubt(
        f"no size of {unsized:,} of {counted(len(copies), 'copy', 'copies')}{corrupt}",
        "sums of bytes are lower bounds, and rates leave these copies out",
        "record again, with a newer torch" if absurd else "nothing helps: the vendor's profiler does not record it",
        absent=not absurd,
    )


def copy_times(facts: TrustFacts) -> Doubt | None:
    """Report copies without duration.

    In a trace of whole microseconds, as torch before 2.4 writes it, a small copy may last less than one. All others are
    errors: none of 104 recordings, of this project and others, has one.
    """
    trace, gpu = facts.trace, facts.trace.gpu
    copies = np.flatnonzero(gpu.category == MEMCPY)
    timeless = copies[gpu.duration_ns[copies] == 0]
    if not len(timeless):
        return None
    of_host = np.isin(gpu.direction[timeless], (HTOD, DTOH))
    least_ns = gpu.bytes[timeless] / np.where(of_host, HOST_LINK_BYTES_PER_NS, MEMORY_BYTES_PER_NS)
    is_whole = not (gpu.start_ns % WHOLE_NS).any() and not (gpu.end_ns % WHOLE_NS).any()
    wrong = len(timeless) - int((is_whole & (gpu.bytes[timeless] != NONE) & (least_ns < WHOLE_NS)).sum())
    matters = wrong >= MATTERING_SHARE * len(copies) or len(
        timeless
    ) * WHOLE_NS >= MATTERING_SHARE * losses.gpu_span_ns(trace)
    effect = "the GPU copied where it seems idle or computing" if matters else "too few to change the figures"
    if not wrong:
        most = duration(len(timeless) * WHOLE_NS)
        effect = f"by its size each takes less than 1 µs, all together at most {most}, which no figure contains"
    return Doubt(
        f"no time of {len(timeless):,} of {counted(len(copies), 'copy', 'copies')}",
        effect,
        COPY_OR_RECORD_AGAIN if wrong else "nothing helps but a newer torch: this one wrote whole microseconds",
        only_if(matters, "busy", "overlap", "causes", "drain", "estimate"),
        absent=not wrong,
    )


def waits_apart(facts: TrustFacts) -> Doubt | None:
    """Report waits on threads that have no op or launch in the trace: it is unknown what waits there."""
    trace, calls = facts.trace, facts.syncs.stalls.call[~facts.syncs.stalls.profiler]
    has_events = np.zeros(len(trace.threads), bool)
    for table in (trace.ops, trace.annotations, trace.functions):
        has_events[table.thread] = True
    has_events[trace.calls.thread[launches_of(trace).kernel]] = True
    on_bare_threads = int((~has_events[trace.calls.thread[calls]]).sum())
    if not on_bare_threads:
        return None
    return Doubt(
        f"no op around {counted(on_bare_threads, 'wait')} of the host",
        "their threads have nothing else in the trace, so it is unknown which ops wait there",
        COPY_OR_RECORD_AGAIN,
    )


def source_lines(facts: TrustFacts) -> Doubt | None:
    """Report waits and copies of host memory if the trace does not show where any of them was called."""
    trace = facts.trace
    waits = [site for site in facts.syncs.sites if site.is_wait]
    if not len(trace.calls) or len(trace.functions) or any(site.line is not None for site in waits):
        return None
    of_host = np.isin(trace.gpu.direction, (HTOD, DTOH))
    what = ["waits"] * bool(waits) + ["copies"] * bool(of_host.any())
    if not what:
        return None
    return Doubt(
        "source lines",
        f"files and functions of {' and '.join(what)} are unknown",
        _way_to_lines(trace, of_waits="waits" in what),
        absent=True,
    )


def _way_to_lines(trace: Trace, *, of_waits: bool) -> str:
    """Return how to record places: pinprof records the lines of waits, and stacks show the functions of other calls."""
    if trace.info.by_pinprof:
        functions = "with_stack=True of pinprof.profile gives functions"
        lines = UNMATCHED_LINES_REMEDY if trace.info.lines or trace.info.contexts else LINES_WINDOW
        return f"{lines}; {functions}" if of_waits else functions
    functions = "with_stack=True of torch.profiler gives functions"
    return f"record with pinprof.profile or pinprof run; {functions}" if of_waits else functions


# Times that contradict each other


def clock_skew(facts: TrustFacts) -> Doubt | None:
    """Report GPU work that starts before the call that launched it began (kineto#1380).

    The clocks differ if many of the activities that could start at once start too early; single records may be wrong.
    Then not even the waits are right: launches seem to wait for their kernels.
    """
    trace = facts.trace
    gpu, launch = trace.gpu, trace.links.launch
    linked = np.flatnonzero(launch != NONE)
    lead = trace.calls.start_ns[launch[linked]] - gpu.start_ns[linked]
    early, far = lead > CLOCKS_AGREE_NS, lead > MAX_LAUNCH_LATENCY_NS
    if not early.any():
        return None
    at_once = int(_after_idle_stream(trace)[linked].sum())
    clocks_differ = far.sum() >= MATTERING_SHARE * max(at_once, 1) and far.any()
    return Doubt(
        f"{counted(int(early.sum()), 'GPU activity starts', 'GPU activities start')} before the launch, by up to "
        f"{duration(int(lead.max()))}",
        "the clocks of host and GPU differ"
        if clocks_differ
        else "what the host waited for is uncertain by as much; other figures are not affected",
        "record again; if this persists, with a newer driver and torch",
        only_if(clocks_differ, "stalls", "drain", "causes", "estimate"),
    )


def same_stream_overlap(facts: TrustFacts) -> Doubt | None:
    """Report activities that run at the same time on one stream: allowed to some kernels, an artefact on ROCm."""
    gpu = facts.trace.gpu
    total, overlap_ns, count = int(gpu.duration_ns.sum()), 0, 0
    for rows in gpu.of_stream:
        reach = np.maximum.accumulate(gpu.end_ns[rows])[:-1]
        overlaps_ns = np.minimum(reach, gpu.end_ns[rows[1:]]) - gpu.start_ns[rows[1:]]
        overlap_ns += int(overlaps_ns[overlaps_ns > 0].sum())
        count += int((overlaps_ns > 0).sum())
    if not overlap_ns or overlap_ns < MATTERING_SHARE * total:
        return None
    return Doubt(
        f"{counted(count, 'GPU activity runs', 'GPU activities run')} while another one of their stream runs "
        f"({percent(overlap_ns / total)} of their time)",
        "the GPU's working time counts overlapping kernels once, so the kernels' own times add up to more",
        "this is normal with programmatic dependent launch; on ROCm the times of kernels are uncertain",
    )


def _after_idle_stream(trace: Trace) -> Bools:
    """Return for each activity whether its stream was idle before it for longer than a launch takes."""
    gpu = trace.gpu
    result = np.zeros(len(gpu), bool)
    for rows in gpu.of_stream:
        reach = np.maximum.accumulate(gpu.end_ns[rows])
        result[rows[0]] = True
        result[rows[1:]] = gpu.start_ns[rows[1:]] - reach[:-1] > MAX_LAUNCH_LATENCY_NS
    return result
