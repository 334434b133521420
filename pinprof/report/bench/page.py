"""The bench of a machine as a page: what to do on it, what holds of the published claims, and the figures."""

from collections.abc import Iterator, Sequence

from pinprof.analyses.syncs.causes import WAIT_CAUSES
from pinprof.bench import verdicts
from pinprof.bench.advice import advice
from pinprof.bench.catalogue.bandwidth import CASES
from pinprof.bench.experiment import Experiment
from pinprof.bench.judge import by_size
from pinprof.bench.results import Bar, Bench, Measured, Picture, Result, amount, shown, spread
from pinprof.ground.hues import BLUE, GREEN, ORANGE, PURPLE, SLATE, VERMILLION
from pinprof.ground.units import NS_PER_MS, duration, rate, size
from pinprof.report.bench.view import (
    HOW_MEASURED,
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
from pinprof.report.charts.chart import Axis, Chart, Key, Label, PlotBars, PlotMarks, legend_key, round_axis
from pinprof.report.charts.copies import SMALL_COPIES_NOTE, size_axis
from pinprof.report.charts.svg import chart_svg
from pinprof.report.html import Column, Markup, inline_html, lines, note, table
from pinprof.report.page import report_page, top
from pinprof.report.timeline.kinds import (
    CALL_KIND,
    EVENT_KINDS,
    EXPOSED_COPY_KIND,
    FIRST_COPY_KIND,
    FIRST_STALL_KIND,
    KERNEL_KIND,
    OVERLAPPED_COPY_KIND,
)
from pinprof.report.view import on_page, sentence_html
from pinprof.report.words import NOTHING
from pinprof.trace.tables import UNKNOWN

HERE_KEY = Key("measured", BLUE)
PUBLISHED_KEY = Key("published, on another machine", SLATE, symbol="diamond")
TIME_ROW_PIXELS, AROUND_TIMES_PIXELS = 44, 70
PICTURE_ROW_PIXELS, AROUND_PICTURE_PIXELS = 34, 62
LABELLED_SIZE_FACTOR = 16
"""The factor between labelled sizes."""
KEY_OF_CASE = {
    case: Key(case.name, colour, symbol)
    for case, colour, symbol in zip(
        CASES, (VERMILLION, ORANGE, PURPLE, GREEN), ("x", "circle", "x-open", "circle-open"), strict=False
    )
}
"""Rates that the bench measures at many sizes."""
HOST_ROW, STALL_ROW = "host", "stalls"
"""Rows of a picture that are not streams."""
KIND_OF_STREAM_BAR = {
    "exposed copy": EXPOSED_COPY_KIND,
    "overlapped copy": OVERLAPPED_COPY_KIND,
    "copy": FIRST_COPY_KIND + UNKNOWN,
}
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
        note(HOW_MEASURED),
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
    hover = [f"{figure.name}: {shown(figure)}; {figure.runs} runs, {spread(figure)}" for figure in times]
    lengths, rows = [round(figure.median, 6) for figure in times], range(len(times))
    ends = [(min(figure.low, figure.median), max(figure.high, figure.median)) for figure in times]
    all_bars = PlotBars(HERE_KEY, rows, lengths, hover, spread=ends)
    compared = {row: published[figure.name] for row, figure in enumerate(times) if figure.name in published}
    said = [f"published: {amount('ms', value)}" for value in compared.values()]
    marks = [PlotMarks(PUBLISHED_KEY, [*compared.values()], [*compared], said, size=12)] if compared else []
    least, most = (choose(times, key=lambda figure: figure.median) for choose in (min, max))
    return Chart(
        f"From {shown(least)} ({least.name}) to {shown(most)} ({most.name}). Thin lines: the spread.",
        TIME_ROW_PIXELS * len(times) + AROUND_TIMES_PIXELS,
        round_axis(0.0, 1.04 * max(*(high for _, high in ends), *compared.values()), "ms"),
        Axis(len(times) - 0.5, -0.75),
        [all_bars],
        marks,
        (HERE_KEY, PUBLISHED_KEY) if compared else (),
        labels=[Label(f"{figure.name}: {shown(figure)}", 0, row - 0.24) for row, figure in enumerate(times)],
        is_flat=True,
        bar_width=0.42,
    )


def picture_chart(picture: Picture, end_ms: float) -> Chart:
    """Return the timeline of one step of a case; `end_ms` is the end of the axis, common to the cases."""
    rows = sorted(dict.fromkeys(bar.row for bar in picture.bars), key=lambda row: (row != HOST_ROW, row != STALL_ROW))
    of_kind: dict[int, list[Bar]] = {}
    for bar in picture.bars:
        of_kind.setdefault(_kind_of_bar(bar), []).append(bar)
    all_bars = [_bars_of_kind(kind, of_kind[kind], rows) for kind in sorted(of_kind)]
    return Chart(
        _caption(picture),
        PICTURE_ROW_PIXELS * len(rows) + AROUND_PICTURE_PIXELS,
        round_axis(0, end_ms, "ms"),
        Axis(len(rows) - 0.4, -0.6, labels=tuple(enumerate(rows))),
        all_bars,
        keys=[bars.key for bars in all_bars],
        is_flat=True,
        bar_width=0.84,
    )


def _bars_of_kind(kind: int, of_kind: Sequence[Bar], rows: Sequence[str]) -> PlotBars:
    named = ((bar, bar.name if kind == CALL_KIND else EVENT_KINDS[kind].label) for bar in of_kind)
    hover = [f"{bar.row}: {name}, {duration((bar.end_ms - bar.start_ms) * NS_PER_MS)}" for bar, name in named]
    starts = [round(bar.start_ms, 6) for bar in of_kind]
    lengths = [round(bar.end_ms - bar.start_ms, 6) for bar in of_kind]
    return PlotBars(legend_key(kind), [rows.index(bar.row) for bar in of_kind], lengths, hover, starts)


def _caption(picture: Picture) -> str:
    shown = max((bar.end_ms for bar in picture.bars), default=0.0) * NS_PER_MS
    length = picture.step_ms
    beginning = f"the first {duration(shown)} of a step of {duration(length * NS_PER_MS)}" if length else ""
    case = f"{picture.case} ({beginning})" if beginning else picture.case
    return f"{case}: {picture.why}" if picture.why else case


def _kind_of_bar(bar: Bar) -> int:
    if bar.row == STALL_ROW:
        return FIRST_STALL_KIND + WAIT_CAUSES.index(bar.name if bar.name in WAIT_CAUSES else "other")
    return CALL_KIND if bar.row == HOST_ROW else KIND_OF_STREAM_BAR.get(bar.name, KERNEL_KIND)


def bandwidth_chart(bench: Bench) -> Chart | None:
    """Return a chart of the rates that the bench measured, with those of the link; None if there are none."""
    link = bench.machine.link
    lines = {key: figures for case, key in KEY_OF_CASE.items() if (figures := by_size(bench, case))}
    if not lines:
        return None
    figures = [figure for line in lines.values() for figure in line]
    drawn = sorted({figure.size for figure in figures if figure.size})
    ticks = [drawn[0]]
    while ticks[-1] * LABELLED_SIZE_FACTOR <= drawn[-1]:
        ticks.append(ticks[-1] * LABELLED_SIZE_FACTOR)
    top = max(*(figure.median for figure in figures), link.theoretical if link else 0.0) * 1.12
    best = ", ".join(f"{key.label} {rate(max(figure.median for figure in line))}" for key, line in lines.items())
    carries = f" {link.name} carries {rate(link.theoretical)} in theory; {rate(link.usual)} is usual." if link else ""
    labels = []
    if link:  # at the left, where the rates are low
        labels = [
            Label(f"{link.name} in theory: {rate(link.theoretical)}", 0.01, link.theoretical),
            Label(f"usual: {rate(link.usual)}", 0.01, link.usual, is_below=True),
        ]
    return Chart(
        f"At best {best}.{carries} {SMALL_COPIES_NOTE}",
        340,
        size_axis(drawn[0] / 1.5, drawn[-1] * 1.5, ticks),
        round_axis(0, top, "GB/s"),
        marks=[_rates_line(key, line) for key, line in lines.items()],
        keys=tuple(lines),
        lines=[label.y for label in labels],
        labels=labels,
    )


def _rates_line(key: Key, figures: Sequence[Measured]) -> PlotMarks:
    x, y = [figure.size or 0 for figure in figures], [round(figure.median, 4) for figure in figures]
    hover = [f"{key.label}, {size(figure.size or 0)}: {shown(figure)}; {spread(figure)}" for figure in figures]
    return PlotMarks(key, x, y, hover, size=9, line="dot" if key.symbol.startswith("x") else "solid")
