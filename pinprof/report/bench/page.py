"""The bench of a machine as a page: what to do on it, what holds of the published claims, and the figures."""

from collections.abc import Iterator, Sequence

from pinprof.bench.advice import advice
from pinprof.bench.experiment import Experiment
from pinprof.bench.results import Bench, Result
from pinprof.bench.verdicts import Verdict, verdicts
from pinprof.report.bench.words import (
    ADVICE,
    HOW,
    OUTCOMES,
    claimed,
    elsewhere,
    grids,
    machine_line,
    not_run,
    ran,
    rows,
    said,
    sentence,
    sizes_line,
    texts,
    value,
    why,
)
from pinprof.report.charts.bench import bandwidth_chart, picture_chart, times_chart
from pinprof.report.charts.chart import Chart, shown
from pinprof.report.elements import Column, Markup, escaped, table, unbroken
from pinprof.report.page import page
from pinprof.report.words import NOTHING


def to_html(bench: Bench, *, recorded: bool = False) -> str:
    """Return the bench as one page that needs nothing else; `recorded` marks one that comes with pinprof."""
    judged = verdicts(bench)
    mark = f'<p class="note"><strong>{escaped(elsewhere(bench))}</strong></p>' if recorded else ""
    header = (
        '<a class="skip" href="#report">Skip to the results</a>\n'
        "<header><h1>pinprof bench: what copies between host and GPU cost</h1></header>"
    )
    pieces = [
        f"<h2>What to do on {escaped(bench.machine.gpu)}</h2>",
        mark,
        f'<p class="note">{escaped(machine_line(bench))}</p>',
        *_advice(bench),
        '<h3 id="claims">What holds of the published claims</h3>',
        f'<p class="note">Claimed by: {escaped(texts())}.</p>',
        _claims(bench, judged),
        *(
            piece
            for known, result in ran(bench)
            for piece in _experiment(bench, known, result, [each for each in judged if each.number == known.number])
        ),
        '<h3 id="how">How it was measured</h3>',
        f'<p class="note">{escaped(HOW)}</p>',
        *([f'<p class="note">Not run: {escaped(not_run(bench))}.</p>'] if not_run(bench) else []),
    ]
    body = "\n".join(filter(None, pieces))
    title = f"pinprof bench: {bench.machine.gpu}"
    return page(title, f'{header}\n<main id="report" tabindex="-1">\n{body}\n</main>')


def _advice(bench: Bench) -> Iterator[str]:
    pieces = advice(bench)
    if not pieces:
        yield '<p class="headline">The experiments that advice is made of did not run or failed.</p>'
        return
    cards = "\n".join(
        f'<li><span class="cost">{escaped(ADVICE[piece.name])}: {unbroken(value(piece))}</span>'
        f"<span>{unbroken(piece.text)}</span></li>"
        for piece in pieces
    )
    yield f'<ol class="best">\n{cards}\n</ol>'


def _claims(bench: Bench, judged: Sequence[Verdict]) -> Markup:
    titles = ("claim", "verdict", "program", "claimed by", "published", "measured (spread)", "why")
    columns = [Column(title) for title in titles]
    there = {known.number for known, _ in ran(bench)}
    found = (
        (
            verdict.claim,
            _outcome(verdict),
            _link(verdict.number) if verdict.number in there else verdict.number,
            claimed(verdict),
            unbroken(verdict.published or NOTHING),
            unbroken(verdict.measured or NOTHING),
            unbroken(why(verdict)),
        )
        for verdict in judged
    )
    return table("Each claim, and what the figures of this machine say of it", columns, found)


def _link(number: str) -> Markup:
    return Markup(f'<a href="#{number}">{number}</a>')


def _outcome(verdict: Verdict) -> Markup:
    return Markup(f'<strong class="{verdict.outcome}">{escaped(OUTCOMES[verdict.outcome])}</strong>')


def _experiment(bench: Bench, known: Experiment, result: Result, judged: Sequence[Verdict]) -> Iterator[str]:
    yield f'<h3 id="{known.number}">{known.number} {escaped(known.name)}</h3>'
    sizes = sizes_line(known, result)
    yield f'<p class="note">{escaped(sentence(known.summary))}{escaped(f" Sizes: {sizes}." if sizes else "")}</p>'
    if known.changed:
        yield f'<p class="note">Not as in the text: {escaped(known.changed)}.</p>'
    items = "".join(
        f"<li>{_outcome(each)} {escaped(each.claim)} ({escaped(claimed(each))}): {unbroken(why(each))}.</li>"
        for each in judged
    )
    yield f'<ul class="missing">{items}</ul>'
    if result.problem:
        yield f'<p class="problem"><strong>Problem:</strong> {escaped(result.problem)}</p>'
    yield from (str(shown(chart)) for chart in _charts(bench, known, result))
    compared = rows(known, result)
    if compared:
        columns = [
            Column("figure"),
            *(Column(title, is_number=True) for title in ("here", "spread", "published")),
        ]
        yield table(f"Figures of {known.number}", columns, compared)
    for grid in grids(result):
        first, *others = grid.columns
        columns = [Column(first), *(Column(title, is_number=True) for title in others)]
        found = [(unbroken(name), *cells) for name, *cells in grid.rows]
        yield table(f"By {first}, with how far the spread goes from the median", columns, found)
    if said(known, result):
        yield f'<p class="note">Published: {escaped(said(known, result))}.</p>'


def _charts(bench: Bench, known: Experiment, result: Result) -> Iterator[Chart]:
    published = {} if known.texts_sizes(result.sizes) else {each.figure: each.value for each in known.published}
    times = times_chart(result.figures, published)
    if times:
        yield times
    rates = bandwidth_chart(result, bench.machine.link)
    if rates:
        yield rates
    end = max((bar.end_ms for picture in result.pictures for bar in picture.bars), default=0.0)
    for picture in result.pictures:
        yield picture_chart(picture, 1.02 * end)
