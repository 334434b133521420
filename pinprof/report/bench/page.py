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
    not_used,
    ran,
    rows,
    said,
    sentence,
    sizes_line,
    texts,
    value,
    why,
)
from pinprof.report.charts.bench import picture_chart, times_chart
from pinprof.report.charts.chart import Chart, shown
from pinprof.report.charts.rates import bandwidth_chart
from pinprof.report.elements import Column, Markup, lines, note, number_columns, remarks, table, unbroken
from pinprof.report.page import page
from pinprof.report.words import NOTHING


def to_html(bench: Bench, *, recorded: bool = False) -> Markup:
    """Return the bench as one page that needs nothing else; `recorded` marks one that comes with pinprof."""
    judged = verdicts(bench)
    pieces = [
        Markup("<h2>What to do on {}</h2>").format(bench.machine.gpu),
        note(Markup("<strong>{}</strong>").format(elsewhere(bench))) if recorded else "",
        note(machine_line(bench)),
        _advice(bench),
        Markup('<h3 id="claims">What holds of the published claims</h3>'),
        note(f"Claimed by: {texts()}."),
        _claims(bench, judged),
        *(
            piece
            for known, result in ran(bench)
            for piece in _experiment(bench, known, result, [each for each in judged if each.number == known.number])
        ),
        Markup('<h3 id="how">How it was measured</h3>'),
        note(HOW),
        note(f"Not run: {not_run(bench)}.") if not_run(bench) else "",
    ]
    body = Markup(
        '<a class="skip" href="#report">Skip to the results</a>\n'
        "<header><h1>pinprof bench: what copies between host and GPU cost</h1></header>\n"
        '<main id="report" tabindex="-1">\n{}\n</main>'
    )
    return page(f"pinprof bench: {bench.machine.gpu}", body.format(lines(pieces)))


def _advice(bench: Bench) -> Markup:
    pieces = advice(bench)
    if not pieces:
        return Markup('<p class="headline">The experiments that advice is made of did not run or failed.</p>')
    card = Markup('<li><span class="cost">{}: {}</span><span>{}</span></li>')
    cards = (card.format(ADVICE[piece.name], unbroken(value(piece)), unbroken(piece.text)) for piece in pieces)
    return Markup('<ol class="best">\n{}\n</ol>').format(lines(cards))


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
    return Markup('<a href="#{0}">{0}</a>').format(number)


def _outcome(verdict: Verdict) -> Markup:
    return Markup('<strong class="{}">{}</strong>').format(verdict.outcome, OUTCOMES[verdict.outcome])


def _experiment(bench: Bench, known: Experiment, result: Result, judged: Sequence[Verdict]) -> Iterator[Markup]:
    yield Markup('<h3 id="{0}">{0} {1}</h3>').format(known.number, known.name)
    sizes = sizes_line(known, result)
    yield note(sentence(known.summary) + (f" Sizes: {sizes}." if sizes else ""))
    if known.changed:
        yield note(f"Different from the text: {known.changed}.")
    said_of = Markup("{} {} ({}): {}.")
    yield remarks(
        "", (said_of.format(_outcome(each), each.claim, claimed(each), unbroken(why(each))) for each in judged)
    )
    if result.problem:
        yield Markup('<p class="problem"><strong>Problem:</strong> {}</p>').format(result.problem)
    yield from map(shown, _charts(bench, known, result))
    compared = rows(bench, known, result)
    if compared:
        columns = [Column("figure"), *number_columns("here", "spread", "published")]
        yield table(f"Figures of {known.number}", columns, compared)
    for grid in grids(bench, result):
        first, *others = grid.columns
        columns = [Column(first), *number_columns(*others)]
        found = [(unbroken(name), *cells) for name, *cells in grid.rows]
        yield table(f"By {first}, with how far the spread goes from the median", columns, found)
    if not_used(bench, result):
        yield remarks("Not used", not_used(bench, result))
    if said(known, result):
        yield note(f"Published: {said(known, result)}.")


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
