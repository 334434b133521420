"""Makes of a recorded bench its page, and the tables of traces/BENCH.md: verdicts, and figures with the published ones.

PYTHONPATH=. python scripts/bench_page.py traces/bench.json traces/bench.html > bench.md
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pinprof.bench.catalogue import verdicts
from pinprof.bench.results import Bench, from_json
from pinprof.report.bench.page import to_html
from pinprof.report.bench.view import (
    OUTCOMES,
    claimed_by,
    experiments_run,
    figure_rows,
    machine_line,
    other_published,
    reason_of,
    tables_by_size,
)
from pinprof.report.words import NOTHING


def main(source: str, page: str) -> None:
    """Write the page, and print the tables."""
    bench = from_json(Path(source).read_bytes(), source)
    Path(page).write_text(to_html(bench, recorded=True), encoding="utf-8")
    print("\n".join(_markdown(bench)))


def _markdown(bench: Bench) -> Iterator[str]:
    yield f"{machine_line(bench)}\n"
    yield from _table(("", "claim", "by", "published", "measured", "here", "why"), _claims(bench))
    figures = [
        (known.number, row.name, row.here, row.spread, row.published)
        for known, result in experiments_run(bench)
        for row in figure_rows(bench, known, result)
        if row.published != NOTHING
    ]
    yield ""
    yield from _table(("", "figure", "measured", "spread", "published"), figures)
    for known, result in experiments_run(bench):
        published = other_published(known, result)
        for grid in tables_by_size(bench, result):
            yield f"\n{known.number} {known.name}" + (f" (published: {published})" if published else "")
            yield ""
            yield from _table([column.title for column in grid.columns], [list(map(str, row)) for row in grid.rows])


def _claims(bench: Bench) -> Iterator[Sequence[str]]:
    for verdict in verdicts(bench):
        figures = (verdict.published or NOTHING, verdict.measured or NOTHING)
        outcome = OUTCOMES[verdict.outcome]
        yield verdict.number, verdict.claim, claimed_by(verdict), *figures, outcome, reason_of(verdict)


def _table(columns: Sequence[str], lines: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for line in lines:
        yield f"| {' | '.join(cell.replace('|', '/') for cell in line)} |"


if __name__ == "__main__":
    main(*sys.argv[1:3])
