"""The heat map of a job: what each rank's step is spent on."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import PurePath

import numpy as np

from pinprof.ground.hues import VERMILLION, see_through
from pinprof.ground.units import duration
from pinprof.ranks.rank import Ranks
from pinprof.report.html import Markup, inline_html
from pinprof.report.job.view import RANK_TIMES, slowest_of, step_fact

MIN_RANKS_OF_HEAT_MAP = 8
"""For fewer ranks, the table and the timelines show as much as a heat map."""
NEGLIGIBLE_SHARE_OF_STEP = 0.01
"""A cause that takes less than this share of the median step on all ranks has no line."""
SCALE_END_PERCENTILE = 98
"""Percentile of a line's ranks at which the colour scale ends, so that one long rank does not hide the others."""
MEANING_OF_MAP = (
    "Each column is a rank, each row one thing that its step is spent on, as traced: the stronger the colour, the "
    "longer. A rank that holds up the others waits less for them than they do for it."
)
LENGTHS = {"step", "alone", "traced"}
"""Times that are all of a step, and no part of it."""
MAX_RANK_TICKS = 8
MAX_FILE_NAME_CHARS = 48
LABEL_PIXELS, CELL_PIXELS, AXIS_PIXELS = 16, 14, 36
"""Heights: of the label and of the cells of a line, and of the ranks' numbers below all lines."""

SHADES = [see_through(VERMILLION, part / 10) for part in range(11)]
"""Colours of cells, from weak to strong. They follow the square root of the time: short times stay visible next to long
ones."""


def heat_map(ranks: Ranks) -> Markup:
    """Return the heat map of a job as HTML; empty if it has few ranks, or none with a time to show."""
    lines, slowest = drawn_lines(ranks), slowest_of(ranks)
    if not lines or len(ranks.rows) < MIN_RANKS_OF_HEAT_MAP:
        return Markup()
    caption = "".join(f"Step: {fact.number}, {fact.meaning}. " for fact in step_fact(ranks)) + MEANING_OF_MAP
    known = [[time for time in times if time is not None] for times in lines.values()]
    scale_ns = max(float(np.percentile(times, SCALE_END_PERCENTILE)) for times in known) or max(map(max, known))
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


def drawn_lines(ranks: Ranks) -> dict[str, list[float | None]]:
    """Return the time of each rank in ns per step, by what it is spent on; what is negligible is left out."""
    least_ns = NEGLIGIBLE_SHARE_OF_STEP * (ranks.spread_ns[1] if ranks.spread_ns else 0.0)
    lines = {time.title: list(map(time.of, ranks.rows)) for time in RANK_TIMES if time.title not in LENGTHS}
    return {name: times for name, times in lines.items() if max(filter(None, times), default=0.0) > least_ns}


def _pieces(ranks: Ranks, lines: Mapping[str, Sequence[float | None]], scale_ns: float) -> Iterator[Markup]:
    """Yield the cells of the lines, each line below its label, and a column over all with the times of its rank."""
    count, height = len(ranks.rows), len(lines) * (LABEL_PIXELS + CELL_PIXELS)
    label = Markup('<text x="{}" y="{}"{}>{}</text>')
    cells = Markup('<svg class="cells" y="{}" height="{}" width="100%" viewBox="0 0 {} 1" {}>{}</svg>')
    for number, (name, times) in enumerate(lines.items()):
        top = number * (LABEL_PIXELS + CELL_PIXELS) + LABEL_PIXELS
        drawn = Markup().join(_cells(times, scale_ns))
        yield label.format(0, top - 4, "", name)
        yield cells.format(top, CELL_PIXELS, count, Markup('preserveAspectRatio="none"'), drawn)
    column = Markup(
        '<rect class="rank{}" data-rank="{}" data-file="{}" x="{:.3f}%" width="{:.3f}%" height="{}">{}</rect>'
    )
    for number, row in enumerate(ranks.rows):
        file = PurePath(row.path).name[-MAX_FILE_NAME_CHARS:]
        said = (f"{time.title}: {duration(ns)}" for time in RANK_TIMES if (ns := time.of(row)) is not None)
        tooltip = Markup("\n").join((f"rank {row.rank}: {file}", *said))
        title, is_slowest = Markup("<title>{}</title>").format(tooltip), row.rank == ranks.slowest_rank
        named = (" slowest" if is_slowest else "", row.rank, file)
        yield column.format(*named, 100 * number / count, 100 / count, height, title)
        if number % -(-count // MAX_RANK_TICKS) == 0:
            at = f"{100 * (number + 0.5) / count:.3f}%"
            yield label.format(at, height + 16, Markup(' text-anchor="middle"'), row.rank)
    yield label.format("50%", height + 32, Markup(' text-anchor="middle"'), "rank")


def _cells(times: Sequence[float | None], scale_ns: float) -> Iterator[Markup]:
    cell = Markup('<rect x="{}" width="{}" height="1" fill="{}"/>')
    shades = [round(10 * math.sqrt(min((time or 0.0) / scale_ns, 1.0))) for time in times]
    for shade, members in groupby(range(len(shades)), key=shades.__getitem__):
        columns = list(members)
        if shade:
            yield cell.format(columns[0], len(columns), SHADES[shade])
