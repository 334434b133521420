"""The chart of a job: the step of each rank, and below it a heat map of where each rank's step goes."""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from pinprof.analyses.idle import IDLE
from pinprof.analyses.syncs.causes import WAITS
from pinprof.hues import BLUE, GREEN, VERMILLION, see_through
from pinprof.ranks.compare import MIN_SKEW_SHARE
from pinprof.ranks.rank import RankRow, Ranks, TimesPerStep
from pinprof.report.charts.chart import Chart, ChartChoice, Key, View, end_of, layout, points
from pinprof.report.html import Markup
from pinprof.report.job.view import PAUSED, TIMES, longest_alone_first, slowest_of, spread
from pinprof.units import NS_PER_MS, duration, percent

NEGLIGIBLE = 0.01
"""A cause that takes less than this share of the median step on all ranks has no line."""
MAX_STALLS = 6
"""Causes of stalls with a line each, those that are longest on any rank; the others share one."""
USUAL = 98
"""Percentile of a line's ranks at which the colour scale ends, so that one long rank does not hide the others."""
LONGEST_SHOWN = 32
"""Ranks in the view of the longest, if there are more ranks."""
MAX_TICKS = 16
PIXELS_PER_RANK, LABELS = 1, 310
"""Pixels: the least width of a rank, and the labels of the lines."""
STEPS, LINE, BELOW = 130, 24, 60
"""Heights in pixels: of the steps, of a line of the heat map, and of the axis below it."""
LONGEST_NAME = 48
"""Characters of a file's name that fit a label."""

TIME_OF = {time.title: time.of for time in TIMES}
"""Times of a rank by what the tables call them."""
STEP = Key("step", BLUE, "circle-open")
ALONE = Key("alone: if the rank waited for no other", GREEN, "circle")

MORE, LESS = VERMILLION, BLUE
STRENGTHS = [(part / 10, see_through(MORE, math.sqrt(part / 10))) for part in range(11)]
"""Colours grow with the root of the time, so that short times stay visible next to long ones."""
ENDS = ((0, LESS, 1), (0.5, LESS, 0), (0.5, MORE, 0), (1, MORE, 1))
DIFFERENCES = [(part, see_through(colour, alpha)) for part, colour, alpha in ENDS]


class Line(NamedTuple):
    """One cause, and the time of each rank in ns per step; None if it is not known."""

    name: str
    times: tuple[float | None, ...]


def ranks_chart(ranks: Ranks) -> Chart | None:
    """Return the chart of a job; None if no rank has a time to show."""
    rows = ranks.rows
    typical = ranks.spread_ns[1] if ranks.spread_ns else 0.0
    all_lines = list(cause_lines(rows))
    lines = [line for line in all_lines if max(_known(line), default=0.0) > NEGLIGIBLE * typical]
    if not lines:
        return None
    names = [str(row.rank) for row in rows]
    top = max(_usual(_known(line)) for line in lines) or max(max(_known(line)) for line in lines)
    scale_end = max(MIN_SKEW_SHARE * typical, *(_usual(_distances(line)) for line in lines)) or top
    slowest = slowest_of(ranks)
    keys = [
        Key(f"0 to {duration(top)} per step, or more", _gradient(STRENGTHS)),
        Key(f"{duration(scale_end)} less to {duration(scale_end)} more than the median rank", _gradient(DIFFERENCES)),
        STEP,
        ALONE,
        *([Key(f"rank {slowest.rank} holds up the others", VERMILLION, "diamond-open")] if slowest else []),
    ]
    data = [
        _heat(names, lines, top),
        _differences(names, lines, scale_end),
        _marks(ALONE, {row.rank: row.alone_ns for row in rows}, names),
        _marks(STEP, {row.rank: row.step_ns for row in rows}, names),
        *([_marks(keys[-1], {slowest.rank: slowest.alone_ns}, [str(slowest.rank)])] if slowest else []),
    ]
    files = {str(row.rank): end_of(PurePath(row.path).name, LONGEST_NAME) for row in rows}
    width = LABELS + PIXELS_PER_RANK * len(rows)
    choices = (_orders(ranks), _colours())
    return Chart(
        _caption(ranks, len(all_lines) - len(lines)), data, _shape(lines, names), tuple(keys), choices, files, width
    )


def cause_lines(rows: Sequence[RankRow]) -> Iterator[Line]:
    """Yield where the step of each rank goes: its own work and waits, idle time, and waits for others."""
    yield _times_of("GPU: own work", rows, _own)
    yield from (_times_of(name, rows, TIME_OF[name]) for name in ("copies exposed", "input", PAUSED))
    yield from _stalls(rows)
    for name, cause in IDLE.items():
        times = (None if row.idle_ns is None else _of(row.idle, name) for row in rows)
        yield Line(f"idle: the GPU {cause.does}", tuple(times))
    yield from (_times_of(name, rows, TIME_OF[name]) for name in ("NCCL overlapped", "NCCL exposed"))
    yield _times_of("waited for others", rows, TIME_OF["waited"])


def _times_of(name: str, rows: Sequence[RankRow], time_of: Callable[[RankRow], float | None]) -> Line:
    return Line(name, tuple(map(time_of, rows)))


def _own(row: RankRow) -> float | None:
    """Return how long the GPU works without exposed collectives, which mostly wait."""
    return None if row.gpu_busy_ns is None else max(row.gpu_busy_ns - row.exposed_communication_ns, 0.0)


