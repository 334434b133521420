"""The lines of the waits of a trace, as the order of the waits in the steps that were watched leaves them."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from pinprof.analyses.syncs.aligned import Slot, align
from pinprof.analyses.syncs.contexts import Kind, kinds_of_calls
from pinprof.analyses.syncs.rivals import Rivals
from pinprof.analyses.syncs.stalls import WAITING_COPY, Stalls
from pinprof.trace.calls import ASYNC_COPY, COPY, DEVICE, EVENT, FREE, STREAM
from pinprof.trace.lines import SourceLine
from pinprof.trace.links import outermost
from pinprof.trace.tables import MEMCPY, NONE, PAGEABLE, Int32s, Int64s, Trace

Seen: TypeAlias = list[SourceLine] | None
"""The lines of the watched waits that a wait may be; None where it may be none of them."""

THREADS = {"main", "autograd"}
"""Those whose waits a watched step holds in order: the main thread waits for those of the autograd engine."""

KINDS = (STREAM, DEVICE, EVENT, COPY, ASYNC_COPY, FREE)
"""Of the calls that watching may notice; to free memory only as `torch.cuda.empty_cache()`."""

WAITING_FOR_STREAM = {"cudaStreamSynchronize", "hipStreamSynchronize", WAITING_COPY}

READS = {"aten::item", "aten::is_nonzero", "aten::_local_scalar_dense"}
COPIES = {"aten::to", "aten::_to_copy", "aten::copy_"}
NOTICED_OPS = READS | COPIES | {"aten::nonzero"}
"""The innermost ops that wait for a stream by c10's functions alone, which warn once of each such wait
(c10/cuda/CUDAFunctions.h)."""


class _Event(NamedTuple):
    """Calls of one wait, or of a copy that does not wait, but that watching may notice."""

    slot: Slot
    stalls: list[int]
    """Its stalls; none of a copy that does not wait."""


def seen_lines(trace: Trace, stalls: Stalls, kinds: Sequence[Kind], rivals: Rivals) -> list[Seen]:
    """Return per stall the lines that it may have had in the watched steps; None where these tell nothing of it."""
    result: list[Seen] = [None] * len(kinds)
    if not rivals.are_known or not rivals.sequences:
        return result
    known: dict[tuple[Slot, ...], list[frozenset[int] | None] | None] = {}
    for events in _by_step(trace, stalls, rivals):
        slots = tuple(event.slot for event in events)
        if slots not in known:
            known[slots] = align(slots, rivals.sequences, rivals.shown)
        for event, waits in zip(events, known[slots] or [None] * len(events), strict=True):
            for row in event.stalls if waits is not None else ():
                result[row] = [rivals.line(number, kinds[row]) for number in sorted(waits or ())]
    return result


def _by_step(trace: Trace, stalls: Stalls, rivals: Rivals) -> list[list[_Event]]:
    """Return per complete step its events in order; the stalls of one copy are one wait."""
    waiting = np.flatnonzero(np.isin(stalls.kind, KINDS) & ~stalls.profiler)
    copy = stalls.copy[waiting]
    silent = _silent_copies(trace, stalls)
    call = np.concatenate((stalls.call[waiting], silent))
    stall = np.concatenate((waiting, np.full(len(silent), NONE)))
    wait = np.concatenate((np.where(copy != NONE, copy, -2 - waiting), -2 - len(stalls.call) - silent))
    slots, kinds = _slots(trace, call, rivals), kinds_of_calls(trace, call)
    step = trace.links.call_step[call]
    of_steps: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for event in np.argsort(trace.calls.start_ns[call], kind="stable").tolist():
        if kinds[event][1] in THREADS and step[event] != NONE and trace.steps.whole[step[event]]:
            of_steps[int(step[event])][int(wait[event])].append(event)
    return [
        [_Event(slots[events[-1]], [int(stall[event]) for event in events if stall[event] != NONE]) for events in waits]
        for waits in map(dict.values, of_steps.values())
    ]


def _silent_copies(trace: Trace, stalls: Stalls) -> Int64s:
    """Return the calls that copy pageable memory, and do not wait."""
    gpu, launch = trace.gpu, trace.links.launch
    copies = np.flatnonzero((gpu.category == MEMCPY) & (gpu.host_memory == PAGEABLE) & (launch != NONE))
    calls = launch[copies[~np.isin(copies, stalls.copy)]]
    return np.setdiff1d(calls, stalls.call).astype(np.int64)


def _slots(trace: Trace, call: Int64s, rivals: Rivals) -> list[Slot]:
    """Return per call which watched waits it may be."""
    asked, innermost = _asked_op(trace, call).tolist(), trace.links.op[call].tolist()
    names = [trace.calls.name_of(row) for row in call.tolist()]
    fits: dict[tuple[Kind, str], frozenset[int]] = {}
    slots = []
    for kind, name, op, inner in zip(kinds_of_calls(trace, call), names, asked, innermost, strict=True):
        key = kind, trace.ops.name_of(op) if op != NONE else name
        if key not in fits:
            fits[key] = rivals.that_fit(*key)
        by = trace.ops.name_of(inner) if inner != NONE else None
        is_noticed = kind[1] == "main" and name in WAITING_FOR_STREAM and by in NOTICED_OPS
        slots.append(Slot(fits[key], is_noticed))
    return slots


def _asked_op(trace: Trace, call: Int64s) -> Int32s:
    """Return the op of torch around each call that no other op of torch's own calls; -1 for none.

    Around it may be ops of others, in which the user's own code may run.
    """
    if not len(trace.ops):
        return trace.links.op[call]
    of_torch, parent = trace.ops.named(lambda name: name.startswith("aten::")), trace.links.op_parent
    within_torch = np.where((parent != NONE) & of_torch[parent], parent, NONE).astype(np.int32)
    return outermost(of_torch, trace.links.op[call], within_torch)
