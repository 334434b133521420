"""Matches the waits of a trace with recorded and watched lines, where only one line fits.

Watching was without the profiler. Each side may have waits that the other lacks: torch's sync debug mode does not warn
of a synchronize that a library calls, and a watched copy may be too small to stall.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, chain
from typing import NamedTuple, TypeAlias

import numpy as np

from pinprof.analyses.syncs.causes import WAITS
from pinprof.analyses.syncs.lines.recorded import Around, WaitKind, agreed, kinds_of_calls, waits_of
from pinprof.analyses.syncs.stalls import Stalls
from pinprof.trace.calls import ASYNC_COPY, COPY, DEVICE, EVENT, FREE, STREAM
from pinprof.trace.lines import BACKWARD_CALL, Contexts, DebugModeWaits, Place, SourceLine, WatchedWait
from pinprof.trace.links import outermost
from pinprof.trace.tables import MEMCPY, NONE, PAGEABLE, Int32s, Int64s, Trace
from pinprof.trace.vendors import WAITING_FOR_STREAM

MIN_WATCHED_STEPS = 20
"""After this number of watched steps (four times the recorded ones), a line that was not seen does not wait."""

OPS_BY_CALL = {call: ops for cause in WAITS.values() for call, ops in cause.calls.items()} | {
    BACKWARD_CALL: frozenset()
}
"""`Cause.calls` of all causes. `backward` runs no op itself: the autograd engine does, on its own threads."""

CALLS_THAT_MAY_NOT_WAIT = frozenset({"synchronize", "_cuda_emptyCache"})
"""Calls that watching notices even if they do not wait: a synchronize with an event that was not recorded, and freeing
an empty cache."""


def is_shown(wait: WatchedWait) -> bool:
    """Return whether the trace shows every such wait, as a wait or as a copy of pageable memory."""
    return wait.waited is not None and wait.waited not in CALLS_THAT_MAY_NOT_WAIT


def may_run(wait: WatchedWait, op: str) -> bool:
    """Return whether the call that waited may run this op; True where the call is not known."""
    if wait.waited is None or op == f"aten::{wait.waited}":
        return True
    return wait.waited not in OPS_BY_CALL or op in OPS_BY_CALL[wait.waited]


def _on_thread(wait: WatchedWait, kind: WaitKind) -> bool:
    """Return whether a wait may be on a thread of the kind; `backward` stands for waits of the autograd threads."""
    if wait.waited == BACKWARD_CALL:
        return kind.role in {"autograd", "main"}
    return (kind.role == "main") != (wait.thread == "other")


class WatchedWaits:
    """The watched waits of a program, compared with the recorded lines of the same kind."""

    def __init__(
        self, recorded: Mapping[WaitKind, Sequence[SourceLine | None]], watched: DebugModeWaits | None
    ) -> None:
        self._recorded = recorded
        self._waits = watched.waits if watched else ()
        self.sequences = (watched.sequences or ()) if watched else ()
        """The waits of the main thread in each step, in order, as numbers; empty if they were too many."""
        self.are_enough = watched is not None and watched.steps >= MIN_WATCHED_STEPS
        """Whether a line that was not seen in the watched steps does not wait."""
        self.shown = frozenset(number for number, wait in enumerate(self._waits) if is_shown(wait))
        """The waits for which `is_shown` holds."""
        self.has_rival = cache(self._has_rival)
        self._kinds: dict[Place, set[WaitKind]] = defaultdict(set)
        self._lines: dict[tuple[WaitKind, Place, tuple[str, ...]], SourceLine] = {}
        for kind, lines in recorded.items():
            for line in filter(None, lines):
                self._kinds[line.place].add(kind)
                self._lines[kind, line.place, line.stack] = line

    def line(self, number: int, kind: WaitKind) -> SourceLine:
        """Return the line of a watched wait; if the line was recorded, too, with the recorded cause."""
        line = self._waits[number].line
        return self._lines.get((kind, line.place, line.stack), line)

    def _has_rival(self, kind: WaitKind) -> bool:
        """Return whether a watched wait may be of a kind, and its place is not among the recorded lines of that."""
        recorded = {line.place for line in self._recorded.get(kind, ()) if line}
        return any(self._may_be(wait, kind) for wait in self._waits if wait.line.place not in recorded)

    def _may_be(self, wait: WatchedWait, kind: WaitKind) -> bool:
        """Return whether a watched wait may be of a kind.

        If its call may run an op that was recorded at its place, only the kinds recorded there count.
        """
        recorded = {noted for noted in self._kinds.get(wait.line.place, set()) if _on_thread(wait, noted)}
        if any(may_run(wait, noted.op) for noted in recorded):
            return kind in recorded
        return _on_thread(wait, kind) and may_run(wait, kind.op)

    def fitting(self, kind: WaitKind, op: str) -> frozenset[int]:
        """Return the watched waits that may be of a kind, or may wait in this op on a thread of that kind."""
        return frozenset(
            number
            for number, wait in enumerate(self._waits)
            if _on_thread(wait, kind) and (wait.waited == BACKWARD_CALL or may_run(wait, op) or may_run(wait, kind.op))
        )


# By the order within a step


class Slot(NamedTuple):
    """A wait of the trace, to be aligned with watched waits."""

    fits: frozenset[int]  # the watched waits that it may be by its kind
    is_noticed: bool  # whether watching notices each such wait


def align(
    slots: Sequence[Slot], sequences: Sequence[Sequence[int]], shown: frozenset[int]
) -> list[frozenset[int] | None] | None:
    """Return per slot the watched waits that it may be, over all alignments; None for a slot that may be none of them.

    `slots` and each of `sequences` are waits of a step in order. Return None if the slots can be aligned with no
    sequence. `shown` are the watched waits that every trace shows.

    >>> align([Slot(frozenset({0, 1}), True), Slot(frozenset({1}), True)], [[0, 1]], frozenset({0, 1}))
    [frozenset({0}), frozenset({1})]
    """
    result: list[frozenset[int] | None] = [frozenset()] * len(slots)
    is_aligned = False
    for sequence in sequences:
        before = _states(slots, sequence, shown)
        if not before[-1] >> len(sequence) & 1:
            continue
        is_aligned = True
        from_end = _states(slots[::-1], sequence[::-1], shown)[::-1]
        masks = _masks(slots, sequence)
        for number, slot in enumerate(slots):
            after = int(f"{from_end[number + 1]:0{len(sequence) + 1}b}"[::-1], 2)  # counted from the other end
            places = _bits(before[number] & masks[slot.fits] & after >> 1)
            candidates, waits = result[number], frozenset(sequence[position] for position in places)
            may_be_none = not slot.is_noticed and bool(before[number] & after)
            result[number] = None if candidates is None or may_be_none else candidates | waits
    return result if is_aligned else None


def _states(slots: Sequence[Slot], sequence: Sequence[int], shown: frozenset[int]) -> list[int]:
    """Return for each slot, and for the end, how many waits of a sequence may precede it: bit j stands for j waits."""
    masks = _masks(slots, sequence)
    skipped = sum(1 << position for position, wait in enumerate(sequence) if wait not in shown)

    def with_skipped(states: int) -> int:
        return states | (skipped + (states & skipped)) ^ skipped  # the sum carries to the end of a run of ones

    def after(states: int, slot: Slot) -> int:
        unnoticed = 0 if slot.is_noticed else states
        return with_skipped((states & masks[slot.fits]) << 1 | unnoticed)

    return list(accumulate(slots, after, initial=with_skipped(1)))


def _masks(slots: Sequence[Slot], sequence: Sequence[int]) -> dict[frozenset[int], int]:
    return {
        fits: sum(1 << position for position, wait in enumerate(sequence) if wait in fits)
        for fits in {slot.fits for slot in slots}
    }


def _bits(number: int) -> Iterator[int]:
    """Yield the positions of the bits of a number that are 1."""
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


# By the order in all steps of a trace

Candidates: TypeAlias = list[SourceLine] | None  # the lines that a wait may have; None if watching does not limit them

ROLES_IN_ORDER = {"main", "autograd"}
"""Roles of threads whose waits are in order in a watched step: the main thread waits for the autograd threads."""

WATCHED_CALLS = (STREAM, DEVICE, EVENT, COPY, ASYNC_COPY, FREE)
"""Kinds of calls that watching may notice; it notices freeing only by `torch.cuda.empty_cache()`."""

NOTICED_OPS = {
    *("aten::item", "aten::is_nonzero", "aten::_local_scalar_dense", "aten::nonzero"),
    *("aten::to", "aten::_to_copy", "aten::copy_"),
}
"""The innermost ops that wait for a stream by c10's functions alone, which warn once of each such wait
(c10/cuda/CUDAFunctions.h)."""


class _Event(NamedTuple):
    """The calls of one wait, or of a copy that does not wait but may be noticed by watching."""

    slot: Slot
    stalls: list[int]  # its stalls; empty for a copy that does not wait


def candidate_lines(trace: Trace, stalls: Stalls, kinds: Sequence[WaitKind], watched: WatchedWaits) -> list[Candidates]:
    """Return per stall the lines that it may have by the order of the waits in the watched steps."""
    result: list[Candidates] = [None] * len(kinds)
    if not watched.are_enough or not watched.sequences:
        return result
    aligned: dict[tuple[Slot, ...], list[frozenset[int] | None] | None] = {}
    for events in _events_by_step(trace, stalls, watched):
        slots = tuple(event.slot for event in events)
        if slots not in aligned:
            aligned[slots] = align(slots, watched.sequences, watched.shown)
        for event, waits in zip(events, aligned[slots] or [None] * len(events), strict=True):
            if waits is not None:
                for stall in event.stalls:
                    result[stall] = [watched.line(number, kinds[stall]) for number in sorted(waits)]
    return result


def _events_by_step(trace: Trace, stalls: Stalls, watched: WatchedWaits) -> list[list[_Event]]:
    """Return per complete step its events in order; the stalls of one copy are one event."""
    waiting = np.flatnonzero(np.isin(stalls.kind, WATCHED_CALLS) & ~stalls.profiler)
    copy, silent = stalls.copy[waiting], _silent_copies(trace, stalls)
    call = np.concatenate((stalls.call[waiting], silent))
    stall = np.concatenate((waiting, np.full(len(silent), NONE)))
    key = np.concatenate((np.where(copy != NONE, copy, -2 - waiting), -2 - len(stalls.call) - silent))
    kinds, step = kinds_of_calls(trace, call), trace.links.call_step[call]
    slots = _slots(trace, call, kinds, watched)
    by_step: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in np.argsort(trace.calls.start_ns[call], kind="stable").tolist():
        if kinds[row].role in ROLES_IN_ORDER and step[row] != NONE and trace.steps.whole[step[row]]:
            by_step[int(step[row])][int(key[row])].append(row)
    return [
        [_Event(slots[rows[-1]], [int(stall[row]) for row in rows if stall[row] != NONE]) for rows in events.values()]
        for events in by_step.values()
    ]


def _silent_copies(trace: Trace, stalls: Stalls) -> Int64s:
    gpu, launch = trace.gpu, trace.links.launch
    copies = np.flatnonzero((gpu.category == MEMCPY) & (gpu.host_memory == PAGEABLE) & (launch != NONE))
    calls = launch[copies[~np.isin(copies, stalls.copy)]]
    return np.setdiff1d(calls, stalls.call).astype(np.int64)


def _slots(trace: Trace, call: Int64s, kinds: Sequence[WaitKind], watched: WatchedWaits) -> list[Slot]:
    names = [trace.calls.name_of(row) for row in call.tolist()]
    outer, inner = _torch_op(trace, call).tolist(), trace.links.op[call].tolist()
    fits: dict[tuple[WaitKind, str], frozenset[int]] = {}
    slots = []
    for kind, name, torch_op, innermost in zip(kinds, names, outer, inner, strict=True):
        key = kind, trace.ops.name_of(torch_op) if torch_op != NONE else name
        if key not in fits:
            fits[key] = watched.fitting(*key)
        is_noticed_op = innermost != NONE and trace.ops.name_of(innermost) in NOTICED_OPS
        slots.append(Slot(fits[key], kind.role == "main" and name in WAITING_FOR_STREAM and is_noticed_op))
    return slots


def _torch_op(trace: Trace, call: Int64s) -> Int32s:
    """Return the outermost op around each call in an unbroken chain of torch's own ops; -1 for none.

    Ops of other libraries may be around it, in which the user's own code may run.
    """
    if not len(trace.ops):
        return trace.links.op[call]
    of_torch, parent = trace.ops.named(lambda name: name.startswith("aten::")), trace.links.op_parent
    within_torch = np.where((parent != NONE) & of_torch[parent], parent, NONE).astype(np.int32)
    return outermost(of_torch, trace.links.op[call], within_torch)


Lines: TypeAlias = list[SourceLine | None]  # per stall

NEAR_OPS = 6
"""Ops on each side of a near context. It suffices if all recorded waits after the same ops, or before them, have one
line."""


def lines_of_waits(trace: Trace, stalls: Stalls) -> Lines:
    """Return per stall the source line that was recorded or watched for it, None where none is certain.

    The order of the waits in the watched steps decides, unless a context contradicts it. If the order decides nothing,
    the context does, unless watching saw another line that may run the same op. Where watching kept no order, a whole
    context decides in spite of that, if no more waits of the step have it than had it when lines were recorded. Lines
    that were recorded without contexts go by the order of the waits in a step with as many.
    """
    kinds = kinds_of_calls(trace, stalls.call)
    by_step: dict[tuple[WaitKind, int], list[int]] = defaultdict(list)
    for stall in np.flatnonzero(~stalls.profiler).tolist():
        by_step[kinds[stall], int(stalls.call_step[stall])].append(stall)
    result: Lines = [None] * len(kinds)
    if trace.info.contexts is None:
        in_order = {(WaitKind(lines.op, lines.thread), len(lines.at)): lines.at for lines in trace.info.lines}
        for (kind, _), rows in by_step.items():
            for stall, line in zip(rows, in_order.get((kind, len(rows)), ()), strict=False):
                result[stall] = line
        return result
    contexts, waits = RecordedContexts(trace.info.contexts), waits_of(trace, stalls, trace.info.contexts.names)
    watched = WatchedWaits(contexts.lines, trace.info.watched)
    candidates = candidate_lines(trace, stalls, kinds, watched)
    for (kind, _), rows in by_step.items():
        stalls_of: dict[int, list[int]] = defaultdict(list)
        for stall in rows:
            stalls_of[int(waits.wait[stall])].append(stall)
        by_context = {wait: contexts.match(kind, waits.around[wait]) for wait in stalls_of}
        by_order: dict[int, Lines] = {
            wait: list(chain.from_iterable(candidates[stall] or () for stall in own)) for wait, own in stalls_of.items()
        }
        if not all(_fits(by_context[wait], by_order[wait]) for wait in stalls_of):
            continue
        has_rival = watched.has_rival(kind)
        alike = Counter(waits.around[wait] for wait in stalls_of) if has_rival and not watched.sequences else None
        for wait, own in stalls_of.items():
            around = waits.around[wait]
            is_certain = not has_rival or (alike is not None and alike[around] <= contexts.most[kind, around])
            line = agreed(by_order[wait]) or (by_context[wait] if is_certain else None)
            for stall in own:
                result[stall] = line
    return result


def _fits(line: SourceLine | None, candidates: Lines) -> bool:
    """Return whether the line by context is one of the candidates by order; True if line or candidates are unknown."""
    if line is None or line.line is None or not candidates:  # a context may know the function alone
        return True
    return line.place in {candidate.place for candidate in candidates if candidate}


class RecordedContexts:
    """Looks up waits among the contexts of the recorded lines."""

    def __init__(self, contexts: Contexts) -> None:
        recorded = (*contexts.lines, None)  # the last for waits without a line
        self.lines: dict[WaitKind, Lines] = defaultdict(list)
        """The lines of all recorded waits by kind, None for waits without a line."""
        self.most: Counter[tuple[WaitKind, Around]] = Counter()
        """How many waits of a step had a whole context, at most."""
        found: dict[tuple[object, ...], Lines] = defaultdict(list)
        for wait in contexts.waits:
            kind = WaitKind(wait.op, wait.thread)
            self.lines[kind].append(recorded[wait.line])
            self.most[kind, (wait.before, wait.after)] += wait.most
            for key in _keys(kind, (wait.before, wait.after)):
                found[key].append(recorded[wait.line])
        self._found = {key: agreed(lines) for key, lines in found.items()}
        self.match = cache(self._match)

    def _match(self, kind: WaitKind, around: Around) -> SourceLine | None:
        """Return the line of all recorded waits with this context, or else with the ops near the wait."""
        whole, near, *sides = _keys(kind, around)
        if whole in self._found:
            return self._found[whole]
        is_certain = agreed(self._found[side] for side in sides if side in self._found) is not None
        return self._found.get(near) if is_certain else None


def _keys(kind: WaitKind, around: Around) -> Iterator[tuple[object, ...]]:
    near_before, near_after = (side[:NEAR_OPS] for side in around)
    yield "whole", kind, around
    yield "near", kind, near_before, near_after
    yield "before", kind, near_before
    yield "after", kind, near_after
