"""Finds the steps of a trace: by the profiler's marks, a server's, calls of a model, an annotation, or repetition."""

import re
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from pinprof.ground.intervals import contains
from pinprof.trace import tables
from pinprof.trace.frames import MODULE_PREFIX
from pinprof.trace.links import RecordedWork, follow, step_at
from pinprof.trace.spans.model_calls import of_busiest, outer
from pinprof.trace.spans.one_time_work import REGION_PREFIX, is_marked_capture
from pinprof.trace.tables import KERNEL, NONE, Bools, HostEvents, Int32s, Int64s, ModelCalls, Steps, StepSource
from pinprof.trace.threads import BACKWARD_OP, LOADER_MARK, STEP_PREFIX, TORCH_MARK, optimizer_marks
from pinprof.trace.vendors import UPDATE

MIN_STEP_REPEATS = 3  # fewer repeats than this do not show a step
MIN_STEP_KERNELS = 8
"""Forward, backward and update of a single layer launch about this number of kernels; a shorter period is a loop within
the step."""
MIN_MATCH = 0.95  # share of kernels whose name must come again one period later
MAX_PERIODS = 64  # periods that are tried, the shortest first: a step has few launches of its rarest kernel
MIN_EDGE_LAUNCHES = 0.8
"""A step at an edge with fewer launches than this share of the usual is cut off (as in torch_tb_profiler)."""
MAX_IRREGULARITY = 0.1
"""An annotation marks steps if the number of launches between its starts deviates by at most this share of the mean."""
NUMBER_IN_NAME = re.compile(r"\d+")
PART_OF_STEP: Final = re.compile(
    r"## Call CompiledFxGraph |Torch-Compiled|TorchDynamo|FSDP|FullySharded|nccl:|gloo:|"
    r"(?<![a-z])(layer|block|attn|attention|mlp|ffn|feed_?forward|expert|moe|router|head|conv|norm|"
    r"all_?to_?all|all_?reduce|all_?gather|reduce_?scatter)(?!oader)",
    re.IGNORECASE,
)
"""In the names of annotations of parts of a step, such as layers and collectives. Compiled code is such a part: each
layer may run the same code."""


def find_steps(recorded: RecordedWork, model_calls: ModelCalls) -> Steps:
    """Return the steps of a trace, from the best evidence that it holds."""
    part = ""
    steps = _profiler_steps(recorded) or _served_batches(recorded.annotations)
    captures = recorded.annotations.named(is_marked_capture).any()  # a server captures graphs before its first step
    if not steps and not captures:
        steps = _annotated_steps(recorded) or _model_call_steps(model_calls)
        repeated = None if steps else _repeated_steps(recorded)
        if repeated and _are_steps(recorded, repeated):
            return repeated
        if repeated:
            rows, functions = _outer_modules(recorded), recorded.functions
            network = functions.name_of(rows[0]).removeprefix(MODULE_PREFIX) if len(rows) == 1 else ""
            part = f": {repeated.marker} {len(repeated)} times" + (f" in one call of {network}" if network else "")
    return steps or _whole_trace(recorded, part)


def _profiler_steps(recorded: RecordedWork) -> Steps | None:
    annotations = recorded.annotations
    rows = np.flatnonzero(annotations.named(lambda name: name.startswith(STEP_PREFIX)))
    if len(rows) == 0:
        return None
    thread = np.bincount(annotations.thread[rows]).argmax()
    rows = rows[annotations.thread[rows] == thread]
    steps = _steps("profiler_step", STEP_PREFIX + "N", annotations.start_ns[rows], annotations.end_ns[rows])
    return _mark_complete(steps, _launches_per_step(steps, recorded))


def _served_batches(annotations: HostEvents) -> Steps | None:
    batches = serving_marks(annotations)
    if batches is None:
        return None
    marker, rows = batches
    return _between_starts("annotation", marker, annotations.start_ns[rows], annotations.end_ns[rows])


def _model_call_steps(model_calls: ModelCalls) -> Steps | None:
    """Return the times between the starts of a language model's calls; of these, decodes are measured."""
    if not len(model_calls):
        return None
    steps = _between_starts("model_call", "decode of a language model", model_calls.start_ns, model_calls.end_ns)
    decodes = model_calls.decodes
    return replace(steps, complete=steps.complete & decodes, unlike=steps.complete & ~decodes)


def _between_starts(source: StepSource, marker: str, start: Int64s, end: Int64s) -> Steps:
    """Return steps with these starts; the last one, whose end is unknown, is incomplete unless it is the only one."""
    steps = _steps(source, marker, start, np.append(start[1:], end[-1:]))
    steps.complete[-1] = len(start) == 1
    return steps


def _may_be_steps(recorded: RecordedWork, steps: Steps, *, by_users_marks: bool = False) -> bool:
    """Return whether nothing shows that these are parts of a step, or loops within one.

    No whole step lies within a call of a network, or of its compiled code; a training step has an
    optimizer, unless the user's own marks say otherwise, and a forward and a backward pass.
    """
    for events, begin in ((recorded.functions, MODULE_PREFIX), (recorded.ops, REGION_PREFIX)):
        rows = events.named(re.compile(re.escape(begin)).match)
        begun = np.searchsorted(steps.start_ns, [events.start_ns[rows], events.end_ns[rows]], side="right")
        if (begun[1] - begun[0] > 1).any():
            return False
    optimizer, passes = _optimizer_times(recorded), _pass_times(recorded)
    return all(_in_each(steps, time) for time in (*([] if by_users_marks else optimizer), *passes))


