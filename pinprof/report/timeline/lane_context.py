"""What the lanes of a trace share: names of steps, the surroundings of calls, and the work that stalls await."""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from pinprof.analyses.syncs.stalls import Stalls
from pinprof.analysis import Analysis
from pinprof.ground.intervals import numbered
from pinprof.ground.units import size
from pinprof.report.timeline.steps import step_names
from pinprof.report.words import cut, place
from pinprof.trace.callers import module_around, module_name, user_calls
from pinprof.trace.collectives import message_sizes
from pinprof.trace.frames import frame
from pinprof.trace.lines import Place, SourceLine
from pinprof.trace.links import follow
from pinprof.trace.tables import NONE, WHOLE_TRACE, Activities, Int32s, Int64s, Trace

MAX_OPS_AROUND = 3
MAX_PLACE_TEXT_CHARS = 200
"""Characters of a file with its line and function; the end matters most, and stays."""


@dataclass(frozen=True)
class LaneContext:
    """A trace and its measurements, with facts that are looked up when first needed."""

    analysis: Analysis

    @property
    def trace(self) -> Trace:
        """The trace."""
        return self.analysis.trace

    @cached_property
    def steps(self) -> list[str]:
        """Names of the steps that the trace marks."""
        return [] if self.trace.steps.source == WHOLE_TRACE else step_names(self.trace)

    @cached_property
    def around(self) -> "Surroundings":
        """The surroundings of calls, stalls and GPU work."""
        return Surroundings.of(self.analysis)


@dataclass(frozen=True)
class Surroundings:
    """Lists of lines of plain text, and per row of a table the index of its list; 0 is an empty list."""

    lines: list[list[str]]
    call: Int64s
    stall: Int64s
    activity: Int64s

    @classmethod
    def of(cls, analysis: Analysis) -> "Surroundings":
        """Return the surroundings of all calls of a trace, of its stalls and of its GPU activities."""
        trace = analysis.trace
        codes: dict[tuple[str, ...], int] = {(): 0}

        def code(*lines: str) -> int:
            return codes.setdefault(tuple(filter(None, lines)), len(codes))

        ops, functions = _ops(trace), user_calls(trace, np.arange(len(trace.calls))).function
        modules = follow(trace.functions.name, module_around(trace, trace.links.function))
        columns = (*ops, follow(trace.functions.name, functions), modules)
        first, which = numbered(*columns)
        texts = [_texts(trace, row) for row in np.stack(columns)[:, first].T.tolist()]
        call, kinds = np.array([code(*lines) for lines in texts], np.int64)[which], which.tolist()

        @cache
        def at_place(kind: int, line: Place, library: Place | None) -> int:
            at = cut(place(line), MAX_PLACE_TEXT_CHARS)
            inside = f"within {cut(place(library), MAX_PLACE_TEXT_CHARS)}" if library else ""
            op, _, module = texts[kind]
            return code(op, module, f"called at {at}", inside)

        def placed(row: int, line: SourceLine | None, library: Place | None = None) -> int:
            return at_place(kinds[row], line.place, library) if line else int(call[row])

        syncs, overlap = analysis.details.syncs, analysis.details.overlap
        libraries = (syncs.sites[number].library for number in syncs.site.tolist())
        stalled = zip(syncs.stalls.call.tolist(), syncs.lines, libraries, strict=True)
        stall = np.array([placed(*wait) for wait in stalled])
        activity, launch = np.zeros(len(trace.gpu), np.int64), trace.links.launch
        for row, line in zip(overlap.row.tolist(), analysis.details.copy_places, strict=True):
            if line and line.line is not None and launch[row] != NONE:
                activity[row] = placed(int(launch[row]), line)
        for row in np.flatnonzero(trace.gpu.collective != NONE).tolist():
            around = texts[which[launch[row]]] if launch[row] != NONE else ()
            activity[row] = code(*around, _collective(trace.gpu, row))
        return cls(list(map(list, codes)), call, stall, activity)


def _ops(trace: Trace) -> list[Int32s]:
    """Return the names of the ops around each call, the outermost first, -1 for none."""
    op, names = trace.links.op, []
    for _ in range(MAX_OPS_AROUND):
        names.append(follow(trace.ops.name, op))
        op = follow(trace.links.op_parent, op)
    return names[::-1]


def _texts(trace: Trace, names: list[int]) -> tuple[str, str, str]:
    """Return the texts on ops, on the user's function and on the module with these names; empty for those absent."""
    *ops, function, module = names
    chain = ", ".join(cut(trace.ops.names[op]) for op in ops if op != NONE)
    caller = frame(trace.functions.names[function]) if function != NONE else None
    return (
        f"in {chain}" if chain else "",
        f"from {cut(f'{caller.function} ({caller.file})', MAX_PLACE_TEXT_CHARS)}" if caller else "",
        f"in module {module_name(trace.functions.names[module])}" if module != NONE else "",
    )


def _collective(gpu: Activities, row: int) -> str:
    name, message, group = (
        gpu.names[code] if code != NONE else "" for code in (gpu.collective[row], gpu.message[row], gpu.group[row])
    )
    sent, _ = message_sizes(name, message)
    return f"{name}{f' of {size(sent)}' if sent != NONE else ''}{f', ranks {group}' if group else ''}"


def awaited_rows(trace: Trace, stalls: Stalls, rows: Int64s) -> Int64s:
    """Return per row of `stalls` the row of `Trace.gpu` whose end the host waited for, -1 for none.

    That is the call's own copy, if it ended last, else the first of the device's activities that ended then.
    """
    gpu = trace.gpu
    copy, device, end = stalls.copy[rows].astype(np.int64), stalls.device[rows], stalls.awaited_end_ns[rows]
    last = np.full(len(rows), NONE, np.int64)
    if len(gpu) == 0:
        return last
    for number, of_device in gpu.of_device.items():
        order = of_device[np.argsort(gpu.end_ns[of_device], kind="stable")]
        waits = np.flatnonzero(device == number)
        later = np.searchsorted(gpu.end_ns[order], end[waits])
        inside = later < len(order)
        ends_then = inside & (gpu.end_ns[order[np.where(inside, later, 0)]] == end[waits])
        last[waits[ends_then]] = order[later[ends_then]]
    own = (copy != NONE) & (gpu.end_ns[copy] == end)
    return np.where(stalls.own_ns[rows] + stalls.drain_ns[rows] > 0, np.where(own, copy, last), NONE)
