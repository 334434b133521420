"""The batches of a server by phase (prefill, decode, or both), by the marks of vLLM and SGLang, or a model's calls."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from pinprof.ground.intervals import Intervals, covered, joined, length, subtract
from pinprof.trace.links import enclosing, step_at
from pinprof.trace.spans.one_time_work import NO_TIMES_AT_ALL
from pinprof.trace.tables import NONE, Bools, Int64s, Trace
from pinprof.trace.vendors import GRAPH_LAUNCH

PREFILL, DECODE, MIXED, OTHER_BATCH = BATCH_PHASES = ("prefill", "decode", "mixed", "other")
VLLM_BATCH: Final = re.compile(
    r"execute(?:_\d+)?_context_(?P<prefills>\d+)\((?:sq)?(?P<prefilled>\d+)\w*\)"
    r"_generation_(?P<decodes>\d+)\((?:sq)?(?P<decoded>\d+)\w*\)"
)
VLLM_BATCH_OF_2025: Final = re.compile(r"execute_new_(?P<prefills>\d+)_cached_(?P<decodes>\d+)")
SGLANG_BATCH: Final = re.compile(
    r"step\[(?P<mode>[A-Z_]+) (?:.* )?bs=(?P<requests>\d+)(?: toks=(?P<tokens>\d+))?(?: c=(?P<prefills>\d+) g=\d+)?.*\]"
)
SGLANG_MODES: Final = {"EXTEND": PREFILL, "DECODE": DECODE, "MIXED": MIXED}
MAX_FILLS_NAMED: Final = 3
OUTSIDE_OF_OPS: Final = "Python"


class MarkedBatch(NamedTuple):
    """What a mark says of a batch."""

    phase: str
    requests: int | None  # None where unknown, as `tokens`
    tokens: int | None  # those that its requests put in and that it makes


@dataclass(frozen=True)
class ServingPhase:
    """The batches of a phase in the whole steps; times in ns, all but `count` means of a batch."""

    name: str  # `prefill`, `decode`, `mixed`, or `other`, as a draft of speculative decoding
    count: int
    requests: float | None
    tokens: float | None  # None where the trace does not count them, as `requests`
    step_ns: float  # from the begin of a batch to that of the next one
    launches: float  # calls that launch work; that of a graph is one
    graphs: float  # calls that launch a CUDA graph
    idle_ns: float  # in which the busiest GPU has no work
    fills: tuple[tuple[str, float], ...]
    """What the server marks in the idle time, the longest first, with the time of it; without marks, ops and Python.
    Only the threads of the batches count: what another thread does meanwhile does not hold up the GPU."""


def batch_of(mark: str) -> MarkedBatch | None:
    """Return what a server's mark says of its batch; None for any other annotation."""
    if match := VLLM_BATCH.fullmatch(mark):
        prefills, decodes = int(match["prefills"]), int(match["decodes"])
        return MarkedBatch(
            _phase(prefills, decodes), prefills + decodes, int(match["prefilled"]) + int(match["decoded"])
        )
    if match := VLLM_BATCH_OF_2025.fullmatch(mark):
        prefills, decodes = int(match["prefills"]), int(match["decodes"])
        return MarkedBatch(_phase(prefills, decodes), prefills + decodes, None if prefills else decodes)
    if match := SGLANG_BATCH.fullmatch(mark):
        phase, requests = SGLANG_MODES.get(match["mode"], OTHER_BATCH), int(match["requests"])
        unmarked = requests if phase == DECODE else None
        return MarkedBatch(phase, requests, int(match["tokens"]) if match["tokens"] else unmarked)
    return None


def measure_serving(trace: Trace, idle_of_gpus: Sequence[Intervals]) -> tuple[ServingPhase, ...]:
    """Return the phases of a server's batches; none where the steps are no batches, or nothing shows what they do.

    Of several GPUs the one that is idle for the shortest time counts. Decodes unlike the others are left out, and the
    last step, which may have the end of the recording in it.
    """
    batches = _batches(trace)
    is_marked = bool(batches)
    batches = batches or _batches_of_calls(trace)
    is_usual, last = trace.steps.complete, len(trace.steps) - 1
    batches = {step: batch for step, batch in batches.items() if is_usual[step] or batch.phase != DECODE}
    if len(batches) > 1:
        batches.pop(last, None)
    idle = min(idle_of_gpus, key=length, default=NO_TIMES_AT_ALL)
    steps, graphs = trace.steps, trace.calls.named(GRAPH_LAUNCH.search)
    times = {
        "step_ns": steps.end_ns - steps.start_ns,
        "launches": _per_step(trace, trace.launches_work),
        "graphs": _per_step(trace, graphs),
        "idle_ns": covered(idle, steps.start_ns, steps.end_ns),
    }
    phases = []
    for name in dict.fromkeys(batch.phase for batch in batches.values()):
        of_phase = {step: batch for step, batch in batches.items() if batch.phase == name}
        rows = np.array(list(of_phase))
        phases.append(
            ServingPhase(
                name,
                len(rows),
                requests=_mean([batch.requests for batch in of_phase.values()]),
                tokens=_mean([batch.tokens for batch in of_phase.values()]),
                fills=(_fills if is_marked else _fills_by_ops)(trace, idle, rows),
                **{column: float(values[rows].mean()) for column, values in times.items()},
            )
        )
    return tuple(phases)


