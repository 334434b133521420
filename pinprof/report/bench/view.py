"""What the bench of a machine shows of each experiment, and all of it for the terminal."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from pinprof.bench.advice import advice
from pinprof.bench.experiment import Experiment
from pinprof.bench.results import Bench, Result
from pinprof.bench.verdicts import ClaimVerdict, verdicts
from pinprof.report.bench.words import (
    OUTCOMES,
    SPREAD,
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
    why,
)
from pinprof.report.elements import Column, number_columns
from pinprof.report.layout import bullet, laid_out, section
from pinprof.report.view import Section, Sentence, Styled, Table, in_terminal
from pinprof.report.words import printable


def experiments(bench: Bench) -> Iterator[tuple[Experiment, Result, Section]]:
    """Yield the experiments that ran, each with what is shown of it."""
    judged = verdicts(bench)
    for known, result in ran(bench):
        of_this = [verdict for verdict in judged if verdict.number == known.number]
        yield known, result, _section(bench, known, result, of_this)


def _section(bench: Bench, known: Experiment, result: Result, judged: Sequence[ClaimVerdict]) -> Section:
    sizes = sizes_line(known, result)
    sentences: list[Sentence] = [sentence(known.summary) + (f" Sizes: {sizes}." if sizes else "")]
    sentences += [Styled(f"Different from the text: {known.changed}.", "dim")] if known.changed else []
    sentences += [Styled(f"Problem: {result.problem}", "problem")] if result.problem else []
    columns = [Column("figure"), *number_columns("here", "spread", "published")]
    notes: list[Sentence] = [f"not used: {reason}" for reason in not_used(bench, result)]
    notes += [f"published: {said(known, result)}"] if said(known, result) else []
    notes += [(outcome_of(verdict), f"  {verdict.claim} ({claimed(verdict)}): {why(verdict)}.") for verdict in judged]
    return Section(
        f"{known.number} {known.name}",
        sentences,
        tables=[Table(f"Figures of {known.number}", columns, rows(bench, known, result)), *grids(bench, result)],
        notes=notes,
        name=known.number,
    )


def outcome_of(verdict: ClaimVerdict) -> Styled:
    """Return what became of a claim."""
    return Styled(OUTCOMES[verdict.outcome], verdict.outcome)


def to_text(bench: Bench, *, width: int = 100, color: bool = False, recorded: bool = False) -> str:
    """Return the bench as text for a terminal of this width; `recorded` marks one that comes with pinprof."""
    return laid_out(_parts(bench, recorded=recorded), width=width, color=color)


def _parts(bench: Bench, *, recorded: bool) -> Iterator[RenderableType]:
    yield Text(printable(machine_line(bench)), "bold")
    if recorded:
        yield Text(printable(elsewhere(bench)), "bold yellow")
    yield Text(SPREAD, "dim")
    yield Text(f"Claimed by: {texts()}.", "dim")
    for _, _, shown in experiments(bench):
        yield from in_terminal(shown)
    if not_run(bench):
        yield section("Not run")
        yield bullet(not_run(bench))
    pieces = advice(bench)
    if pieces:
        yield section(f"What to do on {'that' if recorded else 'this'} machine")
        yield from (bullet(piece.text) for piece in pieces)
