"""The bench of a machine in words: a section for each experiment, the whole bench for the terminal, and its JSON."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import msgspec
from rich.console import RenderableType
from rich.text import Text

from pinprof.bench import EXPERIMENTS, verdicts
from pinprof.bench.advice import advice
from pinprof.bench.catalogue.bandwidth import LAUNCH, RATES
from pinprof.bench.experiment import TEXTS_WITH_CLAIMS, Experiment
from pinprof.bench.judge import MATTERS_SHARE, SAME_SHARE, ClaimVerdict
from pinprof.bench.results import Bench, Measured, Result, amount, shown, spread
from pinprof.document import doc, filled
from pinprof.ground.units import percent, size
from pinprof.pci_express import Link
from pinprof.prediction.pinning import Advice
from pinprof.report.html import Column, number_columns
from pinprof.report.terminal import bullet, laid_out, section
from pinprof.report.view import ReportTable, Section, Sentence, Styled, in_terminal
from pinprof.report.words import NOTHING, capitalized, printable

OUTCOME_WORDS = {
    "confirmed": "confirmed",
    "refuted": "refuted",
    "depends": "it depends",
    "unknown": "not known",
    "unjudged": "not judged",
}
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
    """Return the section with a row for each claim of the experiments that ran, and how many have which verdict."""
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