def _stalls(rows: Sequence[RankRow]) -> Iterator[Line]:
    longest: dict[str, float] = {}
    for row in rows:
        for cause, time in row.stalls:
            longest[cause] = max(longest.get(cause, 0.0), time)
    causes = sorted(longest, key=lambda cause: -longest[cause])
    drawn, rest = causes[:MAX_STALLS], causes[MAX_STALLS:]
    for cause in drawn:
        times = (None if row.stall_ns is None else _of(row.stalls, cause) for row in rows)
        yield Line(f"host waits: {WAITS[cause].plain}", tuple(times))
    if rest:
        sums = (None if row.stall_ns is None else _of(row.stalls, *rest) for row in rows)
        yield Line("host waits: others", tuple(sums))


def _of(times: TimesPerStep, *causes: str) -> float:
    return sum(time for cause, time in times if cause in causes)


def _known(line: Line) -> list[float]:
    return [time for time in line.times if time is not None]


def _distances(line: Line) -> list[float]:
    """Return how far each rank is from the median rank."""
    times = _known(line)
    return [abs(time - median(times)) for time in times]


def _usual(times: list[float]) -> float:
    return float(np.percentile(times, USUAL))


def _heat(names: list[str], lines: Sequence[Line], top: float) -> dict[str, Any]:
    times = [[_ms(time) for time in line.times] for line in lines]
    return _map(names, lines, times, "%{z:.3~g} ms per step", colorscale=STRENGTHS, zmin=0, zmax=_ms(top))


def _differences(names: list[str], lines: Sequence[Line], top: float) -> dict[str, Any]:
    times = []
    for line in lines:
        middle = median(_known(line))
        times.append([_ms(None if time is None else time - middle) for time in line.times])
    amount = "%{z:+.3~g} ms per step from the median rank"
    return _map(names, lines, times, amount, colorscale=DIFFERENCES, zmin=_ms(-top), zmax=_ms(top), visible=False)


def _map(
    names: list[str], lines: Sequence[Line], times: list[list[float | None]], amount: str, **more: Any
) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "x": names,
        "y": [line.name for line in lines],
        "z": times,
        "xgap": 1 if len(names) <= LONGEST_SHOWN else 0,
        "ygap": 2,
        "hoverongaps": False,
        "showscale": False,
        "hovertemplate": Markup("rank %{{x}}, %{{y}}: {}<br>%{{customdata}}<extra></extra>").format(amount),
        **more,
    }


def _marks(key: Key, times: dict[int, float | None], names: list[str]) -> dict[str, Any]:
    few = len(names) <= LONGEST_SHOWN
    is_one = key.symbol == "diamond-open"
    hover = Markup("rank %{{x}}, {}: %{{y:.3~g}} ms<br>%{{customdata}}<extra></extra>").format(key.label.split(":")[0])
    y = [_ms(time) for time in times.values()]
    size = 16 if is_one else 9 if few else 4
    marker = {"line": {"width": key.symbol.endswith("-open") * (2 if few or is_one else 1)}}
    hovering = {"hoverinfo": "skip", "hovertemplate": None} if is_one else {"hovertemplate": hover}
    return points(key.label, key, names, y, size=size, marker=marker, yaxis="y2", **hovering)


def _shape(lines: Sequence[Line], names: list[str]) -> dict[str, Any]:
    height = STEPS + LINE * len(lines) + BELOW
    split = LINE * len(lines) / (STEPS + LINE * len(lines))
    xaxis = {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": names,
        "range": _range(len(names)),
        "tickangle": 0,
        "nticks": MAX_TICKS,
        "showgrid": False,
        "anchor": "y",
    }
    yaxis = {"autorange": "reversed", "domain": [0, split - 0.03], "showgrid": False, "ticks": ""}
    steps = {"title": {"text": "ms per step"}, "domain": [split + 0.03, 1], "rangemode": "tozero", "zeroline": False}
    steps |= {"automargin": True, "fixedrange": True}
    return layout(height, "rank", "", xaxis=xaxis, yaxis=yaxis, yaxis2=steps)


def _range(count: int) -> list[float]:
    return [-0.5, count - 0.5]


def _orders(ranks: Ranks) -> ChartChoice:
    count = len(ranks.rows)
    by_rank = [str(row.rank) for row in ranks.rows]
    by_time = [str(row.rank) for row in longest_alone_first(ranks.rows)]
    orders = [("rank", by_rank, count), ("step alone, longest first", by_time, count)]
    if count > LONGEST_SHOWN:
        orders.append((f"the {LONGEST_SHOWN} longest alone", by_time, LONGEST_SHOWN))
    views = (
        View(label, {}, {"xaxis.categoryarray": order, "xaxis.range": _range(number)})
        for label, order, number in orders
    )
    return ChartChoice("Order", tuple(views))


def _colours() -> ChartChoice:
    by_time = View("ms per step", {"visible": [True, False]}, {}, (0, 1))
    by_difference = View("difference from the median rank", {"visible": [False, True]}, {}, (0, 1))
    return ChartChoice("Colour", (by_time, by_difference))


def _caption(ranks: Ranks, left_out: int) -> str:
    steps = [row.step_ns for row in ranks.rows if row.step_ns]
    step = f"Step: {', '.join(spread(steps))}. " if steps else ""
    small = f" What takes no rank {percent(NEGLIGIBLE)} of the step is not drawn." if left_out else ""
    return (
        f"{step}Each column is a rank, each row one thing that its step is spent on, as traced: the stronger the "
        "colour, the longer. A rank that holds up the others spends more on its own work than they do, and waits less "
        f"for others.{small}"
    )


def _ms(time: float | None) -> float | None:
    """Return a time in ms with four digits, to keep the page small."""
    return None if time is None else float(f"{time / NS_PER_MS:.4g}")


def _gradient(shades: Sequence[tuple[float, str]]) -> str:
    """Return a colour scale as the background of a legend's swatch."""
    return f"linear-gradient(90deg,{','.join(f'{shade} {100 * part:.0f}%' for part, shade in shades)})"
