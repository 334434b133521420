"""What the bench measured: times as bars, rates against size, and what ran beside what."""

import math
from collections.abc import Iterable, Sequence

from pinprof.analyses.syncs import CAUSES
from pinprof.bench.order import amount, by_size, shown, spread
from pinprof.bench.results import Bar, Figure, Picture, Result
from pinprof.links import Link
from pinprof.report.charts.chart import Chart, Key, bars, layout, line_across
from pinprof.report.charts.timeline import STEERING, Bars, row_axis, series
from pinprof.report.timeline.hues import BLUE, GREEN, ORANGE, PURPLE, SLATE, VERMILLION
from pinprof.report.timeline.kinds import BOTH, CALL, COPY, COPY_ONLY, KERNEL_KIND, KINDS, STALL
from pinprof.trace.tables import UNKNOWN
from pinprof.units import NS_PER_MS, duration, rate, size

ROW = 44
"""Pixels of a bar with its label above it."""
PAGEABLE = Key("pageable", VERMILLION, pattern="/")
PINNED = Key("pinned", GREEN)
PINNING = Key("pinned for the copy", ORANGE, pattern="\\")
OTHER = Key("other", BLUE)
PUBLISHED = Key("published, on another machine", SLATE, symbol="diamond")

RATES = {
    "HtoD pageable": Key("HtoD pageable", VERMILLION, "x"),
    "HtoD pinned": Key("HtoD pinned", ORANGE, "circle"),
    "DtoH pageable": Key("DtoH pageable", PURPLE, "x-open"),
    "DtoH pinned": Key("DtoH pinned", GREEN, "circle-open"),
}
TICKS = 16
"""From one label of a size to the next, as a factor."""

HOST, STALLS = "host", "stalls"
"""Rows of a picture that are of no stream."""
STREAM_KINDS = {"exposed copy": COPY_ONLY, "overlapped copy": BOTH, "copy": COPY + UNKNOWN}
"""Of bars of streams; all others are kernels. A whole copy is one of E4, to the GPU, in an older result."""


def times_chart(figures: Sequence[Figure], published: dict[str, float]) -> Chart | None:
    """Return a chart of times, each with its spread and the published one; None if there are fewer than two."""
    times = [figure for figure in figures if figure.unit == "ms" and figure.size is None]
    if len(times) < 2:  # noqa: PLR2004
        return None
    keys = [_memory(figure.name) for figure in times]
    data = [_time_bars(times, keys, key) for key in dict.fromkeys(keys)]
    compared = [(place, published[figure.name]) for place, figure in enumerate(times) if figure.name in published]
    if compared:
        data.append(_marks(compared))
    label = {"x": 0, "xanchor": "left", "xref": "paper", "showarrow": False, "yanchor": "bottom"}
    labels = [
        {**label, "y": place - 0.24, "text": f"{figure.name}: {shown(figure)}"} for place, figure in enumerate(times)
    ]
    shape = layout(
        ROW * len(times) + 60,
        "ms",
        "",
        barmode="overlay",
        annotations=labels,
        yaxis={"visible": False, "range": [len(times) - 0.5, -0.75]},
        xaxis={"rangemode": "tozero"},
    )
    memories = [key for key in dict.fromkeys(keys) if set(keys) != {OTHER}]
    return Chart(_of_times(times), data, shape, (*memories, *([PUBLISHED] if compared else [])))


def _memory(name: str) -> Key:
    if "pin_memory" in name or name.startswith("pin "):
        return PINNING
    return PAGEABLE if "pageable" in name else PINNED if "pinned" in name else OTHER


def _time_bars(times: Sequence[Figure], keys: Sequence[Key], key: Key) -> dict[str, object]:
    mine = [(place, figure) for place, (figure, of) in enumerate(zip(times, keys, strict=True)) if of == key]
    error = {
        "type": "data",
        "symmetric": False,
        "array": [max(round(figure.high - figure.median, 6), 0) for _, figure in mine],
        "arrayminus": [max(round(figure.median - figure.low, 6), 0) for _, figure in mine],
        "thickness": 1.5,
        "width": 4,
    }
    return bars(
        key.label,
        key,
        x=[round(figure.median, 6) for _, figure in mine],
        y=[place for place, _ in mine],
        orientation="h",
        width=0.42,
        error_x=error,
        hovertext=[f"{figure.name}: {shown(figure)}; {figure.runs} runs, {spread(figure)}" for _, figure in mine],
        hoverinfo="text",
    )


def _marks(compared: Sequence[tuple[int, float]]) -> dict[str, object]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": PUBLISHED.label,
        "x": [value for _, value in compared],
        "y": [place for place, _ in compared],
        "hovertext": [f"published: {amount('ms', value)}" for _, value in compared],
        "hoverinfo": "text",
        "marker": {
            "color": PUBLISHED.colour,
            "symbol": PUBLISHED.symbol,
            "size": 12,
            "line": {"width": 1.5, "color": "#fff"},
        },
        "cliponaxis": False,
    }


def _of_times(times: Sequence[Figure]) -> str:
    least, most = (choose(times, key=lambda figure: figure.median) for choose in (min, max))
    return f"From {shown(least)} ({least.name}) to {shown(most)} ({most.name}). Thin lines: the spread."


