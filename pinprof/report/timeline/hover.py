"""What one reads when hovering over a bar of the figure: the sentences that `words.js` says on the page."""

import json
import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

from pinprof.report.elements import Markup, bold
from pinprof.report.timeline.facts import Facts
from pinprof.report.timeline.kinds import KINDS
from pinprof.report.timeline.lane import Bar, Column, Lane, Links, Names, Rising, Values
from pinprof.report.words import cut
from pinprof.units import duration, how_many, percent, rate, size

SENTENCES: dict[str, list[list[str]]] = json.loads(files(__package__).joinpath("sentences.json").read_text("utf-8"))
"""Lines, each with its alternatives: `{bytes:size}` is the value `bytes` as `size` of `units.py` writes it."""
FORMATS: dict[str, Callable[[Any], str]] = {one.__name__: one for one in (duration, how_many, percent, rate, size, str)}
VALUE = re.compile(r"\{(\w+)(?::(\w+))?\}")


def said(lines: list[list[str]], values: Values) -> Iterator[str]:
    """Yield of each line the first alternative all of whose values are known, if there is one."""
    for alternatives in lines:
        for text in alternatives:
            if all(values.get(name) is not None for name, _ in VALUE.findall(text)):
                yield VALUE.sub(lambda found: FORMATS[found[2] or "str"](values[found[1]]), text)
                break


def in_words(facts: Facts, lanes: tuple[Lane, ...]) -> list[list[Markup]]:
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
        lines = [*said(SENTENCES["lines"], values), *facts.around.lines[values.get("around", 0)]]
        yield Markup("<br>").join((bold(lines[0]), *lines[1:]))


def _decoded(column: Column) -> list[Any]:
    if isinstance(column, Names):
        texts = {code: cut(column.names[code]) for code in set(column.codes.tolist())}
        return [texts[code] for code in column.codes.tolist()]
    return (column[-1] if isinstance(column, Links | Rising) else column).tolist()
