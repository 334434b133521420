"""The CUDA events of a program: which work they order. Traces do not name streams and events, so times must show it."""

from bisect import bisect_left
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from pinprof.analyses.syncs.stalls import Stalls
from pinprof.replay.program import CallKind
from pinprof.trace.calls import EVENT
from pinprof.trace.tables import NONE, Int64s, Trace
from pinprof.trace.vendors import AWAIT_EVENT, RECORD_EVENT

EVENT_SKEW_NS = 1_000  # GPU times that should follow each other may overlap by this much
WAKE_NS = 20_000  # a wait for an event returns within this time after the end of the awaited work
MAX_STREAMS_WITH_EVENTS = 6  # the streams that are searched for those of an event, the ones with most work first
MAX_SAMPLED_CALLS = 8  # of the calls at one position in all steps, those examined
LONG_IDLE_NS, PROMPT_NS = 20_000, 10_000
"""A stream that is idle for at least `LONG_IDLE_NS` waits for something, and goes on within `PROMPT_NS` after that has
ended."""
MAX_RECORDS_BACK_OF_IDLE = 64  # the records, the latest first, that are searched for the reason of an idle stream
MAX_RECORDS_BACK, MAX_RECORDS_BACK_OF_HOST = 8, 32
"""The records, the latest first, that are searched for the event of a stream's wait, and of a wait of the host."""


class EventUse(NamedTuple):
    """What a call does with an event."""

    kind: CallKind  # RECORD, ORDER (a stream waits) or EVENT_WAIT (the host does)
    queue: int  # the stream that is recorded, that waits, or whose work the host waits for; -1 where it is not known
    back: int  # for ORDER and EVENT_WAIT: the record of its event, counted back from the call; 1 is the latest record


class EventUses(NamedTuple):
    """What is known of the events of a trace."""

    of_call: dict[int, EventUse]
    released_ns: dict[int, int]  # by launch: when an event released its stream


def find_event_uses(trace: Trace, queue: Int64s, stalls: Stalls) -> EventUses:
    """Return the known uses of events; `queue` is the stream of each activity, counted over all devices.

    Which stream waits for which one is inferred from the times in all steps: the first work after the wait starts after
    the end of the last work before the record.
    """
    calls = trace.calls
    records = np.flatnonzero(calls.named(RECORD_EVENT.match)).tolist()
    if len(records) == 0 or len(trace.gpu) == 0:
        return EventUses({}, {})
    search = _Search(trace, queue, records)
    for group in _by_position_in_step(trace, np.flatnonzero(calls.named(AWAIT_EVENT.match))):
        search.note_order(group)
    for group in _by_position_in_step(trace, stalls.call[(stalls.kind == EVENT) & ~stalls.profiler]):
        search.note_wait(group)
    recorded = {record: EventUse(CallKind.RECORD, search.recorded.get(record, NONE), 0) for record in records}
    return EventUses(search.of_call | recorded, search.released_ns)


def _by_position_in_step(trace: Trace, rows: Int64s) -> list[list[int]]:
    """Return the calls in groups: the first ones of all steps, the second ones, and so on."""
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    count_in: dict[int, int] = defaultdict(int)
    for row in rows.tolist():
        step = int(trace.links.call_step[row])
        groups[(NONE, row) if step == NONE else (0, count_in[step])].append(row)
        count_in[step] += 1
    return list(groups.values())


