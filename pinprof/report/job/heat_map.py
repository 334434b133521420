"""The heat map of a job: what each rank's step is spent on."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from pinprof.analyses.idle import IDLE
from pinprof.analyses.syncs.causes import WAITS
from pinprof.ground.hues import VERMILLION, see_through
from pinprof.ground.units import duration, percent
from pinprof.ranks.rank import RankRow, Ranks, TimesPerStep
from pinprof.report.html import Markup, inline_html
from pinprof.report.job.view import PAUSE_TITLE, RANK_TIMES, slowest_of, step_fact

MIN_RANKS_OF_HEAT_MAP = 8
"""For fewer ranks, the table and the timelines show as much as a heat map."""
NEGLIGIBLE_SHARE_OF_STEP = 0.01
"""A cause that takes less than this share of the median step on all ranks has no line."""
MAX_STALL_LINES = 6
"""Causes of stalls with a line of their own: those with the longest time on any rank. The others share a line."""
SCALE_END_PERCENTILE = 98
"""Percentile of a line's ranks at which the colour scale ends, so that one long rank does not hide the others."""
MAX_RANK_TICKS = 8
MAX_FILE_NAME_CHARS = 48
LABEL_PIXELS, CELL_PIXELS, AXIS_PIXELS = 16, 14, 36
"""Heights: of the label and of the cells of a line, and of the ranks' numbers below all lines."""

TIME_BY_TITLE = {time.title: time.of for time in RANK_TIMES}
"""The function that returns a rank's time, by the title of that time in tables."""
SHADES = [see_through(VERMILLION, part / 10) for part in range(11)]
"""Colours of cells, from weak to strong. They follow the square root of the time: short times stay visible next to long
ones."""


class Line(NamedTuple):
    """One cause, and the time of each rank in ns per step; None if it is not known."""

    name: str
    times: tuple[float | None, ...]


def heat_map(ranks: Ranks) -> Markup:
    """Return the heat map of a job as HTML; empty if it has few ranks, or none with a time to show."""
    lines, hidden = drawn_lines(ranks)
    if not lines or len(ranks.rows) < MIN_RANKS_OF_HEAT_MAP:
        return Markup()
    scale_ns, caption, slowest = scale_end_ns(lines), _caption(ranks, hidden), slowest_of(ranks)
    gradient = ",".join(f"{shade} {part * part}%" for part, shade in enumerate(SHADES))
    keys = Markup('<li><span class="swatch scale" style="background:linear-gradient(90deg,{})"></span>{}</li>').format(
        gradient, inline_html(f"0 to {duration(scale_ns)} per step, or more")
    )
    if slowest:
        keys += Markup('<li><span class="swatch slowest"></span>rank {} holds up the others</li>').format(slowest.rank)
    return Markup(
        '<figure class="chart wide"><figcaption>{}</figcaption><ul class="keys">{}</ul>'
        '<div class="canvas" style="min-width:{}px"><svg role="img" aria-label="{}" width="100%" height="{}">{}</svg>'
        "</div></figure>"
    ).format(
        inline_html(caption),
        keys,
        len(ranks.rows),
        caption,
        len(lines) * (LABEL_PIXELS + CELL_PIXELS) + AXIS_PIXELS,
        Markup().join(_pieces(ranks, lines, scale_ns)),
    )


def drawn_lines(ranks: Ranks) -> tuple[list[Line], int]:
    """Return the lines of the heat map, and how many more are negligible."""
    typical_ns = ranks.spread_ns[1] if ranks.spread_ns else 0.0
    lines = list(cause_lines(ranks.rows))
    drawn = [line for line in lines if max(_known(line), default=0.0) > NEGLIGIBLE_SHARE_OF_STEP * typical_ns]
    return drawn, len(lines) - len(drawn)


def scale_end_ns(lines: Sequence[Line]) -> float:
    """Return the time from which on a cell has the strongest colour."""
    usual = max(float(np.percentile(_known(line), SCALE_END_PERCENTILE)) for line in lines)
    return usual or max(max(_known(line)) for line in lines)


def cause_lines(rows: Sequence[RankRow]) -> Iterator[Line]:
    """Yield what the step of each rank is spent on: its own work and waits, idle time, and waits for others."""
    yield _times_of("GPU: own work", rows, _own_work)
    yield from (_times_of(name, rows, TIME_BY_TITLE[name]) for name in ("copies exposed", "input", PAUSE_TITLE))
    yield from _stalls(rows)
    for name, cause in IDLE.items():
        times = (None if row.idle_ns is None else _sum_of(row.idle, name) for row in rows)
        yield Line(f"idle: the GPU {cause.does}", tuple(times))
    yield from (_times_of(name, rows, TIME_BY_TITLE[name]) for name in ("NCCL overlapped", "NCCL exposed"))
    yield _times_of("waited for others", rows, TIME_BY_TITLE["waited"])


