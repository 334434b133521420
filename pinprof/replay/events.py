"""What events order: traces name neither the streams nor the events of these calls, so their times must tell."""

import re
from bisect import bisect_left
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from pinprof.analyses.syncs import Stalls
from pinprof.trace.calls import EVENT
from pinprof.trace.tables import NONE, Int64s, Trace

RECORD_CALL = re.compile(r"(cuda|cu|hip)EventRecord")
ORDER_CALL = re.compile(r"(cuda|cu|hip)StreamWaitEvent")

SKEW_NS = 1_000
"""Times of the GPU that should follow each other may overlap by this much."""
WAKE_NS = 20_000
"""A wait for an event returns this soon after the work that it waited for."""
MOST_STREAMS = 6
"""Streams among which those of an event are searched, the ones with most work first."""
MOST_SAMPLES = 8
"""How many calls at the same place of their steps are looked at to find their event."""
LONG_IDLE_NS, PROMPT_NS = 20_000, 10_000
"""A stream that is idle for at least this long waits for something, and goes on within this time after that has
ended."""
MOST_BACK_EXPLAINED = 64
"""Records among which the reason of an idle stream is searched."""
MOST_BACK = 8
"""Records among which that of a waited-for event is searched, the latest first."""


class EventUse(NamedTuple):
    """What a call does with an event."""

    kind: str
    """`record`, `order` (a stream waits) or `wait` (the host does)."""
    queue: int
    """The stream that is recorded, that waits, or whose work the host waits for; -1 where it is not known."""
    back: int
    """For `order` and `wait`: how many records before the call the event was recorded."""


class EventUses(NamedTuple):
    """The uses of events by call, and when an event released the stream of a launch."""

    of_call: dict[int, EventUse]
    released_ns: dict[int, int]


class _Guess(NamedTuple):
    back: int
    source: int
    target: int


def find_event_uses(trace: Trace, queue: Int64s, stalls: Stalls) -> EventUses:
    """Return what is known of the uses of events; `queue` is the stream of each activity, counted over all devices.

    For a stream wait, the pair of streams is taken whose times in all steps allow it: the first work after the wait
    starts after the last work before the record has ended.
    """
    calls = trace.calls
    records = np.flatnonzero(calls.named(lambda name: bool(RECORD_CALL.match(name)))).tolist()
    orders = np.flatnonzero(calls.named(lambda name: bool(ORDER_CALL.match(name))))
    waits = stalls.call[(stalls.kind == EVENT) & ~stalls.profiler]
    if len(records) == 0 or len(trace.gpu) == 0:
        return EventUses({}, {})
    uses = _Uses(trace, _Lanes(trace, queue), records, {}, {}, {})
    for group in _alike(trace, orders):
        _note_order(uses, group)
    for group in _alike(trace, waits):
        _note_wait(uses, group)
    for record in records:
        uses.of_call[record] = EventUse("record", uses.sources.get(record, NONE), 0)
    return EventUses(uses.of_call, uses.released_ns)


class _Uses(NamedTuple):
    """What is known so far."""

    trace: Trace
    lanes: "_Lanes"
    records: list[int]
    of_call: dict[int, EventUse]
    released_ns: dict[int, int]
    sources: dict[int, int]
    """Stream of each record."""


def _note_order(uses: _Uses, group: list[int]) -> None:
    """Note which stream waits for which at these calls, and what that released."""
    trace, lanes, records = uses.trace, uses.lanes, uses.records
    guess = _best_order(trace, lanes, records, group)
    if guess is None:
        return
    for call in group:
        uses.of_call[call] = EventUse("order", guess.target, guess.back)
        record = _record(records, call, guess.back)
        if record == NONE:
            continue
        uses.sources[record] = guess.source
        before = lanes.last_before(guess.source, int(trace.calls.start_ns[record]))
        after = lanes.first_after(guess.target, int(trace.calls.start_ns[call]))
        if NONE not in (before, after):
            launch, ended = int(trace.links.launch[after]), int(trace.gpu.end_ns[before])
            uses.released_ns[launch] = max(uses.released_ns.get(launch, ended), ended)


def _note_wait(uses: _Uses, group: list[int]) -> None:
    """Note for what work the host waits at these calls."""
    guess = _best_wait(uses.trace, uses.lanes, uses.records, group, uses.sources)
    if guess is None:
        return
    for call in group:
        uses.of_call[call] = EventUse("wait", guess.source, guess.back)
        record = _record(uses.records, call, guess.back)
        if record != NONE:
            uses.sources[record] = guess.source


class _Lanes:
    """The activities of each stream in the order of their launches."""

    def __init__(self, trace: Trace, queue: Int64s) -> None:
        launched = trace.launched_ns
        self.rows: dict[int, list[int]] = {}
        self.launched: dict[int, list[int]] = {}
        numbers, counts = np.unique(queue, return_counts=True)
        for number in numbers[np.argsort(-counts, kind="stable")][:MOST_STREAMS].tolist():
            rows = np.flatnonzero(queue == number)
            rows = rows[np.argsort(launched[rows], kind="stable")]
            self.rows[number], self.launched[number] = rows.tolist(), launched[rows].tolist()
        self.device = {number: int(trace.gpu.device[rows[0]]) for number, rows in self.rows.items()}

    def last_before(self, queue: int, time: int) -> int:
        at = bisect_left(self.launched[queue], time) - 1
        return self.rows[queue][at] if at >= 0 else NONE

    def first_after(self, queue: int, time: int) -> int:
        at = bisect_left(self.launched[queue], time)
        return self.rows[queue][at] if at < len(self.rows[queue]) else NONE