def _are_steps(recorded: RecordedWork, steps: Steps) -> bool:
    """Return whether something that is in each of these shows that they are steps."""
    if not _may_be_steps(recorded, steps):
        return False
    if _optimizer_times(recorded) or _pass_times(recorded):
        return True
    gpu, calls, annotations = recorded.gpu, recorded.calls, recorded.annotations
    loads = annotations.start_ns[annotations.named(LOADER_MARK.match)]
    updates = gpu.named(UPDATE.search)
    updated = calls.start_ns[recorded.launch[updates]] if steps.on_host else gpu.start_ns[updates]
    rows, functions = _outer_modules(recorded), recorded.functions  # their starts precede the first launch
    ends = [functions.end_ns[rows[same]] for same in tables.rows_by(functions.name[rows])]
    return any(_in_each(steps, time) for time in (loads, updated, *ends))


def _optimizer_times(recorded: RecordedWork) -> list[Int64s]:
    times = recorded.annotations.start_ns[optimizer_marks(recorded.annotations, "step")]
    return [times] if len(times) else []


def _pass_times(recorded: RecordedWork) -> list[Int64s]:
    """Return when calls launch in backward passes, and when outside of them; nothing without backward passes."""
    times = recorded.ops.times(recorded.ops.named(BACKWARD_OP.match))
    launched = recorded.calls.start_ns[recorded.launch[recorded.launch != NONE]]
    inside = contains(times, launched)
    return [launched[inside], launched[~inside]] if inside.any() else []


def _outer_modules(recorded: RecordedWork) -> Int64s:
    functions = recorded.functions
    rows = np.flatnonzero(functions.named(lambda name: name.startswith(MODULE_PREFIX)))
    return outer(functions, rows[of_busiest(functions, rows)]) if len(rows) else rows


def _in_each(steps: Steps, time: Int64s) -> bool:
    step = step_at(steps, time)
    return len(np.unique(step[step != NONE])) == len(steps)


def _annotated_steps(recorded: RecordedWork) -> Steps | None:
    """Return the times between the starts of an annotation if about the same number of activities is launched in each.

    Of several such annotations the one that covers most time is taken. Numbers in names are ignored. A name that
    looks like a part of a step (`PART_OF_STEP`) counts only if other evidence shows that it marks whole steps.
    """
    annotations = recorded.annotations
    folded: dict[str, int] = {}
    family = np.array(
        [folded.setdefault(NUMBER_IN_NAME.sub("#", name), len(folded)) for name in annotations.names], dtype=int
    )
    best: tuple[int, Steps] | None = None
    group = family[annotations.name] * (annotations.thread.max(initial=0) + 1) + annotations.thread
    for key in np.unique(group):
        rows = np.flatnonzero(group == key)
        if len(rows) <= MIN_STEP_REPEATS or (annotations.start_ns[rows[1:]] < annotations.end_ns[rows[:-1]]).any():
            continue
        name, starts = annotations.name_of(rows[0]), annotations.start_ns[rows]
        steps = _steps("annotation", name, starts[:-1], starts[1:])
        per_step = _launches_per_step(steps, recorded)
        if per_step.min() == 0 or per_step.std() > MAX_IRREGULARITY * per_step.mean():
            continue
        if PART_OF_STEP.search(name):
            marks_steps = _are_steps(recorded, steps)
        else:
            marks_steps = _may_be_steps(recorded, steps, by_users_marks=TORCH_MARK.match(name) is None)
        if not marks_steps:
            continue
        time = int(annotations.duration_ns[rows].sum())
        if best is None or time > best[0]:
            best = time, steps
    return best[1] if best else None


def _repeated_steps(recorded: RecordedWork) -> Steps | None:
    """Return the periods of the kernel launches: steps, or loops within one. Each begins after its longest pause."""
    calls, gpu = recorded.calls, recorded.gpu
    kernels = np.flatnonzero(gpu.category == KERNEL)
    # A graph launch has many kernels, and counts once.
    launching, first = np.unique(recorded.launch[kernels], return_index=True)
    launching, first = launching[launching != NONE], first[launching != NONE]
    on_host = len(launching) > 0
    start, end = (
        (calls.start_ns[launching], calls.end_ns[launching])
        if on_host
        else (gpu.start_ns[kernels], gpu.end_ns[kernels])
    )
    period = _period(gpu.name[kernels[first] if on_host else kernels])
    if period == 0:
        return None
    pause = start[1:] - end[:-1]
    repeats = len(pause) // period
    phase = int(np.median(pause[: repeats * period].reshape(repeats, period), axis=0).argmax()) + 1
    starts = start[phase::period]
    if len(starts) <= MIN_STEP_REPEATS:
        return None
    marker = f"a sequence of {period} kernel launches that repeats"
    return _steps("repetition", marker, starts[:-1], starts[1:], on_host=on_host)


