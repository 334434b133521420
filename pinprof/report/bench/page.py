"""The bench of a machine as a page: what to do on it, what holds of the published claims, and the figures."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pinprof.analyses.syncs.causes import WAIT_CAUSES
from pinprof.bench import verdicts
from pinprof.bench.advice import advice
from pinprof.bench.catalogue.bandwidth import CASES
from pinprof.bench.experiment import Experiment
from pinprof.bench.judge import by_size
from pinprof.bench.results import Bar, Bench, Measured, Picture, Result, amount, shown, spread
from pinprof.hues import BLUE, GREEN, ORANGE, PURPLE, SLATE, VERMILLION
from pinprof.pci_express import Link
from pinprof.report.bench.view import (
    HOW,
    by_text,
    claimants,
    claimed_by,
    experiments,
    experiments_run,
    machine_line,
    not_run,
    outcome_of,
    recorded_elsewhere,
)
from pinprof.report.charts.chart import (
    Chart,
    Key,
    bars,
    labelled_rows,
    layout,
    legend_key,
    line_across,
    points,
)
from pinprof.report.charts.copies import SMALL, size_axis
from pinprof.report.charts.svg import chart_svg
from pinprof.report.charts.timeline import Bars, row_axis, series
from pinprof.report.html import Column, Markup, inline_html, lines, note, table
from pinprof.report.page import report_page, top
from pinprof.report.timeline.kinds import BOTH, CALL, COPY, COPY_ONLY, KERNEL_KIND, KINDS, STALL
from pinprof.report.view import on_page, sentence_html
from pinprof.report.words import NOTHING
from pinprof.trace.tables import UNKNOWN
from pinprof.units import NS_PER_MS, duration, rate, size

HERE = Key("measured", BLUE)
PUBLISHED = Key("published, on another machine", SLATE, symbol="diamond")
OF_LINES = 16
"""The factor between labelled sizes."""
BENCHED = {
    case: Key(case.name, colour, symbol)
    for case, colour, symbol in zip(
        CASES, (VERMILLION, ORANGE, PURPLE, GREEN), ("x", "circle", "x-open", "circle-open"), strict=False
    )
}
"""Rates that the bench measures at many sizes."""
HOST, STALLS = "host", "stalls"
"""Rows of a picture that are not streams."""
STREAM_KINDS = {"exposed copy": COPY_ONLY, "overlapped copy": BOTH, "copy": COPY + UNKNOWN}
"""Kinds of bars on streams; all others are kernels. A whole copy is one of E4, to the GPU, in an older result."""


def to_html(bench: Bench, *, recorded: bool = False) -> Markup:
    """Return the bench as one self-contained page; `recorded` marks one that comes with pinprof."""
    sections = list(experiments(bench))
    links = [("What to do", "advice"), ("Claims", "claims")]
    links += [(experiment.number, section.name) for experiment, _, section in sections] + [("How", "how")]
    pieces = [
        top("heading", f"pinprof bench on {bench.machine.gpu}", "what copies between host and GPU cost", links),
        note(Markup("<strong>{}</strong>").format(recorded_elsewhere(bench))) if recorded else "",
        note(machine_line(bench)),
        Markup('<h3 id="advice">What to do</h3>'),
        _advice(bench),
        Markup('<h3 id="claims">What holds of the published claims</h3>'),
        note(f"Claimed by: {claimants()}."),
        _claims(bench),
        *(
            on_page(section, lines(map(chart_svg, _charts(bench, experiment, result))))
            for experiment, result, section in sections
        ),
        Markup('<h3 id="how">How it was measured</h3>'),
        note(HOW),
        note(f"Not run: {not_run(bench)}.") if not_run(bench) else "",
    ]
    heading = "pinprof bench: what copies between host and GPU cost"
    return report_page(f"pinprof bench: {bench.machine.gpu}", heading, lines(pieces))


def _advice(bench: Bench) -> Markup:
    pieces = advice(bench)
    if not pieces:
        return Markup('<p class="headline">The experiments that advice is made of did not run or failed.</p>')
    cards = (Markup("<li><span>{}</span></li>").format(inline_html(piece.text)) for piece in pieces)
    return Markup('<ol class="best">\n{}\n</ol>').format(lines(cards))


def _claims(bench: Bench) -> Markup:
    """Return a table of the claims with their verdicts; a link leads to the experiment with the reasons."""
    columns = [
        Column(title) for title in ("claim", "verdict", "program", "claimed by", "published", "measured (spread)")
    ]
    numbers = {experiment.number for experiment, _ in experiments_run(bench)}
    link = Markup('<a href="#{0}">{0}</a>')
    rows = (
        (
            verdict.claim,
            sentence_html(outcome_of(verdict)),
            link.format(verdict.number) if verdict.number in numbers else verdict.number,
            claimed_by(verdict),
            verdict.published or NOTHING,
            verdict.measured or NOTHING,
        )
        for verdict in by_text(verdicts(bench))
    )
    return table("Each claim, and what the figures of this machine say of it", columns, rows)


def _charts(bench: Bench, experiment: Experiment, result: Result) -> Iterator[Chart]:
    published = experiment.published_at(result.sizes)
    times = times_chart(result.figures, {name: value for (name, at), value in published.items() if at is None})
    if times:
        yield times
    rates = bandwidth_chart(bench) if result.number == CASES[0].number else None
    if rates:
        yield rates
    end = max((bar.end_ms for picture in result.pictures for bar in picture.bars), default=0.0)
    for picture in result.pictures:
        yield picture_chart(picture, 1.02 * end)


def times_chart(figures: Sequence[Measured], published: dict[str, float]) -> Chart | None:
    """Return a chart of times, each with its spread and the published one; None if there are fewer than two."""
    times = [figure for figure in figures if figure.unit == "ms" and figure.size is None]
    if len(times) < 2:  # noqa: PLR2004
        return None
    error = {
        "type": "data",
        "symmetric": False,
        "array": [max(round(figure.high - figure.median, 6), 0) for figure in times],
        "arrayminus": [max(round(figure.median - figure.low, 6), 0) for figure in times],
        "thickness": 1.5,
        "width": 4,
    }
    hover = [f"{figure.name}: {shown(figure)}; {figure.runs} runs, {spread(figure)}" for figure in times]
    x, rows = [round(figure.median, 6) for figure in times], [*range(len(times))]
    data = [bars(HERE.label, HERE, hover=hover, x=x, y=rows, orientation="h", width=0.42, error_x=error)]
    compared = {row: published[figure.name] for row, figure in enumerate(times) if figure.name in published}
    if compared:
        hover = [f"published: {amount('ms', value)}" for value in compared.values()]
        marker = {"line": {"width": 1.5, "color": "#fff"}}
        values = [*compared.values()]
        data.append(points(PUBLISHED.label, PUBLISHED, values, [*compared], hover, size=12, marker=marker))
    labels = [f"{figure.name}: {shown(figure)}" for figure in times]
    shape = labelled_rows(labels, "ms", row=44, above=0.24, edges=(0.75, 0.5), barmode="overlay")
    least, most = (choose(times, key=lambda figure: figure.median) for choose in (min, max))
    caption = f"From {shown(least)} ({least.name}) to {shown(most)} ({most.name}). Thin lines: the spread."
    return Chart(caption, data, shape, (HERE, PUBLISHED) if compared else ())


def picture_chart(picture: Picture, end_ms: float) -> Chart:
    """Return the timeline of one step of a case; `end_ms` is the end of the axis, common to the cases."""
    rows = sorted(dict.fromkeys(bar.row for bar in picture.bars), key=lambda row: (row != HOST, row != STALLS))
    by_kind: dict[int, Bars] = {}
    for kind, bar in ((_kind_of_bar(bar), bar) for bar in picture.bars):
        length_ms = bar.end_ms - bar.start_ms
        bars_of = by_kind.setdefault(kind, Bars(kind, [], [], [], [], []))
        bars_of.row.append(rows.index(bar.row))
        bars_of.start_ms.append(round(bar.start_ms, 6))
        bars_of.length_ms.append(round(length_ms, 6))
        named = bar.name if kind == CALL else KINDS[kind].label
        bars_of.hover.append(f"{bar.row}: {named}, {duration(length_ms * NS_PER_MS)}")
    shape = layout(
        34 * len(rows) + 62,
        "ms",
        "",
        barmode="overlay",
        yaxis=row_axis(dict(enumerate(rows)), len(rows)),
        xaxis={"range": [0, end_ms]},
    )
    data = series(by_kind[kind] for kind in sorted(by_kind))
    keys = tuple(map(legend_key, sorted(by_kind)))
    return Chart(_caption(picture), data, shape, keys)


def _caption(picture: Picture) -> str:
    shown = max((bar.end_ms for bar in picture.bars), default=0.0) * NS_PER_MS
    length = picture.step_ms
    beginning = f"the first {duration(shown)} of a step of {duration(length * NS_PER_MS)}" if length else ""
    case = f"{picture.case} ({beginning})" if beginning else picture.case
    return f"{case}: {picture.why}" if picture.why else case


def _kind_of_bar(bar: Bar) -> int:
    if bar.row == STALLS:
        return STALL + WAIT_CAUSES.index(bar.name if bar.name in WAIT_CAUSES else "other")
    return CALL if bar.row == HOST else STREAM_KINDS.get(bar.name, KERNEL_KIND)


def bandwidth_chart(bench: Bench) -> Chart | None:
    """Return a chart of the rates that the bench measured, with those of the link; None if there are none."""
    link = bench.machine.link
    lines = {key: figures for case, key in BENCHED.items() if (figures := by_size(bench, case))}
    if not lines:
        return None
    figures = [figure for line in lines.values() for figure in line]
    drawn = sorted({figure.size for figure in figures if figure.size})
    ticks = [drawn[0]]
    while ticks[-1] * OF_LINES <= drawn[-1]:
        ticks.append(ticks[-1] * OF_LINES)
    top = max(*(figure.median for figure in figures), link.theoretical if link else 0.0) * 1.12
    xaxis = size_axis(ticks) | {"range": [float(np.log10(drawn[0] / 1.5)), float(np.log10(drawn[-1] * 1.5))]}
    shape = layout(340, "size of the copy", "GB/s", xaxis=xaxis, yaxis={"range": [0, top]}, **_link_lines(link))
    best = ", ".join(f"{key.label} {rate(max(figure.median for figure in line))}" for key, line in lines.items())
    carries = f" {link.name} carries {rate(link.theoretical)} in theory; {rate(link.usual)} is usual." if link else ""
    data = [_rates_line(key, line) for key, line in lines.items()]
    return Chart(f"At best {best}.{carries} {SMALL}", data, shape, tuple(lines))


def _link_lines(link: Link | None) -> dict[str, Any]:
    """Return lines at the rates of a link, with labels at the left, where the rates are low."""
    if link is None:
        return {}
    theory = line_across(link.theoretical, f"{link.name} in theory: {rate(link.theoretical)}", left=True)
    usual = line_across(link.usual, f"usual: {rate(link.usual)}", below=True, left=True)
    return {part: theory[part] + usual[part] for part in theory}


def _rates_line(key: Key, figures: Sequence[Measured]) -> dict[str, Any]:
    x, y = [figure.size for figure in figures], [round(figure.median, 4) for figure in figures]
    hover = [f"{key.label}, {size(figure.size or 0)}: {shown(figure)}; {spread(figure)}" for figure in figures]
    line = {"color": key.colour, "width": 2, "dash": "dot" if key.symbol.startswith("x") else "solid"}
    marker = {"line": {"width": 2, "color": key.colour}}
    return points(key.label, key, x, y, hover, size=9, mode="lines+markers", line=line, marker=marker)
