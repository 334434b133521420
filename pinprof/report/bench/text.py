"""The bench of a machine for the terminal: its figures beside the published ones, verdicts, and what to do."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from pinprof.bench.advice import advice
from pinprof.bench.experiment import Experiment
from pinprof.bench.results import Bench, Result
from pinprof.bench.verdicts import Verdict, verdicts
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
    texts,
    why,
)
from pinprof.report.layout import bullet, laid_out, section, table
from pinprof.report.words import printable

STYLES = {"confirmed": "green", "refuted": "red", "depends": "yellow", "unknown": "dim", "unjudged": "dim"}


def to_text(bench: Bench, *, width: int = 100, color: bool = False, recorded: bool = False) -> str:
    """Return the bench as text for a terminal of this width; `recorded` marks one that comes with pinprof."""
    return laid_out(_parts(bench, recorded=recorded), width=width, color=color)


def _parts(bench: Bench, *, recorded: bool) -> Iterator[RenderableType]:
    yield Text(printable(machine_line(bench)), "bold")
    if recorded:
        yield Text(printable(elsewhere(bench)), "bold yellow")
    yield Text(SPREAD, "dim")
    yield Text(f"Claimed by: {texts()}.", "dim")
    judged = verdicts(bench)
    for known, result in ran(bench):
        yield from _experiment(bench, known, result, [verdict for verdict in judged if verdict.number == known.number])
    if not_run(bench):
        yield section("Not run")
        yield bullet(not_run(bench))
    found = advice(bench)
    if found:
        yield section(f"What to do on {'that' if recorded else 'this'} machine")
        yield from (bullet(piece.text) for piece in found)


def _experiment(bench: Bench, known: Experiment, result: Result, judged: Sequence[Verdict]) -> Iterable[RenderableType]:
    yield section(f"{known.number} {known.name}")
    yield Text(sentence(known.summary))
    if known.changed:
        yield Text(f"Different from the text: {known.changed}.", "dim")
    if result.problem:
        yield Text(f"Problem: {printable(result.problem)}", "bold red")
    compared = rows(bench, known, result)
    if compared:
        figures = table("figure", "here", "spread", "published", text_columns=1)
        for row in compared:
            figures.add_row(*row)
        yield figures
    for grid in grids(bench, result):
        of_sizes = table(*map(printable, grid.columns), text_columns=0)
        for cells in grid.rows:
            of_sizes.add_row(*cells)
        yield of_sizes
    yield from (bullet(f"not used: {reason}") for reason in not_used(bench, result))
    if said(known, result):
        yield bullet(f"published: {said(known, result)}")
    for verdict in judged:
        words = f"  {verdict.claim} ({claimed(verdict)}): {printable(why(verdict))}."
        yield Padding(Text.assemble((OUTCOMES[verdict.outcome], STYLES[verdict.outcome]), words), (0, 0, 0, 2))
