"""The bench of a machine as a page: what to do on it, what holds of the published claims, and the figures."""

from collections.abc import Iterator

from pinprof.bench.advice import advice
from pinprof.bench.catalogue import verdicts
from pinprof.bench.experiment import Experiment
from pinprof.bench.results import Bench, Result
from pinprof.report.bench.view import (
    ADVICE,
    HOW,
    advice_value,
    claimants,
    claimed_by,
    experiments,
    experiments_run,
    machine_line,
    not_run,
    outcome_of,
    recorded_elsewhere,
)
from pinprof.report.charts.bench import bandwidth_chart, picture_chart, times_chart
from pinprof.report.charts.chart import Chart, chart_html
from pinprof.report.elements import Column, Markup, inline_html, lines, note, table
from pinprof.report.page import page, top
from pinprof.report.view import on_page, sentence_html
from pinprof.report.words import NOTHING


def to_html(bench: Bench, *, recorded: bool = False) -> Markup:
    """Return the bench as one self-contained page; `recorded` marks one that comes with pinprof."""
    sections = list(experiments(bench))
    links = [("What to do", "advice"), ("Claims", "claims")]
    links += [(known.number, section.name) for known, _, section in sections] + [("How", "how")]
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
            on_page(section, lines(map(chart_html, _charts(bench, known, result))))
            for known, result, section in sections
        ),
        Markup('<h3 id="how">How it was measured</h3>'),
        note(HOW),
        note(f"Not run: {not_run(bench)}.") if not_run(bench) else "",
    ]
    body = Markup(
        '<a class="skip" href="#report">Skip to the results</a>\n'
        '<h1 class="unseen">pinprof bench: what copies between host and GPU cost</h1>\n'
        '<main id="report" tabindex="-1">\n{}\n</main>'
    )
    return page(f"pinprof bench: {bench.machine.gpu}", body.format(lines(pieces)))


def _advice(bench: Bench) -> Markup:
    pieces = advice(bench)
    if not pieces:
        return Markup('<p class="headline">The experiments that advice is made of did not run or failed.</p>')
    card = Markup('<li><span class="cost">{}: {}</span><span>{}</span></li>')
    cards = (
        card.format(ADVICE[piece.name], inline_html(advice_value(piece)), inline_html(piece.text)) for piece in pieces
    )
    return Markup('<ol class="best">\n{}\n</ol>').format(lines(cards))


def _claims(bench: Bench) -> Markup:
    """Return a table of the claims with their verdicts; a link leads to the experiment with the reasons."""
    columns = [
        Column(title) for title in ("claim", "verdict", "program", "claimed by", "published", "measured (spread)")
    ]
    numbers = {known.number for known, _ in experiments_run(bench)}
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
        for verdict in verdicts(bench)
    )
    return table("Each claim, and what the figures of this machine say of it", columns, rows)


def _charts(bench: Bench, known: Experiment, result: Result) -> Iterator[Chart]:
    published = {} if known.texts_sizes(result.sizes) else {figure.figure: figure.value for figure in known.published}
    times = times_chart(result.figures, published)
    if times:
        yield times
    rates = bandwidth_chart(result, bench.machine.link)
    if rates:
        yield rates
    end = max((bar.end_ms for picture in result.pictures for bar in picture.bars), default=0.0)
    for picture in result.pictures:
        yield picture_chart(picture, 1.02 * end)
