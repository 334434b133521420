"""What one reads when hovering over a bar of the figure: the sentences that `words.js` says on the page."""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeAlias

from pinprof.analyses.overlap import EXPOSED, REASONS
from pinprof.analysis import Analysis
from pinprof.report.elements import Markup, bold
from pinprof.report.timeline.calls import Surroundings
from pinprof.report.timeline.kinds import BOTH, COPY_ONLY, KINDS, PROFILER, STALL
from pinprof.report.timeline.lane import SOURCES, Lane
from pinprof.report.timeline.names import step_names
from pinprof.report.timeline.window import choose_window
from pinprof.report.words import cut
from pinprof.trace.tables import NONE, WHOLE_TRACE, HostEvents, Trace
from pinprof.units import duration, how_many, percent, rate, size

SENTENCES: dict[str, list[list[str]]] = json.loads(files(__package__).joinpath("sentences.json").read_text("utf-8"))
"""Lines, each with its alternatives: `{bytes:size}` is the value `bytes` as `size` of `units.py` writes it."""
FORMATS: dict[str, Callable[[Any], str]] = {one.__name__: one for one in (duration, how_many, percent, rate, size, str)}
VALUE = re.compile(r"\{(\w+)(?::(\w+))?\}")
Values: TypeAlias = Mapping[str, Any]
"""What is known of a bar, by the names in the sentences; None is not known, "" is known and not shown.

`around` is the place in `Surroundings.lines` of what is said of the call.
"""

COPY_PARTS = {COPY_ONLY: "exposed", BOTH: "overlapped"}
ON_GPU = "on the GPU: from the end of the step before (of the first: from its first work) to the end of its work"
"""What a step on the GPU is, in the words of `StepParts`."""


def said(lines: list[list[str]], values: Values) -> Iterator[str]:
    """Yield of each line the first alternative all of whose values are known, if there is one."""
    for alternatives in lines:
        for text in alternatives:
            if all(values.get(name) is not None for name, _ in VALUE.findall(text)):
                yield VALUE.sub(lambda found: FORMATS[found[2] or "str"](values[found[1]]), text)
                break


def in_words(trace: Trace, analysis: Analysis, lanes: tuple[Lane, ...]) -> list[list[Markup]]:
    """Return the texts of the rectangles of each lane."""
    facts = Facts.of(trace, analysis)
    return [list(_texts(facts, lane)) for lane in lanes]


@dataclass(frozen=True)
class Facts:
    """A trace and its measurements, and what was looked up in them before."""

    trace: Trace
    analysis: Analysis
    around: Surroundings
    copies: dict[int, int]
    """By row of a copy in `Trace.gpu`: its place in `Details.overlap`."""
    zero_ns: int
    """When a trace without steps begins."""
    starts: list[int]
    names: list[str]
    """Of the steps that the trace marks."""

    @classmethod
    def of(cls, trace: Trace, analysis: Analysis) -> "Facts":
        """Return the facts of a trace."""
        copies = {row: place for place, row in enumerate(analysis.details.overlap.row.tolist())}
        names = [] if trace.steps.source == WHOLE_TRACE else step_names(trace)
        zero_ns, starts = choose_window(trace).start_ns, trace.steps.start_ns.tolist()
        return cls(trace, analysis, Surroundings.of(trace, analysis), copies, zero_ns, starts, names)


def _texts(facts: Facts, lane: Lane) -> Iterator[Markup]:
    describe = _description(lane.source)
    columns = (lane.start_ns, lane.end_ns, lane.kind, lane.row, lane.count, lane.busy_ns)
    for start, end, code, row, events, busy in zip(*(column.tolist() for column in columns), strict=True):
        kind = KINDS[code].label
        block = {"events": events, "most": kind, "busy": busy, "span": end - start} if events > 1 else {}
        values: Values = block or {"name": kind, "length": busy}
        if describe:
            own = describe(facts, row)
            drawn = {} if block else _of_bar(lane.source, code, end - start, own)
            values = {**block, **own, **drawn, "group": lane.group, "longest": own["name"] if block else None}
        lines = [*said(SENTENCES["lines"], values), *facts.around.lines[values.get("around", 0)]]
        yield Markup("<br>").join((bold(lines[0]), *lines[1:]))


def _of_step(facts: Facts, row: int) -> Values:
    steps = facts.trace.steps
    return {
        "name": facts.names[row],
        "range": steps.end_ns[row] - steps.start_ns[row],
        "where": "on the host" if steps.on_host else "on the GPU",
        "unlike": "" if steps.unlike is not None and steps.unlike[row] else None,
        "incomplete": None if steps.complete[row] else "",
    }