def bandwidth_chart(result: Result, link: Link | None) -> Chart | None:
    """Return a chart of the rates of copies against their size, with those of the link; None if there are none."""
    series = {key: found for name, key in RATES.items() if (found := by_size(result, name))}
    if not series:
        return None
    figures = [figure for found in series.values() for figure in found]
    best = max(figure.median for figure in figures)
    sizes = sorted({figure.size for figure in figures if figure.size})
    across = _across(link)
    xaxis = {
        "type": "log",
        "range": [math.log10(sizes[0] / 1.5), math.log10(sizes[-1] * 1.5)],
        "tickmode": "array",
        "tickvals": list(_ticks(sizes)),
        "ticktext": [size(tick).replace(".00", "").replace(".0", "") for tick in _ticks(sizes)],
        "tickangle": 0,
    }
    top = max(best, link.theoretical if link else 0.0) * 1.12
    shape = layout(340, "size of the copy", "GB/s", xaxis=xaxis, yaxis={"range": [0, top]}, **across)
    return Chart(_of_rates(series, link), [_line(*each) for each in series.items()], shape, tuple(series))


def _ticks(sizes: Sequence[int]) -> Iterable[int]:
    tick = sizes[0]
    while tick <= sizes[-1]:
        yield tick
        tick *= TICKS


def _across(link: Link | None) -> dict[str, list[object]]:
    if link is None:
        return {}
    lines = (
        line_across(link.theoretical, f"{link.name} in theory: {rate(link.theoretical)}"),
        line_across(link.usual, f"usual: {rate(link.usual)}", below=True),
    )
    left = {"x": 0.01, "xanchor": "left"}  # where the rates are low
    return {
        "shapes": [shape for line in lines for shape in line["shapes"]],
        "annotations": [{**label, **left} for line in lines for label in line["annotations"]],
    }


def _line(key: Key, figures: Sequence[Figure]) -> dict[str, object]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": key.label,
        "x": [figure.size for figure in figures],
        "y": [round(figure.median, 4) for figure in figures],
        "hovertext": [
            f"{key.label}, {size(figure.size or 0)}: {shown(figure)}; {spread(figure)}" for figure in figures
        ],
        "hoverinfo": "text",
        "line": {"color": key.colour, "width": 2, "dash": "dot" if key.symbol.startswith("x") else "solid"},
        "marker": {"color": key.colour, "symbol": key.symbol, "size": 9, "line": {"width": 2, "color": key.colour}},
        "cliponaxis": False,
    }


def _of_rates(series: dict[Key, list[Figure]], link: Link | None) -> str:
    best = ", ".join(f"{key.label} {rate(max(each.median for each in found))}" for key, found in series.items())
    carries = f" {link.name} carries {rate(link.theoretical)} in theory; {rate(link.usual)} is usual." if link else ""
    return f"At best {best}.{carries} Small copies are slower: their start takes most of the time."


def picture_chart(picture: Picture, end_ms: float) -> Chart:
    """Return the timeline of one step of a case; `end_ms` is the end of the axis, common to the cases."""
    rows = sorted(dict.fromkeys(bar.row for bar in picture.bars), key=lambda row: (row != HOST, row != STALLS))
    by_kind: dict[int, Bars] = {}
    for kind, bar in ((_kind(bar), bar) for bar in picture.bars):
        length_ms = bar.end_ms - bar.start_ms
        bars_of = by_kind.setdefault(kind, Bars(kind, [], [], [], [], []))
        bars_of.row.append(rows.index(bar.row))
        bars_of.start_ms.append(round(bar.start_ms, 6))
        bars_of.length_ms.append(round(length_ms, 6))
        named = bar.name if kind == CALL else KINDS[kind].label
        bars_of.hover.append(f"{bar.row}: {named}, {duration(length_ms * NS_PER_MS)}")
    used = [by_kind[kind] for kind in sorted(by_kind)]
    looks = [(KINDS[each.kind].label, KINDS[each.kind].colour, KINDS[each.kind].pattern) for each in used]
    keys = tuple(Key(label, colour, pattern=pattern) for label, colour, pattern in looks)
    shape = layout(
        34 * len(rows) + 62,
        "ms",
        "",
        barmode="overlay",
        yaxis=row_axis(dict(enumerate(rows)), len(rows)),
        xaxis={"range": [0, end_ms], "fixedrange": False},
        dragmode="pan",
    )
    return Chart(_caption(picture), series(used), shape, keys, config=STEERING)


def _caption(picture: Picture) -> str:
    shown = max((bar.end_ms for bar in picture.bars), default=0.0) * NS_PER_MS
    length = picture.step_ms
    beginning = f"the first {duration(shown)} of a step of {duration(length * NS_PER_MS)}" if length else ""
    case = f"{picture.case} ({beginning})" if beginning else picture.case
    return f"{case}: {picture.why}" if picture.why else case


def _kind(bar: Bar) -> int:
    if bar.row == STALLS:
        return STALL + CAUSES.index(bar.name if bar.name in CAUSES else "other")
    return CALL if bar.row == HOST else STREAM_KINDS.get(bar.name, KERNEL_KIND)
