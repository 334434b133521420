"""What is to be said about a row of each table, as lines, of which some are HTML."""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from pinprof.analyses.overlap import REASONS
from pinprof.analyses.syncs import CAUSES
from pinprof.analysis import Analysis
from pinprof.measurement.trust.doubt import Doubted
from pinprof.report.elements import bold
from pinprof.report.timeline.names import step_names
from pinprof.report.words import cut, place
from pinprof.trace.callers import user_calls
from pinprof.trace.frames import frame
from pinprof.trace.tables import NONE, HostEvents, Int32s, Trace
from pinprof.units import duration, percent, rate, size

MAX_OPS = 3
"""Ops that are named around a call, the innermost ones."""


@dataclass(frozen=True)
class Facts:
    """A trace and its measurements, and what was looked up in them before."""

    trace: Trace
    analysis: Analysis
    copies: dict[int, int]
    """By row of a copy in `Trace.gpu`: its place in `Profile.overlap`."""
    step_starts: list[int]
    step_names: list[str]
    callers: Int32s
    """Per call: the user's own function around it, as a row of `Trace.functions`."""

    @classmethod
    def of(cls, trace: Trace, analysis: Analysis) -> "Facts":
        """Return the facts of a trace."""
        places = {row: place for place, row in enumerate(analysis.details.overlap.row.tolist())}
        callers = user_calls(trace, np.arange(len(trace.calls))).function
        return cls(trace, analysis, places, trace.steps.start_ns.tolist(), step_names(trace), callers)

    @property
    def withheld(self) -> Doubted:
        """Why figures are not given of this trace."""
        return self.analysis.profile.withheld

    def step_at(self, time: int) -> int:
        """Return the step in which a time lies, -1 if in none."""
        step = bisect_right(self.step_starts, time) - 1
        return step if step >= 0 and time < self.trace.steps.end_ns[step] else NONE

    def caller(self, call: int) -> str:
        """Return the user's own function around a call, empty if there is none."""
        function = int(self.callers[call])
        found = frame(self.trace.functions.name_of(function)) if function != NONE else None
        return f"{found.function} ({found.file})" if found else ""


def step_facts(facts: Facts, row: int) -> list[str]:
    """Return how long a step's range is."""
    steps = facts.trace.steps
    where = "on the host" if steps.on_host else "on the GPU"
    lines = [bold(facts.step_names[row]), f"{duration(steps.end_ns[row] - steps.start_ns[row])} {where}"]
    return lines if steps.complete[row] else [*lines, "cut off: not measured"]


def event_facts(facts: Facts, table: HostEvents, row: int) -> list[str]:
    """Return name, time and length of an op or an annotation."""
    start = int(table.start_ns[row])
    return [
        bold(cut(table.name_of(row))),
        _when(facts, start, facts.step_at(start)),
        f"lasts {duration(table.end_ns[row] - start)}",
    ]


def call_facts(facts: Facts, row: int) -> list[str]:
    """Return what is known of a runtime call."""
    return [*event_facts(facts, facts.trace.calls, row), *_around(facts, row)]


def stall_facts(facts: Facts, row: int) -> list[str]:
    """Return why the host waited, for what, and what that cost."""
    syncs, stalls = facts.analysis.details.syncs, facts.analysis.details.syncs.stalls
    cause = "the profiler's own wait" if stalls.profiler[row] else CAUSES[syncs.cause[row]].replace("_", " ")
    call = int(stalls.call[row])
    start = int(facts.trace.calls.start_ns[call])
    parts = (
        (stalls.drain_ns[row], "for work queued before"),
        (stalls.own_ns[row], "for its own copy"),
        (stalls.overhead_ns[row], "in the call itself"),
    )
    waited = ", ".join(f"{duration(time)} {what}" for time, what in parts if time)
    known = not (facts.withheld.stalls or facts.withheld.drain)
    lines = [
        bold(cause) + f": {cut(facts.trace.calls.name_of(call))}",
        _when(facts, start, facts.step_at(start)),
        f"the host waits {duration(stalls.stall_ns[row])}" + (f": {waited}" if known else ""),
    ]
    if known and stalls.bubble_ns[row]:
        lines.append(f"then the GPU is idle for {duration(stalls.bubble_ns[row])}")
    line = syncs.lines[row]
    if line:
        return [*lines, f"called at {cut(place(line.place))}"]
    return lines + _around(facts, call)


def activity_facts(facts: Facts, row: int) -> list[str]:
    """Return what is known of a kernel, a copy or a memset."""
    trace, gpu = facts.trace, facts.trace.gpu
    start, length = int(gpu.start_ns[row]), int(gpu.end_ns[row] - gpu.start_ns[row])
    lines = [
        bold(cut(gpu.name_of(row))),
        _when(facts, start, int(trace.links.activity_step[row])),
        f"lasts {duration(length)}{_amount(int(gpu.bytes[row]), length)}",
    ]
    if row in facts.copies and not facts.withheld.overlap:
        lines.append(_exposure(facts, facts.copies[row], length))
    lines.append(f"stream {gpu.stream[row]} of GPU {gpu.device[row]}")
    launch = int(trace.links.launch[row])
    if launch == NONE:
        return [*lines, "its launch is not in the trace"]
    earlier = start - int(trace.calls.start_ns[launch])
    lines.append(f"launched {duration(earlier)} earlier by {cut(trace.calls.name_of(launch))}")
    return lines + _around(facts, launch)


def _amount(count: int, length: int) -> str:
    if count == NONE:
        return ""
    return f": {size(count)}" + (f" at {rate(count / length)}" if length else "")


def _exposure(facts: Facts, place: int, length: int) -> str:
    """Return how much of a copy is exposed, and why."""
    overlap = facts.analysis.details.overlap
    exposed = int(overlap.exposed_ns[place])
    if exposed == 0:
        return "overlapped: kernels run beside all of it"
    share = percent(exposed / length) if length else "all"
    reason = "" if facts.withheld.causes else f": {REASONS[overlap.reason[place]].replace('_', ' ')}"
    return f"exposed for {duration(exposed)} ({share}){reason}"


def _when(facts: Facts, time: int, step: int) -> str:
    """Return when something starts; GPU work relative to the step that launched it."""
    if step != NONE:
        return f"starts {duration(time - facts.step_starts[step])} into {facts.step_names[step]}"
    if not facts.step_starts:
        return "outside of the steps"
    since = time - facts.step_starts[0]
    side = "after" if since >= 0 else "before"
    return f"starts {duration(abs(since))} {side} the start of {facts.step_names[0]}"


def _around(facts: Facts, call: int) -> list[str]:
    """Return the ops and the user's function around a call, as far as they are known."""
    links = facts.trace.links
    ops: list[str] = []
    op = int(links.op[call])
    while op != NONE and len(ops) < MAX_OPS:
        ops.append(cut(facts.trace.ops.name_of(op)))
        op = int(links.op_parent[op])
    lines = [f"in {', '.join(reversed(ops))}"] if ops else []
    caller = facts.caller(call)
    return [*lines, f"from {cut(caller)}"] if caller else lines
