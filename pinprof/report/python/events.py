"""The events of a trace as a pandas DataFrame: one row each, with its step, and the op and the line that made it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pinprof.analyses.copies import REASONS
from pinprof.details import Details
from pinprof.ground.units import NS_PER_MS
from pinprof.report.python.dataframes import ROWS_PER_TRACE
from pinprof.trace.callers import UserCalls, function_around, outermost_op, places_of, user_calls, users_of
from pinprof.trace.collectives import collectives_of
from pinprof.trace.lines import Place
from pinprof.trace.links import follow, step_at
from pinprof.trace.spans.step_names import numbers_of_steps
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES, MEMCPY, NONE, HostEvents, Int32s, Int64s, Table, Trace

PLACE_COLUMNS = ("op", "file", "line", "function")
HOST_COLUMNS = ("name", "start_ms", "duration_ms", "thread", "step", *PLACE_COLUMNS)
GPU_COLUMNS = ("name", "start_ms", "duration_ms", "device", "stream", "thread", "step", *PLACE_COLUMNS)
COPY_COLUMNS = ("direction", "host_memory", "bytes", "exposed_ms", "reason")
CALL_KIND, OP_KIND = "call", "op"
KINDS_OF_GPU_WORK = ("kernel", "copy", "memset")
COLUMNS: Mapping[str, Sequence[str]] = {"kernel": GPU_COLUMNS, "copy": (*GPU_COLUMNS, *COPY_COLUMNS)}
"""The columns of each kind; those of calls and ops are HOST_COLUMNS."""


class EventTable(pd.DataFrame):
    """Events of all kinds; what is chosen from it is a plain DataFrame."""

    @property
    def kernels(self) -> pd.DataFrame:
        """The kernels."""
        return self._of("kernel")

    @property
    def copies(self) -> pd.DataFrame:
        """The copies; `exposed_ms` is the part of each that no kernel hides, and `reason` says why."""
        return self._of("copy")

    @property
    def calls(self) -> pd.DataFrame:
        """The calls of the GPU's runtime and driver."""
        return self._of(CALL_KIND)

    @property
    def ops(self) -> pd.DataFrame:
        """The ops of torch; `op` is the one around each."""
        return self._of(OP_KIND)

    def _of(self, kind: str) -> pd.DataFrame:
        return self.loc[self["kind"] == kind, list(COLUMNS.get(kind, HOST_COLUMNS))]


def events_of(details: Details, *, knows_exposed: bool) -> EventTable:
    """Return the work of the GPUs, the calls of their runtime, and the ops, sorted by their starts.

    `knows_exposed` says whether the trace shows which copies are exposed.
    """
    trace, gpu, links = details.trace, details.trace.gpu, details.trace.links
    places = _Places(details)
    threads = np.array([thread.name or thread.role for thread in trace.threads], object)

    def on_host(kind: str, events: HostEvents, step: Int32s, op: Int32s, place: Int32s) -> pd.DataFrame:
        columns = {
            "kind": kind,
            **_times(trace, events),
            "thread": threads[events.thread],
            "step": _numbered(trace, step),
        }
        return pd.DataFrame(columns | places.of(op, place))

    on_gpu = pd.DataFrame(
        {
            "kind": np.array(KINDS_OF_GPU_WORK, object)[gpu.category],
            **_times(trace, gpu),
            "device": _integers(gpu.device),
            "stream": _integers(gpu.stream),
            "thread": _texts(threads, follow(trace.calls.thread, links.launch)),
            "step": _numbered(trace, links.activity_step),
            **places.of(follow(links.op, links.launch), places.of_call[links.launch]),
            **_copies(details, knows_exposed=knows_exposed),
        }
    )
    calls = on_host(CALL_KIND, trace.calls, links.call_step, links.op, places.of_call[:-1])
    of_op = step_at(trace.steps, trace.ops.start_ns)
    ops = on_host(OP_KIND, trace.ops, of_op, links.op_parent, places.of_op[:-1])
    table = EventTable(pd.concat([on_gpu, calls, ops]).sort_values("start_ms", kind="stable", ignore_index=True))
    table.attrs["per"] = ROWS_PER_TRACE
    return table


