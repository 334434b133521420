"""The bench of a machine: a section for each experiment, the whole bench for the terminal, as a page and as JSON."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import msgspec
from rich.console import RenderableType
from rich.text import Text

from pinprof.analyses.syncs.causes import WAIT_CAUSES
from pinprof.bench import EXPERIMENTS, verdicts
from pinprof.bench.advice import advice
from pinprof.bench.catalogue.bandwidth import LAUNCH, RATES
from pinprof.bench.experiment import TEXTS_WITH_CLAIMS, Experiment
from pinprof.bench.judge import MATTERS_SHARE, SAME_SHARE, ClaimVerdict
from pinprof.bench.results import Bar, Bench, Measured, Picture, Result, amount, shown, spread
from pinprof.document import doc, filled
from pinprof.ground.units import NS_PER_MS, duration, percent, size
from pinprof.pci_express import Link
from pinprof.prediction.pinning import Advice
from pinprof.report.html import Column, Markup, hue, inline_html, lines, note, number_columns, table
from pinprof.report.page import report_page, top
from pinprof.report.terminal import bullet, laid_out, section
from pinprof.report.timeline import kinds
from pinprof.report.timeline.kinds import EVENT_KINDS
from pinprof.report.view import ReportTable, Section, Sentence, Styled, in_terminal, on_page, sentence_html
from pinprof.report.words import NOTHING, capitalized, printable
from pinprof.trace.tables import UNKNOWN

OUTCOME_WORDS = {
    "confirmed": "confirmed",
    "refuted": "refuted",
    "depends": "it depends",
    "unknown": "not known",
    "unjudged": "not judged",
}
HOST_ROW, STALL_ROW = "host", "stalls"
"""Rows of a picture that are not streams."""
KIND_OF_STREAM_BAR = {
    "exposed copy": kinds.EXPOSED_COPY_KIND,
    "overlapped copy": kinds.OVERLAPPED_COPY_KIND,
    "copy": kinds.FIRST_COPY_KIND + UNKNOWN,
}
"""Kinds of bars on streams; all others are kernels. A whole copy is one of E4, to the GPU, in an older result."""
WORKERS_FIGURE = "batch, N workers"
"""A figure of older results, whose sizes are numbers of workers; those of all others are bytes."""
MEANING_OF_SPREAD = (
    "The spread goes from the 10th percentile of the lowest round to the 90th of the highest; of five rounds or more "
    "these two are left out. Where rounds differ, it goes as far as another bench may. Each round is a process of its "
    "own; the rounds are spread over the whole bench. --quick makes one round."
)
HOW_MEASURED = (
    f"After a warm-up each figure is the median of repeated runs. {MEANING_OF_SPREAD} Times are taken with CUDA "
    "events, or with a synchronize on both sides. Two figures differ if their medians are more than "
    f"{percent(SAME_SHARE)} apart, and by more than half of their spreads; they are the same if half of their spreads "
    f"allows no difference of more than {percent(MATTERS_SHARE)}. Published figures come from other machines."
)


def experiments(bench: Bench) -> Iterator[tuple[Experiment, Result, Section]]:
    """Yield the experiments that ran, each with its section."""
    judged = verdicts(bench)
    for experiment, result in experiments_run(bench):
        of_this = [verdict for verdict in judged if verdict.number == experiment.number and experiment.claims]
        yield experiment, result, _section(experiment, result, of_this)


def _section(experiment: Experiment, result: Result, judged: Sequence[ClaimVerdict]) -> Section:
    means = {option.name: option.means for option in experiment.sizes}
    sizes = "; ".join(f"{name} {value:,} ({means[name]})" for name, value in result.sizes.items() if name in means)
    sentences: list[Sentence] = [f"{capitalized(experiment.summary)}." + (f" Sizes: {sizes}." if sizes else "")]
    sentences += [Styled(f"Different from the text: {experiment.changed}.", "dim")] if experiment.changed else []
    sentences += [Styled(f"Problem: {result.problem}", "problem")] if result.problem else []
    columns = [Column("figure"), *number_columns("here", "spread", "published")]
    notes: list[Sentence] = [
        (outcome_of(verdict), f"  {verdict.claim} ({claimed_by(verdict)}): {reason_of(verdict)}.") for verdict in judged
    ]
    return Section(
        f"{experiment.number} {experiment.name}",
        sentences,
        tables=[
            ReportTable(f"Figures of {experiment.number}", columns, figure_rows(experiment, result)),
            *tables_by_size(result),
        ],
        notes=notes,
        name=experiment.number,
    )


def outcome_of(verdict: ClaimVerdict) -> Styled:
    """Return the verdict on a claim."""
    return Styled(OUTCOME_WORDS[verdict.outcome], verdict.outcome)


def bench_to_text(bench: Bench, *, width: int = 100, color: bool = False, recorded: bool = False) -> str:
    """Return the bench as text for a terminal of this width; `recorded` marks one that comes with pinprof."""
    return laid_out(_paragraphs(bench, recorded=recorded), width=width, color=color)


def _paragraphs(bench: Bench, *, recorded: bool) -> Iterator[RenderableType]:
    yield Text(printable(machine_line(bench)), "bold")
    if recorded:
        yield Text(printable(recorded_elsewhere(bench)), "bold yellow")
    yield Text(MEANING_OF_SPREAD, "dim")
    has_claims = any(experiment.claims for experiment, _ in experiments_run(bench)) or not bench.results
    if has_claims:
        yield Text(f"Claimed by: {claimants()}.", "dim")
    for _, _, part in experiments(bench):
        yield from in_terminal(part)
    if has_claims and not_run(bench):
        yield section("Not run")
        yield bullet(not_run(bench))
    pieces = advice(bench)
    if pieces:
        yield section(f"What to do on {'that' if recorded else 'this'} machine")
        yield from (bullet(piece.text) for piece in pieces)
    if has_claims:
        yield from in_terminal(_claims(bench))


def _claims(bench: Bench) -> Section:
    judged = [verdict for verdict in verdicts(bench) if bench.result(verdict.number)]
    counts = Counter(OUTCOME_WORDS[verdict.outcome] for verdict in judged)
    numbers = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOME_WORDS.values() if counts[outcome])
    rows = [(f"{verdict.number} {verdict.claim}", outcome_of(verdict)) for verdict in judged]
    tables = [ReportTable("Claims", [Column("claim"), Column("verdict")], rows)]
    return Section("What holds of the published claims", [f"{numbers}."], tables=tables)


def machine_line(bench: Bench) -> str:
    """Return the machine and the date of a bench in a line."""
    machine, link = bench.machine, bench.machine.link
    parts = (
        machine.gpu,
        link.name if link else None,
        f"{machine.cpu}, {machine.cores} cores" if machine.cpu else f"{machine.cores} cores",
        f"driver {machine.driver}" if machine.driver else None,
        f"CUDA {machine.cuda}" if machine.cuda else None,
        f"torch {machine.torch}",
        f"Python {machine.python}",
        bench.date,
        "quick" if bench.quick else None,
    )
    return " · ".join(part for part in parts if part)


def recorded_elsewhere(bench: Bench) -> str:
    """Return the remark on results that come with pinprof."""
    return f"Recorded on an {bench.machine.gpu}, {bench.date}; not this machine."


def experiments_run(bench: Bench) -> list[tuple[Experiment, Result]]:
    """Return the experiments that ran, in order; what predictions use is measured in place of E13."""
    ran = [(experiment, result) for experiment in EXPERIMENTS if (result := bench.result(experiment.number))]
    return [(RATES if result.figure(LAUNCH.name) else experiment, result) for experiment, result in ran]


def figure_rows(experiment: Experiment, result: Result) -> list[tuple[str, ...]]:
    """Return the figures without a size: name, value, spread, and the published value of the same name."""
    published = experiment.published_at(result.sizes)
    return [
        (
            figure.name,
            shown(figure),
            spread(figure) or NOTHING,
            amount(figure.unit, published[figure.name, None]) if (figure.name, None) in published else NOTHING,
        )
        for figure in result.figures
        if figure.size is None
    ]


def by_text(judged: Iterable[ClaimVerdict]) -> list[ClaimVerdict]:
    """Return verdicts in the order of the texts: the reader of one finds its statements together."""
    texts = list(TEXTS_WITH_CLAIMS)
    return sorted(judged, key=lambda verdict: texts.index(verdict.sources[0].partition(":")[0]))


def claimed_by(verdict: ClaimVerdict) -> str:
    """Return who claims it, by short names."""
    return ", ".join(verdict.sources)


def claimants() -> str:
    """Return the sources behind the short names."""
    return "; ".join(f"{name}: {title}" for name, title in TEXTS_WITH_CLAIMS.items())


def reason_of(verdict: ClaimVerdict) -> str:
    """Return the reason for a verdict, and, if it differs from the text, what may cause that."""
    return f"{verdict.text}. Why it may differ: {verdict.differs}" if verdict.differs else verdict.text


def tables_by_size(result: Result) -> list[ReportTable]:
    """Return the figures with sizes, one table for those of the same sizes: rows are sizes, columns figures."""
    names = dict.fromkeys(figure.name for figure in result.figures if figure.size is not None)
    by_sizes: dict[tuple[int, ...], list[str]] = {}
    for name in names:
        sizes = sorted({figure.size for figure in result.figures if figure.name == name and figure.size is not None})
        by_sizes.setdefault(tuple(sizes), []).append(name)
    return [_grid(result, sizes, together) for sizes, together in by_sizes.items()]


def _grid(result: Result, sizes: Iterable[int], names: Sequence[str]) -> ReportTable:
    first, shown_size = ("workers", str) if names[0] == WORKERS_FIGURE else ("size", size)
    lines = [(shown_size(number), *(_cell(result.figure(name, number)) for name in names)) for number in sizes]
    caption = f"By {first}, with the spread as a share of the median, or as a range if that is above 100 %"
    return ReportTable(caption, [Column(first), *number_columns(*names)], lines)


def _cell(figure: Measured | None) -> str:
    if figure is None:
        return NOTHING
    if not spread(figure) or not figure.median:
        return shown(figure)
    most = max(figure.high - figure.median, figure.median - figure.low) / abs(figure.median)
    if most > 1:
        return f"{shown(figure)} ({spread(figure)})"
    return f"{shown(figure)} ±{percent(most)}"


def not_run(bench: Bench) -> str:
    """Return the experiments that did not run."""
    return ", ".join(experiment.number for experiment in EXPERIMENTS if bench.result(experiment.number) is None)


# The page


def to_html(bench: Bench, *, recorded: bool = False) -> Markup:
    """Return the bench as one self-contained page; `recorded` marks one that comes with pinprof."""
    sections = list(experiments(bench))
    links = [("What to do", "advice"), ("Claims", "claims")]
    links += [(experiment.number, part.name) for experiment, _, part in sections] + [("How", "how")]
    items = [Markup("<li><span>{}</span></li>").format(inline_html(piece.text)) for piece in advice(bench)]
    nothing = Markup('<p class="headline">The experiments that advice is made of did not run or failed.</p>')
    pieces = [
        top("heading", f"pinprof bench on {bench.machine.gpu}", "what copies between host and GPU cost", links),
        note(Markup("<strong>{}</strong>").format(recorded_elsewhere(bench))) if recorded else "",
        note(machine_line(bench)),
        Markup('<h3 id="advice">What to do</h3>'),
        Markup('<ol class="best">\n{}\n</ol>').format(lines(items)) if items else nothing,
        Markup('<h3 id="claims">What holds of the published claims</h3>'),
        note(f"Claimed by: {claimants()}."),
        _claims_on_page(bench),
        *(on_page(part, lines(_pictures(result.pictures))) for _, result, part in sections),
        Markup('<h3 id="how">How it was measured</h3>'),
        note(HOW_MEASURED),
        note(f"Not run: {not_run(bench)}.") if not_run(bench) else "",
    ]
    heading = "pinprof bench: what copies between host and GPU cost"
    return report_page(f"pinprof bench: {bench.machine.gpu}", heading, lines(pieces))


def _claims_on_page(bench: Bench) -> Markup:
    titles = ("claim", "verdict", "program", "claimed by", "published", "measured (spread)")
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
    return table("Each claim, and what the figures of this machine say of it", list(map(Column, titles)), rows)


def _pictures(pictures: Sequence[Picture]) -> Iterator[Markup]:
    """Yield the timeline of one step of each case, all as long as the longest."""
    end_ms = max((bar.end_ms for picture in pictures for bar in picture.bars), default=0.0)
    track = Markup('<div class="track"><span>{}</span><div>{}</div></div>')
    piece = Markup('<i class="hue" style="{};left:{:.3f}%;width:{:.3f}%" title="{}: {}, {}"></i>')
    for picture in pictures:
        length = duration(picture.step_ms * NS_PER_MS) if picture.step_ms else ""
        caption = picture.case + (f" (the beginning of a step of {length})" if length else "")
        tracks = []
        for row in sorted({bar.row for bar in picture.bars}, key=lambda row: (row != HOST_ROW, row != STALL_ROW, row)):
            bars = [
                piece.format(
                    hue(EVENT_KINDS[_kind_of_bar(bar)].colour),
                    100 * bar.start_ms / end_ms,
                    100 * (bar.end_ms - bar.start_ms) / end_ms,
                    row,
                    bar.name,
                    duration((bar.end_ms - bar.start_ms) * NS_PER_MS),
                )
                for bar in picture.bars
                if bar.row == row and end_ms
            ]
            tracks.append(track.format(row, Markup().join(bars)))
        said = (f"{caption}: {picture.why}" if picture.why else caption, f"As wide as {duration(end_ms * NS_PER_MS)}.")
        figure = Markup('<figure class="chart wide"><figcaption>{}</figcaption>{}</figure>')
        yield figure.format(inline_html(". ".join(said)), lines(tracks))


def _kind_of_bar(bar: Bar) -> int:
    if bar.row == STALL_ROW:
        return kinds.FIRST_STALL_KIND + WAIT_CAUSES.index(bar.name if bar.name in WAIT_CAUSES else "other")
    return kinds.CALL_KIND if bar.row == HOST_ROW else KIND_OF_STREAM_BAR.get(bar.name, kinds.KERNEL_KIND)


# JSON


class BenchDocument(Bench, frozen=True, kw_only=True, tag_field="schema", tag="pinprof.bench/1"):
    """What `pinprof bench --json` writes, and `--machine` reads."""

    link: Annotated[Link | None, doc("the link; null where it is not known")]
    verdicts: Annotated[Sequence[ClaimVerdict], doc("on each claim")]
    advice: Annotated[Sequence[Advice], doc("what to do")]


def bench_to_json(bench: Bench) -> str:
    """Return the bench as JSON text that `results.from_json` reads again."""
    of_bench = {"verdicts": verdicts(bench), "advice": advice(bench)}
    document = filled(BenchDocument, bench, link=bench.machine.link, **of_bench)
    return msgspec.json.encode(document).decode() + "\n"
