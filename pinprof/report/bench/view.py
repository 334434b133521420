"""The bench of a machine in words: a section for each experiment, the whole bench for the terminal, and its JSON."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated

from rich.console import RenderableType
from rich.text import Text

from pinprof.bench.advice import Advice, advice
from pinprof.bench.catalogue import EXPERIMENTS, ClaimVerdict, verdicts
from pinprof.bench.experiment import SOURCES, Experiment
from pinprof.bench.figures import MATTERS, SAME, Refused, amount, refused, shown, spread
from pinprof.bench.results import Bench, Figure, Result, by_line
from pinprof.document import doc, filled
from pinprof.pci_express import Link
from pinprof.report.html import Column, number_columns
from pinprof.report.terminal import bullet, laid_out, section
from pinprof.report.view import ReportTable, Section, Sentence, Styled, in_terminal
from pinprof.report.words import NOTHING, capitalized, printable
from pinprof.units import counted, percent, size

OUTCOMES = {
    "confirmed": "confirmed",
    "refuted": "refuted",
    "depends": "it depends",
    "unknown": "not known",
    "unjudged": "not judged",
}
NOT_USED = "(not used)"
"""Follows a rate that is not used."""
WORKERS = "batch, N workers"
"""The figure whose sizes are numbers of workers; those of all others are bytes."""
ADVICE = {
    "pinning_pays_from_htod": "Pin what is copied to the GPU",
    "pinning_pays_from_dtoh": "Pin what is copied from the GPU",
    "pinning_paid_after": "Pinning is paid for",
    "pin_then_copy": "x.pin_memory().to(device)",
    "side_stream": "A side stream for copies",
    "pageable_free_up_to": "Pageable memory and non_blocking",
    "pin_workers": "Enough for the pin thread",
    "link_reached": "The link",
}
"""The titles of the pieces of advice."""
SPREAD = (
    "The spread goes from the 10th percentile of the lowest round to the 90th of the highest; of five rounds or more "
    "these two are left out. Where rounds differ, it goes as far as another bench may, judged by them and by how much "
    "those of the other figures differ. Each round is a process of its own; the rounds are spread over the whole "
    "bench. --quick makes one round."
)
HOW = (
    f"After a warm-up each figure is the median of repeated runs. {SPREAD} Times are taken with CUDA events, or with a "
    f"synchronize on both sides. Two figures differ if their spreads do not overlap and their medians are more than "
    f"{percent(SAME)} apart; they are the same if their medians are not, and their spreads allow no difference of more "
    f"than {percent(MATTERS)}. A rate whose spread goes beyond what the link carries is not used. Published figures "
    "come from other machines."
)


def experiments(bench: Bench) -> Iterator[tuple[Experiment, Result, Section]]:
    """Yield the experiments that ran, each with its section."""
    judged = verdicts(bench)
    for experiment, result in experiments_run(bench):
        of_this = [verdict for verdict in judged if verdict.number == experiment.number]
        yield experiment, result, _section(bench, experiment, result, of_this)


def _section(bench: Bench, experiment: Experiment, result: Result, judged: Sequence[ClaimVerdict]) -> Section:
    means = {option.name: option.means for option in experiment.sizes}
    sizes = "; ".join(f"{name} {value:,} ({means[name]})" for name, value in result.sizes.items() if name in means)
    sentences: list[Sentence] = [f"{capitalized(experiment.summary)}." + (f" Sizes: {sizes}." if sizes else "")]
    sentences += [Styled(f"Different from the text: {experiment.changed}.", "dim")] if experiment.changed else []
    sentences += [Styled(f"Problem: {result.problem}", "problem")] if result.problem else []
    columns = [Column("figure"), *number_columns("here", "spread", "published")]
    notes: list[Sentence] = [f"not used: {rate.text}" for rate in refused(bench) if rate.number == result.number]
    published = other_published(experiment, result)
    notes += [f"published: {published}"] if published else []
    notes += [
        (outcome_of(verdict), f"  {verdict.claim} ({claimed_by(verdict)}): {reason_of(verdict)}.") for verdict in judged
    ]
    return Section(
        f"{experiment.number} {experiment.name}",
        sentences,
        tables=[
            ReportTable(f"Figures of {experiment.number}", columns, figure_rows(bench, experiment, result)),
            *tables_by_size(bench, result),
        ],
        notes=notes,
        name=experiment.number,
    )


def outcome_of(verdict: ClaimVerdict) -> Styled:
    """Return the verdict on a claim."""
    return Styled(OUTCOMES[verdict.outcome], verdict.outcome)


def bench_to_text(bench: Bench, *, width: int = 100, color: bool = False, recorded: bool = False) -> str:
    """Return the bench as text for a terminal of this width; `recorded` marks one that comes with pinprof."""
    return laid_out(_paragraphs(bench, recorded=recorded), width=width, color=color)


def _paragraphs(bench: Bench, *, recorded: bool) -> Iterator[RenderableType]:
    yield Text(printable(machine_line(bench)), "bold")
    if recorded:
        yield Text(printable(recorded_elsewhere(bench)), "bold yellow")
    yield Text(SPREAD, "dim")
    yield Text(f"Claimed by: {claimants()}.", "dim")
    for _, _, part in experiments(bench):
        yield from in_terminal(part)
    if not_run(bench):
        yield section("Not run")
        yield bullet(not_run(bench))
    pieces = advice(bench)
    if pieces:
        yield section(f"What to do on {'that' if recorded else 'this'} machine")
        yield from (bullet(piece.text) for piece in pieces)
    yield from in_terminal(_claims(bench, "that" if recorded else "this"))


def _claims(bench: Bench, which: str) -> Section:
    """Return the section with a row for each claim of the experiments that ran: the deciding figure and the verdict."""
    ran = {experiment.number for experiment, _ in experiments_run(bench)}
    judged = [verdict for verdict in verdicts(bench) if verdict.number in ran]
    counts = Counter(OUTCOMES[verdict.outcome] for verdict in judged)
    numbers = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES.values() if counts[outcome])
    columns = [Column("claim"), Column(f"on {which} machine"), Column("verdict")]
    rows = [(f"{verdict.number} {verdict.claim}", _first(verdict.text), outcome_of(verdict)) for verdict in judged]
    return Section("What holds of the published claims", [f"{numbers}."], tables=[ReportTable("Claims", columns, rows)])


def _first(text: str) -> str:
    """Return a text up to its first semicolon, without an unclosed bracket."""
    first = text.partition("; ")[0]
    return (first if first.count("(") == first.count(")") else first.rpartition(" (")[0]) or NOTHING


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
    """Return the experiments that ran, in the order of the catalogue."""
    return [(experiment, result) for experiment in EXPERIMENTS if (result := bench.result(experiment.number))]


def figure_rows(bench: Bench, experiment: Experiment, result: Result) -> list[tuple[str, ...]]:
    """Return the figures without a size: name, value, spread, and the published value of the same name."""
    marks = _marks(bench, result)
    published = experiment.published_at(result.sizes)
    return [
        (
            figure.name,
            shown(figure) + marks(figure),
            spread(figure) or NOTHING,
            amount(figure.unit, published[figure.name]) if figure.name in published else NOTHING,
        )
        for figure in result.figures
        if figure.size is None
    ]


def other_published(experiment: Experiment, result: Result) -> str:
    """Return the published figures that have no row in the table; empty if there are none."""
    units = {figure.name: figure.unit for figure in result.figures if figure.size is not None}
    of_other_sizes = ", ".join(f"{name} {value:,}" for name, value in experiment.texts_sizes(result.sizes).items())
    parts = [
        f"{figure.figure} at {size(figure.size)} {amount(units[figure.figure], figure.value)}"
        for figure in experiment.published
        if figure.size is not None and figure.figure in units
    ]
    parts += [f"figures for {of_other_sizes}"] if experiment.published and of_other_sizes and not parts else []
    return "; ".join(parts)


def claimed_by(verdict: ClaimVerdict) -> str:
    """Return who claims it, by short names."""
    return ", ".join(verdict.sources)


def claimants() -> str:
    """Return the sources behind the short names."""
    return "; ".join(f"{name}: {title}" for name, title in SOURCES.items())


def reason_of(verdict: ClaimVerdict) -> str:
    """Return the reason for a verdict, and, if it differs from the text, what may cause that."""
    return f"{verdict.text}. Why it may differ: {verdict.differs}" if verdict.differs else verdict.text


def _marks(bench: Bench, result: Result) -> Callable[[Figure], str]:
    """Return a function that returns the mark of a figure: `NOT_USED` or an empty text."""
    of_this = {(rate.figure, rate.size) for rate in refused(bench) if rate.number == result.number}
    return lambda figure: f" {NOT_USED}" if (figure.name, figure.size) in of_this else ""


def tables_by_size(bench: Bench, result: Result) -> list[ReportTable]:
    """Return the figures with sizes, one table for those of the same sizes: rows are sizes, columns figures."""
    names = dict.fromkeys(figure.name for figure in result.figures if figure.size is not None)
    by_sizes: dict[tuple[int, ...], list[str]] = {}
    for name in names:
        sizes = sorted({figure.size for figure in result.figures if figure.name == name and figure.size is not None})
        by_sizes.setdefault(tuple(sizes), []).append(name)
    marks = _marks(bench, result)
    return [_grid(result, sizes, together, marks) for sizes, together in by_sizes.items()]


def _grid(result: Result, sizes: Iterable[int], names: Sequence[str], marks: Callable[[Figure], str]) -> ReportTable:
    first, shown_size = ("workers", str) if names[0] == WORKERS else ("size", size)
    lines = [(shown_size(number), *(_cell(result.figure(name, number), marks) for name in names)) for number in sizes]
    caption = f"By {first}, with the spread as a share of the median, or as a range if that is above 100 %"
    return ReportTable(caption, [Column(first), *number_columns(*names)], lines)


def _cell(figure: Figure | None, marks: Callable[[Figure], str]) -> str:
    if figure is None:
        return NOTHING
    if not spread(figure) or not figure.median:
        return shown(figure) + marks(figure)
    most = max(figure.high - figure.median, figure.median - figure.low) / abs(figure.median)
    if most > 1:
        return f"{shown(figure)} ({spread(figure)}){marks(figure)}"
    return f"{shown(figure)} ±{percent(most)}{marks(figure)}"


def advice_value(piece: Advice) -> str:
    """Return the value of a piece of advice as its headline."""
    if piece.value is None:
        return {"bytes": "at no size", "copies": "never"}.get(piece.unit, NOTHING)
    if piece.unit == "bytes":
        return f"{'up to' if piece.name == 'pageable_free_up_to' else 'from'} {size(piece.value)}"
    if piece.unit == "copies":
        return f"after {counted(piece.value, 'copy', 'copies')}"
    if piece.unit == "workers":
        return counted(piece.value, "worker")
    if piece.unit == "of the link":
        return percent(piece.value)
    return f"{piece.value:.3g} {piece.unit}"


def not_run(bench: Bench) -> str:
    """Return the experiments that did not run."""
    return ", ".join(experiment.number for experiment in EXPERIMENTS if bench.result(experiment.number) is None)


class BenchDocument(Bench, frozen=True, kw_only=True, tag_field="schema", tag="pinprof.bench/1"):
    """What `pinprof bench --json` writes, and `--machine` reads."""

    link: Annotated[Link | None, doc("the link; null where it is not known")]
    refused: Annotated[Sequence[Refused], doc("rates that are not used")]
    verdicts: Annotated[Sequence[ClaimVerdict], doc("on each claim")]
    advice: Annotated[Sequence[Advice], doc("what to do")]


def bench_to_json(bench: Bench) -> str:
    """Return the bench as JSON text that `results.from_json` reads again."""
    of_bench = {"refused": refused(bench), "verdicts": verdicts(bench), "advice": advice(bench)}
    return by_line(filled(BenchDocument, bench, link=bench.machine.link, **of_bench)) + "\n"