def _mean(counts: Sequence[int | None]) -> float | None:
    known = [count for count in counts if count is not None]
    return float(np.mean(known)) if len(known) == len(counts) else None


def _per_step(trace: Trace, calls: Bools) -> Int64s:
    step = trace.links.call_step[calls]
    return np.bincount(step[step != NONE], minlength=len(trace.steps))


def _phase(prefills: int, decodes: int) -> str:
    if prefills and decodes:
        return MIXED
    return PREFILL if prefills else DECODE


def _batches(trace: Trace) -> dict[int, MarkedBatch]:
    """Return by whole step what its first mark says."""
    marks = trace.annotations
    batches_by_name = {number: batch for number, name in enumerate(marks.names) if (batch := batch_of(name))}
    rows = np.flatnonzero(np.isin(marks.name, list(batches_by_name)))
    step = step_at(trace.steps, marks.start_ns[rows])
    batches: dict[int, MarkedBatch] = {}
    for row, number in zip(rows.tolist(), step.tolist(), strict=True):
        if number != NONE and trace.steps.whole[number]:
            batches.setdefault(number, batches_by_name[int(marks.name[row])])
    return batches


def _batches_of_calls(trace: Trace) -> dict[int, MarkedBatch]:
    """Return by whole step what its only call of a language model does."""
    calls = trace.model_calls
    step = step_at(trace.steps, calls.start_ns)
    steps, first, count = np.unique(step, return_index=True, return_counts=True)
    is_batch = (steps != NONE) & (count == 1) & trace.steps.whole[steps]
    return {
        number: MarkedBatch(
            DECODE if calls.decodes[call] else PREFILL, _known(calls.requests[call]), _known(calls.tokens[call])
        )
        for number, call in zip(steps[is_batch].tolist(), first[is_batch].tolist(), strict=True)
    }


def _known(count: np.int64) -> int | None:
    return None if count == NONE else int(count)


def _fills(trace: Trace, idle: Intervals, steps: Int64s) -> tuple[tuple[str, float], ...]:
    """Return the marks that the server is in while the GPU is idle in these steps, innermost, with their mean time."""
    marks = trace.annotations
    inside = np.isin(step_at(trace.steps, marks.start_ns), steps)
    inside &= np.isin(marks.thread, marks.thread[inside & marks.named(batch_of)])
    time = covered(idle, marks.start_ns, marks.end_ns)
    own, outer = time.copy(), enclosing(marks, marks)
    np.subtract.at(own, outer[outer != NONE], time[outer != NONE])
    sums = np.bincount(marks.name[inside], np.maximum(own[inside], 0), minlength=len(marks.names))
    named = [
        number for number in np.argsort(-sums, kind="stable") if sums[number] and batch_of(marks.names[number]) is None
    ]
    return tuple((marks.names[number], float(sums[number]) / len(steps)) for number in named[:MAX_FILLS_NAMED])


def _fills_by_ops(trace: Trace, idle: Intervals, steps: Int64s) -> tuple[tuple[str, float], ...]:
    """Return the outermost ops that run while the GPU is idle in these steps, and Python: the time in no op."""
    ops, calls, thread = trace.ops, trace.calls, trace.model_calls.thread
    is_outermost = (trace.links.op_parent == NONE) & (ops.thread == thread)
    rows = np.flatnonzero(is_outermost & np.isin(step_at(trace.steps, ops.start_ns), steps))
    times = covered(idle, ops.start_ns[rows], ops.end_ns[rows])
    sums = np.bincount(ops.name[rows], times, minlength=len(ops.names))
    of_host = joined(ops.times(ops.thread == thread), calls.times(calls.thread == thread))
    alone = covered(subtract(idle, of_host), trace.steps.start_ns[steps], trace.steps.end_ns[steps])
    fills = [
        (ops.names[number], float(sums[number]) / len(steps))
        for number in np.argsort(-sums, kind="stable")[:MAX_FILLS_NAMED]
    ]
    fills.append((OUTSIDE_OF_OPS, float(alone.sum()) / len(steps)))
    return tuple(fill for fill in sorted(fills, key=itemgetter(1), reverse=True)[:MAX_FILLS_NAMED] if fill[1])