def _of_gpu_step(facts: Facts, row: int) -> Values:
    return {"name": facts.names[row], "where": ON_GPU}


def _of_event(facts: Facts, table: HostEvents, row: int) -> Values:
    start = int(table.start_ns[row])
    step = bisect_right(facts.starts, start) - 1
    inside = step >= 0 and start < facts.trace.steps.end_ns[step]
    return {
        "name": cut(table.name_of(row)),
        **_when(facts, start, step if inside else NONE),
        "length": table.end_ns[row] - start,
    }


def _of_stall(facts: Facts, row: int) -> Values:
    trace, syncs, why = facts.trace, facts.analysis.details.syncs, facts.analysis.profile.withheld
    stalls = syncs.stalls
    event = _of_event(facts, trace.calls, int(stalls.call[row]))
    kind = KINDS[PROFILER if stalls.profiler[row] else STALL + syncs.cause[row]].label
    told = {"name": f"{kind}: {event['name']}", "length": None, "stall": event["length"]}
    values = {**event, **told, "around": facts.around.stall[row]}
    if why.stalls or why.drain:
        return values
    parts = {"drain": stalls.drain_ns[row], "own": stalls.own_ns[row], "rest": stalls.overhead_ns[row]}
    waited = ", ".join(said(SENTENCES["waited"], {name: time for name, time in parts.items() if time}))
    return {**values, "waited": waited, "bubble": stalls.bubble_ns[row] or None}


def _of_activity(facts: Facts, row: int) -> Values:
    gpu, links = facts.trace.gpu, facts.trace.links
    start, length, count = int(gpu.start_ns[row]), int(gpu.end_ns[row] - gpu.start_ns[row]), int(gpu.bytes[row])
    return {
        "name": cut(gpu.name_of(row)),
        **_when(facts, start, int(links.activity_step[row])),
        "length": length,
        "bytes": None if count == NONE else count,
        "gbps": count / length if length else None,
        **_exposure(facts, row, length),
        "stream": f"stream {gpu.stream[row]}",
        **_launched(facts, row, start),
    }


DESCRIBED: dict[str, Callable[[Facts, int], Values]] = {
    "steps": _of_step,
    "gpu_steps": _of_gpu_step,
    "stalls": _of_stall,
    "calls": lambda facts, row: {**_of_event(facts, facts.trace.calls, row), "around": facts.around.call[row]},
    "gpu": _of_activity,
}
"""What is known of the rows of a source, if it is not just what any event of a table has."""


def _description(source: str) -> Callable[[Facts, int], Values] | None:
    """Return what says what is known of the rows of a source; None where only their times are."""
    table = SOURCES[source].table
    of_table = (lambda facts, row: _of_event(facts, getattr(facts.trace, table), row)) if table else None
    return DESCRIBED.get(source, of_table)


def _when(facts: Facts, time: int, step: int) -> Values:
    """Return when something starts; GPU work relative to the step that launched it."""
    if not facts.names:
        return {"time": time - facts.zero_ns}
    if step != NONE:
        return {"into": time - facts.starts[step], "step": facts.names[step]}
    nearest = max(bisect_right(facts.starts, time) - 1, 0)
    since = time - facts.starts[nearest]
    return {"after" if since >= 0 else "before": abs(since), "nearest": facts.names[nearest]}


def _exposure(facts: Facts, row: int, length: int) -> Values:
    overlap, why = facts.analysis.details.overlap, facts.analysis.profile.withheld
    if row not in facts.copies or why.overlap:
        return {}
    place = facts.copies[row]
    exposed = int(overlap.exposed_ns[place])
    if exposed == 0:
        return {"overlapped": ""}
    reason = None if why.causes else EXPOSED[REASONS[overlap.reason[place]]].label
    return {"exposed": exposed, "share": exposed / length, "reason": reason}


def _of_bar(source: str, code: int, length: int, own: Values) -> Values:
    """Return what the bar itself shows: how long a step takes the GPU, or a part of a copy if it is not all of it."""
    if source == "gpu_steps":
        return {"range": length}
    if code in COPY_PARTS and length < own["length"]:
        return {"part": COPY_PARTS[code], "part_length": length}
    return {}


def _launched(facts: Facts, row: int, start: int) -> Values:
    """Return what launched GPU work, and what is around that, unless the line that asked for the work is known."""
    calls, launch, around = facts.trace.calls, facts.trace.links.launch[row], facts.around.activity[row]
    if launch == NONE:
        return {"unlaunched": "", "around": around}
    earlier = start - calls.start_ns[launch]
    return {"earlier": earlier, "launcher": cut(calls.name_of(launch)), "around": around or facts.around.call[launch]}