def _sample(group: list[int]) -> list[int]:
    return group[:: max(len(group) // MAX_SAMPLED_CALLS, 1)]


class _Guess(NamedTuple):
    back: int
    source: int
    target: int


class _Search:
    """Searches the streams and the records of calls, by the work of each stream in the order of launches."""

    def __init__(self, trace: Trace, queue: Int64s, records: list[int]) -> None:
        self._trace, self._records = trace, records
        self._call_start = trace.calls.start_ns.data  # a memoryview: faster than an array for single numbers
        self._work_start, self._work_end = trace.gpu.start_ns.data, trace.gpu.end_ns.data
        self._rows: dict[int, list[int]] = {}
        self._launched: dict[int, list[int]] = {}
        launched = trace.links.launched_ns
        numbers, counts = np.unique(queue, return_counts=True)
        for number in numbers[np.argsort(-counts, kind="stable")][:MAX_STREAMS_WITH_EVENTS].tolist():
            rows = np.flatnonzero(queue == number)
            rows = rows[np.argsort(launched[rows], kind="stable")]
            self._rows[number], self._launched[number] = rows.tolist(), launched[rows].tolist()
        device = {number: int(trace.gpu.device[rows[0]]) for number, rows in self._rows.items()}
        self._sources = {
            target: [number for number in device if number != target and device[number] == device[target]]
            for target in device
        }
        """Per stream: the other streams of its device."""
        self.of_call: dict[int, EventUse] = {}
        """Per wait: what was found."""
        self.recorded: dict[int, int] = {}
        """Per record: its stream."""
        self.released_ns: dict[int, int] = {}
        """Per launch: when an event released its stream."""

    def note_order(self, group: list[int]) -> None:
        """Note which stream waits for which other stream at these calls, and when it goes on."""
        guess = self._order_of_idle_times(group) or self._order_of_times(group)
        if guess is None:
            return
        for call in group:
            self.of_call[call] = EventUse(CallKind.ORDER, guess.target, guess.back)
            record = self._record(call, guess.back)
            if record == NONE:
                continue
            self.recorded[record] = guess.source
            before, after = self._last_before(guess.source, record), self._first_after(guess.target, call)
            if NONE not in (before, after):
                launch, ended = int(self._trace.links.launch[after]), self._work_end[before]
                self.released_ns[launch] = max(self.released_ns.get(launch, ended), ended)

    def note_wait(self, group: list[int]) -> None:
        """Note the work that the host waits for at these calls."""
        guess = self._awaited(group)
        if guess is None:
            return
        for call in group:
            self.of_call[call] = EventUse(CallKind.EVENT_WAIT, guess.source, guess.back)
            record = self._record(call, guess.back)
            if record != NONE:
                self.recorded[record] = guess.source

    def _record(self, call: int, back: int) -> int:
        """Return the record `back` records before a call; -1 if there are fewer. Rows are sorted by start."""
        index = bisect_left(self._records, call) - back
        return self._records[index] if index >= 0 else NONE

    def _last_before(self, queue: int, call: int) -> int:
        index = bisect_left(self._launched[queue], self._call_start[call]) - 1
        return self._rows[queue][index] if index >= 0 else NONE

    def _first_after(self, queue: int, call: int) -> int:
        index = bisect_left(self._launched[queue], self._call_start[call])
        return self._rows[queue][index] if index < len(self._rows[queue]) else NONE

    def _next_queue(self, call: int) -> int:
        """Return the stream of the first work that is launched after a call."""
        time, following = self._call_start[call], []
        for queue, launched in self._launched.items():
            index = bisect_left(launched, time)
            if index < len(launched):
                following.append((launched[index], queue))
        return min(following)[1] if following else NONE

    def _slack(self, call: int, guess: _Guess) -> int | None:
        """Return how long after the awaited work the waiting stream goes on, in ns."""
        record = self._record(call, guess.back)
        before = self._last_before(guess.source, record) if record != NONE else NONE
        after = self._first_after(guess.target, call) if before != NONE else NONE
        if after == NONE:
            return None
        return self._work_start[after] - self._work_end[before]

    def _order_of_idle_times(self, group: list[int]) -> _Guess | None:
        """Return the record after whose work the stream went on, in most of the steps in which it was idle.

        Collectives are awaited long after their events were recorded: those of all gradient buckets after backward.
        """
        target = self._next_queue(group[0])
        if target == NONE:
            return None
        sample = [call for call in _sample(group) if self._idle_before(target, call)]
        votes: dict[_Guess, int] = defaultdict(int)
        for call in sample:
            for back in range(1, MAX_RECORDS_BACK_OF_IDLE + 1):
                for source in self._sources[target]:
                    guess = _Guess(back, source, target)
                    slack = self._slack(call, guess)
                    if slack is not None and -EVENT_SKEW_NS <= slack <= PROMPT_NS:
                        votes[guess] += 1
        best = max(votes, key=lambda guess: (votes[guess], guess.back), default=None)
        return best if best and votes[best] > len(sample) / 2 else None

    def _idle_before(self, queue: int, call: int) -> bool:
        """Return whether the next work of a stream began long after its launch and after the end of earlier work."""
        after, before = self._first_after(queue, call), self._last_before(queue, call)
        if after == NONE:
            return False
        launch = int(self._trace.links.launch[after])
        issued = self._call_start[launch] if launch != NONE else 0
        free = max(issued, self._work_end[before] if before != NONE else 0)
        return self._work_start[after] - free > LONG_IDLE_NS

    def _order_of_times(self, group: list[int]) -> _Guess | None:
        """Return the latest record whose order the times of most steps allow, and its streams, the best of several."""
        best: tuple[tuple[float, int, float], _Guess] | None = None
        following = self._next_queue(group[0])
        for back in range(1, MAX_RECORDS_BACK + 1):
            for source in self._rows:
                for target in self._sources[source]:
                    guess = _Guess(back, source, target)
                    slacks = [slack for call in _sample(group) if (slack := self._slack(call, guess)) is not None]
                    if not slacks:
                        continue
                    wrong = sum(slack < -EVENT_SKEW_NS for slack in slacks) / len(slacks)
                    rank = (wrong, int(following != target), float(np.median(slacks)))
                    if wrong < 0.5 and (best is None or rank < best[0]):  # noqa: PLR2004  possible in most of the steps
                        best = rank, guess
            if best is not None:
                return best[1]
        return None

    def _awaited(self, group: list[int]) -> _Guess | None:
        """Return the record and the stream whose work ended just before most of the long waits returned.

        If several records follow the same work, the first one is taken: programs record right after the awaited work.
        """
        calls = self._trace.calls
        votes: dict[_Guess, int] = defaultdict(int)
        for call in _sample(group):
            start, end = int(calls.start_ns[call]), int(calls.end_ns[call])
            for back in range(1, MAX_RECORDS_BACK_OF_HOST + 1):
                record = self._record(call, back)
                if record == NONE:
                    break
                for queue in self._rows:
                    if self.recorded.get(record, queue) != queue:
                        continue
                    row = self._last_before(queue, record)
                    ended = self._work_end[row] if row != NONE else 0
                    if start < ended <= end + EVENT_SKEW_NS and end - ended <= WAKE_NS:
                        votes[_Guess(back, queue, NONE)] += 1
        return max(votes, key=lambda guess: (votes[guess], guess.back)) if votes else None