def _period(name: Int32s) -> int:
    """Return the smallest number of launches after which the names repeat; 0 if it is too small, or none repeat."""
    count = len(name)
    longest = count // MIN_STEP_REPEATS
    if longest < MIN_STEP_KERNELS:
        return 0
    names, uses = np.unique(name, return_counts=True)
    often_enough = uses >= MIN_STEP_REPEATS
    if not often_enough.any():
        return 0
    rarest = names[often_enough][uses[often_enough].argmin()]
    places = np.flatnonzero(name == rarest)
    candidates = np.unique(places[1:] - places[0])
    for period in candidates[candidates <= longest][:MAX_PERIODS]:
        if (name[period:] == name[:-period]).mean() >= MIN_MATCH:
            return int(period) if period >= MIN_STEP_KERNELS else 0  # a multiple of it would repeat too
    return 0


def _whole_trace(recorded: RecordedWork, part: str) -> Steps:
    of_host = (recorded.ops, recorded.annotations, recorded.calls)
    filled = [table for table in (*of_host, recorded.gpu) if len(table)]
    start = min((table.start_ns[0] for table in filled), default=0)
    end = max((table.end_ns.max() for table in filled), default=0)
    marker, on_host = f"no step was found{part}", any(map(len, of_host))
    return _steps(tables.WHOLE_TRACE, marker, np.array([start]), np.array([end + 1]), on_host=on_host)


def _steps(source: StepSource, marker: str, start: Int64s, end: Int64s, *, on_host: bool = True) -> Steps:
    return Steps(source, marker, start, end, np.ones(len(start), bool), on_host)


def _launches_per_step(steps: Steps, recorded: RecordedWork) -> np.ndarray:
    step = follow(step_at(steps, recorded.calls.start_ns), recorded.launch)
    return np.bincount(step[step != NONE], minlength=len(steps))


def _mark_complete(steps: Steps, per_step: np.ndarray) -> Steps:
    """Drop steps at the edges that launch nothing, and mark those as incomplete that launch far less than usual."""
    working = np.flatnonzero(per_step)
    if len(working) == 0:
        return steps
    kept = slice(working[0], working[-1] + 1)
    per_step = per_step[kept]
    complete: Bools = np.ones(len(per_step), bool)
    if len(per_step) >= MIN_STEP_REPEATS:
        usual = np.median(per_step[1:-1])
        complete[[0, -1]] = per_step[[0, -1]] >= MIN_EDGE_LAUNCHES * usual
    return Steps(steps.source, steps.marker, steps.start_ns[kept], steps.end_ns[kept], complete, steps.on_host)


class AnnotationKind(NamedTuple):
    """A kind of annotation that a server makes; names that differ only in numbers are of one kind."""

    server: str
    kind: str  # the name of the kind, with N for numbers
    name: re.Pattern[str]


SGLANG, VLLM = "SGLang", "vLLM"
MARKS = (
    AnnotationKind(
        VLLM, "execute_context_N_generation_N", re.compile(r"execute(?:_\d+)?_context_\d+\(.*\)_generation_\d+\(.*\)")
    ),
    AnnotationKind(VLLM, "execute_new_N_cached_N", re.compile(r"execute_new_\d+_cached_\d+")),
    AnnotationKind(VLLM, "gpu_model_runner: forward", re.compile(r"(?:v\d+_)?gpu_model_runner: forward")),
    AnnotationKind(SGLANG, "scheduler.run_batch", re.compile(r"scheduler\.run_batch")),
    AnnotationKind(SGLANG, "step[MODE bs=N]", re.compile(r"step\[[A-Z_]+ .*\]")),
)
"""Outer marks before those within them: vllm/v1/worker/gpu_worker.py (`annotate_profile`; the names of 2025 distinguish
new and cached requests) and gpu_model_runner.py; sglang/srt/managers/scheduler.py and utils/profile_utils.py
(`build_step_span_name`: EXTEND is a prefill, and speculative decoding has several in a batch). SGLang also makes marks
with vLLM's names, for the same tools."""


def is_serving(steps: Steps) -> bool:
    """Return whether the steps are batches of requests: unlike steps of a training, they differ in kind and size."""
    if steps.source == "model_call":
        return True
    server, _, kind = steps.marker.partition("'s ")
    return server in (SGLANG, VLLM) and any(kind == marks.kind for marks in MARKS)


def serving_marks(annotations: HostEvents) -> tuple[str, Int64s] | None:
    """Return the name and the rows of a server's outer marks, of the thread that has most; None without any."""
    for marks in MARKS:
        rows = np.flatnonzero(annotations.named(marks.name.fullmatch))
        if len(rows):
            own = [other.name for other in MARKS if other.server == SGLANG]
            is_of_sglang = any(
                "sglang" in name or any(mark.fullmatch(name) for mark in own) for name in annotations.names
            )
            server = SGLANG if is_of_sglang else marks.server
            return f"{server}'s {marks.kind}", outer(annotations, rows[of_busiest(annotations, rows)])
    return None