def collectives(details: Details) -> pd.DataFrame:
    """Return a row for each collective in the complete steps, in order of launch, without sends and receives."""
    trace = details.trace
    found = collectives_of(trace, range(len(trace.steps)))
    frame = pd.DataFrame(
        {
            "name": found.name,
            "group": found.group,
            **{name: times[found.row] for name, times in _times(trace, trace.gpu).items() if name != "name"},
            "device": trace.gpu.device[found.row],
            "stream": trace.gpu.stream[found.row],
            "step": _numbered(trace, trace.links.activity_step[found.row]),
            "bytes": _integers(found.bytes),
        }
    )
    frame.attrs["per"] = ROWS_PER_TRACE
    return frame


class _Places:
    """The lines that made calls and ops: as recorded for waits, else by the Python stack, else by the outermost op."""

    def __init__(self, details: Details) -> None:
        self._trace = trace = details.trace
        self._details = details
        self._numbers: dict[Place, int] = {Place(): 0}
        calls, ops = np.arange(len(trace.calls)), np.arange(len(trace.ops))
        of_call = self._by_stack(user_calls(trace, calls))
        of_op = self._by_stack(users_of(trace, function_around(trace, ops)))
        for call, line in zip(details.syncs.stalls.call.tolist(), details.syncs.lines, strict=True):
            if line is not None:
                of_call[call] = self._number(line.place)
        known = {place.op: self._number(place.place) for place in trace.info.op_places}
        launching = np.flatnonzero(trace.launches_work)
        outermost = outermost_op(trace, launching)
        by_op = np.append(np.zeros(len(trace.ops), np.int32), np.int32(0))  # the last one is of no op
        by_op[outermost] = [known.get(trace.ops.name_of(op), 0) if op != NONE else 0 for op in outermost.tolist()]
        by_op[-1] = 0
        of_call[launching] = np.where(of_call[launching], of_call[launching], by_op[outermost])
        self.of_call, self.of_op = np.append(of_call, np.int32(0)), np.append(np.where(of_op, of_op, by_op[:-1]), 0)
        self._places = list(self._numbers)

    def _number(self, place: Place) -> int:
        return self._numbers.setdefault(place, len(self._numbers))

    def _by_stack(self, users: UserCalls) -> Int32s:
        places, which = places_of(self._trace, users, self._details.sources)
        return np.array([self._number(line.place) if line else 0 for line in places], np.int32)[which]

    def of(self, op: Int32s, place: Int32s) -> dict[str, object]:
        """Return the columns of PLACED for rows of these ops and numbers of places."""
        ops = self._trace.ops
        files, _, functions = (np.array(column, object) for column in zip(*self._places, strict=True))
        lines = np.array([NONE if line is None else line for _, line, _ in self._places])
        return {
            "op": _texts(ops.names, follow(ops.name, op)),
            "file": files[place],
            "line": _integers(lines[place]),
            "function": functions[place],
        }


def _copies(details: Details, *, knows_exposed: bool) -> dict[str, object]:
    gpu, overlap = details.trace.gpu, details.overlap
    exposed_ms = np.full(len(gpu), np.nan)
    reason = np.full(len(gpu), NONE)
    if knows_exposed:
        exposed_ms[overlap.row] = overlap.exposed_ns / NS_PER_MS
        reason[overlap.row] = np.where(overlap.exposed_ns > 0, overlap.reason, NONE)
    return {
        "direction": _texts(DIRECTIONS, gpu.direction),
        "host_memory": _texts(HOST_MEMORIES, gpu.host_memory),
        "bytes": _integers(np.where(gpu.category == MEMCPY, gpu.bytes, NONE)),
        "exposed_ms": exposed_ms,
        "reason": _texts(REASONS, reason),
    }


def _times(trace: Trace, table: Table) -> dict[str, Any]:
    start_ns = trace.steps.start_ns[0] if len(trace.steps) else 0
    return {
        "name": np.array(table.names, object)[table.name],
        "start_ms": (table.start_ns - start_ns) / NS_PER_MS,
        "duration_ms": table.duration_ns / NS_PER_MS,
    }


def _texts(texts: Sequence[str] | np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the text of each code, None for -1."""
    return np.array([*texts, None], object)[codes]


def _integers(values: Int32s | Int64s) -> pd.arrays.IntegerArray:
    """Return integers in which -1 is missing."""
    return pd.arrays.IntegerArray(values.astype(np.int64), values == NONE)


def _numbered(trace: Trace, step: Int32s) -> pd.arrays.IntegerArray:
    return pd.arrays.IntegerArray(np.append(numbers_of_steps(trace), NONE)[step], step == NONE)