def _times_of(name: str, rows: Sequence[RankRow], time_of: Callable[[RankRow], float | None]) -> Line:
    return Line(name, tuple(map(time_of, rows)))


def _own_work(row: RankRow) -> float | None:
    """Return how long the GPU works without exposed collectives, which mostly wait."""
    return None if row.gpu_busy_ns is None else max(row.gpu_busy_ns - row.exposed_communication_ns, 0.0)


def _stalls(rows: Sequence[RankRow]) -> Iterator[Line]:
    longest: dict[str, float] = {}
    for row in rows:
        for cause, time in row.stalls:
            longest[cause] = max(longest.get(cause, 0.0), time)
    causes = sorted(longest, key=lambda cause: -longest[cause])
    drawn, rest = causes[:MAX_STALL_LINES], causes[MAX_STALL_LINES:]
    named = [(WAITS[cause].plain, [cause]) for cause in drawn] + ([("others", rest)] if rest else [])
    for name, causes in named:
        times = (None if row.stall_ns is None else _sum_of(row.stalls, *causes) for row in rows)
        yield Line(f"host waits: {name}", tuple(times))


def _sum_of(times: TimesPerStep, *causes: str) -> float:
    return sum(time for cause, time in times if cause in causes)


def _known(line: Line) -> list[float]:
    return [time for time in line.times if time is not None]


def _pieces(ranks: Ranks, lines: Sequence[Line], scale_ns: float) -> Iterator[Markup]:
    """Yield the cells of the lines, each line below its label, and a column over all with the times of its rank."""
    count, height = len(ranks.rows), len(lines) * (LABEL_PIXELS + CELL_PIXELS)
    label = Markup('<text x="{}" y="{}"{}>{}</text>')
    cells = Markup('<svg class="cells" y="{}" height="{}" width="100%" viewBox="0 0 {} 1" {}>{}</svg>')
    for number, line in enumerate(lines):
        top = number * (LABEL_PIXELS + CELL_PIXELS) + LABEL_PIXELS
        drawn = Markup().join(_cells(line, scale_ns))
        yield label.format(0, top - 4, "", line.name)
        yield cells.format(top, CELL_PIXELS, count, Markup('preserveAspectRatio="none"'), drawn)
    column = Markup(
        '<rect class="rank{}" data-rank="{}" data-file="{}" x="{:.3f}%" width="{:.3f}%" height="{}">{}</rect>'
    )
    for number, row in enumerate(ranks.rows):
        file = PurePath(row.path).name[-MAX_FILE_NAME_CHARS:]
        tooltip = Markup("\n").join((f"rank {row.rank}: {file}", *_in_words(row, number, lines)))
        title, is_slowest = Markup("<title>{}</title>").format(tooltip), row.rank == ranks.slowest_rank
        named = (" slowest" if is_slowest else "", row.rank, file)
        yield column.format(*named, 100 * number / count, 100 / count, height, title)
        if number % -(-count // MAX_RANK_TICKS) == 0:
            at = f"{100 * (number + 0.5) / count:.3f}%"
            yield label.format(at, height + 16, Markup(' text-anchor="middle"'), row.rank)
    yield label.format("50%", height + 32, Markup(' text-anchor="middle"'), "rank")


def _cells(line: Line, scale_ns: float) -> Iterator[Markup]:
    cell = Markup('<rect x="{}" width="{}" height="1" fill="{}"/>')
    shades = [round(10 * math.sqrt(min((time or 0.0) / scale_ns, 1.0))) for time in line.times]
    for shade, members in groupby(range(len(shades)), key=shades.__getitem__):
        columns = list(members)
        if shade:
            yield cell.format(columns[0], len(columns), SHADES[shade])


def _in_words(row: RankRow, number: int, lines: Sequence[Line]) -> Iterator[str]:
    for name, time in (("step", row.step_ns), ("alone", row.alone_ns), *((line[0], line[1][number]) for line in lines)):
        if time is not None:
            yield f"{name}: {duration(time)}"


def _caption(ranks: Ranks, hidden: int) -> str:
    step = "".join(f"Step: {fact.number}, {fact.meaning}. " for fact in step_fact(ranks))
    share = percent(NEGLIGIBLE_SHARE_OF_STEP)
    small = f" Causes that take less than {share} of the step on every rank are not drawn." if hidden else ""
    return (
        f"{step}Each column is a rank, each row one thing that its step is spent on, as traced: the stronger the "
        "colour, the longer. A rank that holds up the others spends more on its own work than they do, and waits less "
        f"for others.{small}"
    )