def _alike(trace: Trace, rows: Int64s) -> list[list[int]]:
    """Return the calls that stand at the same place of their steps together."""
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    count_in: dict[int, int] = defaultdict(int)
    for row in rows.tolist():
        step = int(trace.links.call_step[row])
        groups[(NONE, row) if step == NONE else (0, count_in[step])].append(row)
        count_in[step] += 1
    return list(groups.values())


def _record(records: list[int], call: int, back: int) -> int:
    """Return the record `back` records before a call; -1 if there are fewer. Rows are sorted by start."""
    at = bisect_left(records, call) - back
    return records[at] if at >= 0 else NONE


def _best_order(trace: Trace, lanes: _Lanes, records: list[int], group: list[int]) -> _Guess | None:
    """Return the record that a stream waits for at these calls: one that explains why it was idle, or a late one."""
    return _explaining(trace, lanes, records, group) or _allowed(trace, lanes, records, group)


def _explaining(trace: Trace, lanes: _Lanes, records: list[int], group: list[int]) -> _Guess | None:
    """Return the record after whose work the stream went on in most of the steps in which it was idle.

    Collectives are awaited long after their events were recorded: those of all buckets of gradients after backward.
    """
    target = _next_queue(trace, lanes, group[0])
    if target == NONE:
        return None
    sample = [call for call in group[:: max(len(group) // MOST_SAMPLES, 1)] if _idle_before(trace, lanes, target, call)]
    votes: dict[_Guess, int] = defaultdict(int)
    for call in sample:
        for back in range(1, MOST_BACK_EXPLAINED + 1):
            for source in lanes.rows:
                guess = _Guess(back, source, target)
                if source == target or lanes.device[source] != lanes.device[target]:
                    continue
                slack = _slack(trace, lanes, records, call, guess)
                if slack is not None and -SKEW_NS <= slack <= PROMPT_NS:
                    votes[guess] += 1
    best = max(votes, key=lambda guess: (votes[guess], guess.back), default=None)
    return best if best and votes[best] > len(sample) / 2 else None


def _idle_before(trace: Trace, lanes: _Lanes, queue: int, call: int) -> bool:
    """Return whether the next work of a stream began long after its launch and the end of the work before it."""
    time = int(trace.calls.start_ns[call])
    after, before = lanes.first_after(queue, time), lanes.last_before(queue, time)
    if after == NONE:
        return False
    launch = int(trace.links.launch[after])
    issued = int(trace.calls.start_ns[launch]) if launch != NONE else 0
    free = max(issued, int(trace.gpu.end_ns[before]) if before != NONE else 0)
    return int(trace.gpu.start_ns[after]) - free > LONG_IDLE_NS


def _allowed(trace: Trace, lanes: _Lanes, records: list[int], group: list[int]) -> _Guess | None:
    """Return the latest record that the times in most steps allow."""
    best: tuple[tuple[float, int, float], _Guess] | None = None
    for back in range(1, MOST_BACK + 1):
        for source in lanes.rows:
            for target in lanes.rows:
                if source == target or lanes.device[source] != lanes.device[target]:
                    continue
                sample = group[:: max(len(group) // MOST_SAMPLES, 1)]
                slacks = [_slack(trace, lanes, records, call, _Guess(back, source, target)) for call in sample]
                known = [slack for slack in slacks if slack is not None]
                if not known:
                    continue
                wrong = sum(slack < -SKEW_NS for slack in known) / len(known)
                rank = (wrong, int(_next_queue(trace, lanes, group[0]) != target), float(np.median(known)))
                if wrong < 0.5 and (best is None or rank < best[0]):  # noqa: PLR2004  the times of most steps allow it
                    best = rank, _Guess(back, source, target)
        if best is not None:
            return best[1]
    return None


def _slack(trace: Trace, lanes: _Lanes, records: list[int], call: int, guess: _Guess) -> int | None:
    record = _record(records, call, guess.back)
    if record == NONE:
        return None
    before = lanes.last_before(guess.source, int(trace.calls.start_ns[record]))
    after = lanes.first_after(guess.target, int(trace.calls.start_ns[call]))
    if NONE in (before, after):
        return None
    return int(trace.gpu.start_ns[after] - trace.gpu.end_ns[before])


def _next_queue(trace: Trace, lanes: _Lanes, call: int) -> int:
    """Return the stream of the first work that is launched after a call."""
    time = int(trace.calls.start_ns[call])
    following = [(lanes.launched[queue], queue) for queue in lanes.rows]
    times = [
        (launched[at], queue)
        for launched, queue in following
        for at in [bisect_left(launched, time)]
        if at < len(launched)
    ]
    return min(times)[1] if times else NONE


def _best_wait(
    trace: Trace, lanes: _Lanes, records: list[int], group: list[int], sources: dict[int, int]
) -> _Guess | None:
    """Return the record and stream whose work ended just before most of the waits that took long returned.

    Of several records after the same work it is the first: programs record an event right after what they wait for.
    """
    calls = trace.calls
    votes: dict[_Guess, int] = defaultdict(int)
    for call in group[:: max(len(group) // MOST_SAMPLES, 1)]:
        start, end = int(calls.start_ns[call]), int(calls.end_ns[call])
        for back in range(1, MOST_BACK * 4 + 1):
            record = _record(records, call, back)
            if record == NONE:
                break
            for queue in lanes.rows:
                if sources.get(record, queue) != queue:
                    continue
                row = lanes.last_before(queue, int(calls.start_ns[record]))
                ended = int(trace.gpu.end_ns[row]) if row != NONE else 0
                if start < ended <= end + SKEW_NS and end - ended <= WAKE_NS:
                    votes[_Guess(back, queue, NONE)] += 1
    return max(votes, key=lambda guess: (votes[guess], guess.back)) if votes else None
