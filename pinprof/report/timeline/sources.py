"""What the rectangles of a lane can be, a row each: what the page has of them, and what one says when it is pointed at.

A figure says here what `words.js` says on the page, in the same sentences.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

import numpy as np

from pinprof.analyses.copies import EXPOSED, REASONS
from pinprof.report.elements import Markup, bold
from pinprof.report.timeline.facts import Facts
from pinprof.report.timeline.kinds import BOTH, COPY_ONLY, KINDS
from pinprof.report.timeline.lane import Bar, Column, Columns, Lane, Links, Names, Rising, Source, Values
from pinprof.report.words import cut
from pinprof.trace.tables import NONE, Int64s, Table
from pinprof.units import duration, how_many, percent, rate, size

COPY_PARTS = {COPY_ONLY: "exposed", BOTH: "overlapped"}
ON_GPU = "on the GPU: from the end of the step before (of the first: from its first work) to the end of its work"
"""What a step on the GPU is, in the words of `StepParts`."""
SENTENCES: dict[str, list[list[str]]] = json.loads(files(__package__).joinpath("sentences.json").read_text("utf-8"))
"""Lines, each with its alternatives: `{bytes:size}` is the value `bytes` as `size` of `units.py` writes it."""
FORMATS: dict[str, Callable[[Any], str]] = {one.__name__: one for one in (duration, how_many, percent, rate, size, str)}
VALUE = re.compile(r"\{(\w+)(?::(\w+))?\}")


def sentences(lines: list[list[str]], values: Values) -> Iterator[str]:
    """Yield of each line the first alternative all of whose values are known, if there is one."""
    for alternatives in lines:
        for text in alternatives:
            if all(values.get(name) is not None for name, _ in VALUE.findall(text)):
                yield VALUE.sub(lambda match: FORMATS[match[2] or "str"](values[match[1]]), text)
                break


def _named(table: Table, rows: Int64s) -> Names:
    return Names(table.names, table.name[rows])


def columns_of_events(facts: Facts, lane: Lane) -> Columns:
    """Return the names of events of a thread, and what is around calls."""
    around = {"around": facts.around.call[lane.row]} if lane.source.table == "calls" else {}
    return {"name": _named(getattr(facts.trace, lane.source.table), lane.row), **around}


def columns_of_stalls(facts: Facts, lane: Lane) -> Columns:
    """Return the calls of stalls, what is around them, and what the host waits for unless that is withheld."""
    stalls, rows, why = facts.analysis.details.syncs.stalls, lane.row, facts.analysis.profile.withheld
    columns: Columns = {"name": _named(facts.trace.calls, stalls.call[rows]), "around": facts.around.stall[rows]}
    if why.stalls or why.drain:
        return columns
    columns["awaited"] = Links("gpu", facts.awaited(rows))
    return {**columns, "drain": stalls.drain_ns[rows], "own": stalls.own_ns[rows], "bubble": stalls.bubble_ns[rows]}


def columns_of_work(facts: Facts, lane: Lane) -> Columns:
    """Return names, launches, steps, sizes and surroundings of GPU work, and of copies the exposed time and why.

    Steps, sizes, times and reasons are one more than they are; 0 is none.
    """
    gpu, links, rows, why = facts.trace.gpu, facts.trace.links, lane.row, facts.analysis.profile.withheld
    columns: Columns = {
        "name": _named(gpu, rows),
        "launch": Links("calls", links.launch[rows]),
        "step": links.activity_step[rows] + 1,
        "bytes": gpu.bytes[rows] + 1,
        "around": facts.around.activity[rows],
    }
    if why.overlap:
        return columns
    exposed, reason = np.zeros(len(gpu), np.int64), np.zeros(len(gpu), np.int64)
    overlap = facts.analysis.details.overlap
    exposed[overlap.row] = overlap.exposed_ns + 1
    reason[overlap.row] = 0 if why.causes else overlap.reason + 1
    return {**columns, "exposed": exposed[rows], "reason": reason[rows]}


def of_step(facts: Facts, bar: Bar) -> Values:
    """Return how long a step takes on the host, and why it is not measured if it is not."""
    steps, row = facts.trace.steps, bar.row
    return {
        "name": facts.steps[row],
        "range": steps.end_ns[row] - steps.start_ns[row],
        "where": "on the host" if steps.on_host else "on the GPU",
        "unlike": "" if steps.unlike is not None and steps.unlike[row] else None,
        "incomplete": None if steps.complete[row] else "",
    }


def of_gpu_step(facts: Facts, bar: Bar) -> Values:
    """Return how long a step takes the GPU."""
    return {
        "name": facts.steps[bar.row],
        "range": None if bar.is_block else bar.end_ns - bar.start_ns,
        "where": ON_GPU,
    }


def of_band(_: Facts, bar: Bar) -> Values:
    """Return how long a part of a step lasts, of single ones."""
    return {} if bar.is_block else {"name": KINDS[bar.kind].label, "length": bar.end_ns - bar.start_ns}


def of_event(facts: Facts, bar: Bar) -> Values:
    """Return when an event starts, on the host, and how long it lasts."""
    start, end = bar.start_ns, bar.end_ns
    if bar.lane.source.table:
        table: Table = getattr(facts.trace, bar.lane.source.table)
        start, end = int(table.start_ns[bar.row]), int(table.end_ns[bar.row])
    return {
        "name": bar.column["name"],
        "around": bar.column.get("around", 0),
        **_from(facts, start),
        "length": end - start,
    }


def of_stall(facts: Facts, bar: Bar) -> Values:
    """Return how long the host waits, for what, and how long the GPU is idle after it."""
    column, calls = bar.column, facts.trace.calls
    call = facts.analysis.details.syncs.stalls.call[bar.row]
    start, stall = int(calls.start_ns[call]), calls.end_ns[call] - calls.start_ns[call]
    name = f"{KINDS[bar.kind].label}: {column['name']}"
    values = {"name": name, "around": column["around"], **_from(facts, start), "stall": stall}
    if "drain" not in column:
        return values
    drain, own = column["drain"], column["own"]
    parts = {"drain": drain, "own": own, "rest": stall - drain - own}
    waited = ", ".join(sentences(SENTENCES["waited"], {name: time for name, time in parts.items() if time}))
    return {**values, "waited": waited, "bubble": column["bubble"] or None}


def of_work(facts: Facts, bar: Bar) -> Values:
    """Return all that is known of GPU work: size and rate, what hides it, its stream and its launch."""
    gpu, column, row = facts.trace.gpu, bar.column, bar.row
    start, length, count = int(gpu.start_ns[row]), int(gpu.end_ns[row] - gpu.start_ns[row]), column["bytes"] - 1
    shown_ns = bar.end_ns - bar.start_ns
    is_part = not bar.is_block and bar.kind in COPY_PARTS and shown_ns < length
    return {
        "name": column["name"],
        **_when(facts, start, column["step"] - 1),
        "length": length,
        "bytes": None if count == NONE else count,
        "gbps": count / length if length else None,
        **({"part": COPY_PARTS[bar.kind], "part_length": shown_ns} if is_part else {}),
        **_exposure(column.get("exposed", 0) - 1, column.get("reason", 0) - 1, length),
        "stream": f"stream {gpu.stream[row]}",
        **_launched(facts, bar, start),
    }


def _from(facts: Facts, time: int) -> Values:
    """Return when something starts on the host."""
    step = bisect_right(facts.starts_ns, time) - 1
    inside = step >= 0 and time < facts.trace.steps.end_ns[step]
    return _when(facts, time, step if inside else NONE)


def _when(facts: Facts, time: int, step: int) -> Values:
    """Return when something starts; GPU work relative to the step that launched it."""
    if not facts.steps:
        return {"time": time - facts.zero_ns}
    if step != NONE:
        return {"into": time - facts.starts_ns[step], "step": facts.steps[step]}
    nearest = max(bisect_right(facts.starts_ns, time) - 1, 0)
    since = time - facts.starts_ns[nearest]
    return {"after" if since >= 0 else "before": abs(since), "nearest": facts.steps[nearest]}


def _exposure(exposed: int, reason: int, length: int) -> Values:
    if exposed <= 0:
        return {"overlapped": ""} if exposed == 0 else {}
    why = None if reason == NONE else EXPOSED[REASONS[reason]].label
    return {"exposed": exposed, "share": exposed / length, "reason": why}


def _launched(facts: Facts, bar: Bar, start: int) -> Values:
    """Return what launched GPU work, and what is around that, unless the line that asked for the work is known."""
    calls, launch, around = facts.trace.calls, bar.column["launch"], bar.column["around"]
    if launch == NONE:
        return {"unlaunched": "", "around": around}
    earlier, launcher = start - calls.start_ns[launch], cut(calls.name_of(launch))
    return {"earlier": earlier, "launcher": launcher, "around": around or facts.around.call[launch]}


STEPS = Source("steps", lambda _, lane: {"step": lane.row}, of_step)
GPU_STEPS = Source("gpu_steps", lambda _, lane: {"step": lane.row}, of_gpu_step)
CHANGES = Source("changes", lambda _, lane: {"name": Names(lane.names, lane.row)}, of_event)
STALLS = Source("stalls", columns_of_stalls, of_stall)
ANNOTATIONS = Source("annotations", columns_of_events, of_event, "annotations", is_nested=True)
OPS = Source("ops", columns_of_events, of_event, "ops", is_nested=True)
CALLS = Source("calls", columns_of_events, of_event, "calls", is_nested=True)
FRAMES = Source("frames", columns_of_events, of_event, "functions", is_nested=True)
BAND = Source("overlap", lambda *_: {}, of_band)
WORK = Source("gpu", columns_of_work, of_work, "gpu")


def hover_texts(facts: Facts, lanes: tuple[Lane, ...]) -> list[list[Markup]]:
    """Return the texts of the rectangles of each lane."""
    return [list(_texts(facts, lane)) for lane in lanes]


def _texts(facts: Facts, lane: Lane) -> Iterator[Markup]:
    columns = {name: _decoded(column) for name, column in lane.source.columns(facts, lane).items()}
    times = (lane.row, lane.kind, lane.start_ns, lane.end_ns, lane.count, lane.busy_ns)
    for at, (row, kind, start, end, events, busy) in enumerate(zip(*(time.tolist() for time in times), strict=True)):
        bar = Bar(lane, row, kind, start, end, events > 1, {name: column[at] for name, column in columns.items()})
        values = {**lane.source.values(facts, bar), "group": lane.group}
        if bar.is_block:
            block = {"events": events, "most": KINDS[kind].label, "busy": busy, "span": end - start}
            values |= {**block, "longest": values.get("name")}
        lines = [*sentences(SENTENCES["lines"], values), *facts.around.lines[values.get("around", 0)]]
        yield Markup("<br>").join((bold(lines[0]), *lines[1:]))


def _decoded(column: Column) -> list[Any]:
    if isinstance(column, Names):
        texts = {code: cut(column.names[code]) for code in set(column.codes.tolist())}
        return [texts[code] for code in column.codes.tolist()]
    return (column[-1] if isinstance(column, Links | Rising) else column).tolist()
