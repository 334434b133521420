"""What recorded benches say: the page and the tables of traces/BENCH.md of one, and how well two repeat each other.

PYTHONPATH=. python scripts/bench_results.py page traces/bench.json traces/bench.html > bench.md
PYTHONPATH=. python scripts/bench_results.py repeat first.json second.json [first.json second.json ...]

The tables have verdicts, and figures with the published ones. `repeat` says which verdicts of two benches differ, and
how many medians of one the other holds.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pinprof.bench import verdicts
from pinprof.bench.results import Bench, Measured, from_json, shown, spread
from pinprof.ground.units import percent, size
from pinprof.report import bench as view
from pinprof.report.words import NOTHING

MEASURED = ("ms", "GB/s")
"""Units of times and rates; the others are counts and answers."""


class Repeat(NamedTuple):
    """A figure that two benches have."""

    number: str
    first: Measured
    second: Measured

    @property
    def is_within(self) -> bool:
        """Whether the second median lies in the spread of the first."""
        return self.first.low <= self.second.median <= self.first.high

    def __str__(self) -> str:
        """Return how far apart they are."""
        at = f" at {size(self.first.size)}" if self.first.size is not None else ""
        apart = percent(abs(self.second.median / self.first.median - 1)) if self.first.median else "all"
        return (
            f"{self.number} {self.first.name}{at}: {shown(self.second)}, {apart} from {shown(self.first)} "
            f"({spread(self.first) or 'one run'})"
        )


def repeats(first: Bench, second: Bench) -> Iterator[Repeat]:
    """Yield the times and rates that both benches have."""
    for result in first.results:
        other = second.result(result.number)
        for figure in result.figures if other else ():
            again = other.figure(figure.name, figure.size) if other else None
            if again is not None and figure.unit in MEASURED:
                yield Repeat(result.number, figure, again)


def flips(first: Bench, second: Bench) -> Iterator[str]:
    """Yield the claims on which the two disagree."""
    for one, other in zip(verdicts(first), verdicts(second), strict=True):
        if one.outcome != other.outcome:
            yield f"{one.number} {one.claim}: {one.outcome}, then {other.outcome}"


def print_repeats(*files: str) -> None:
    """Print of each pair of files what does not repeat, then how much does; of several pairs also how much in all."""
    benches = [from_json(Path(file).read_bytes(), file) for file in files]
    pairs = list(zip(benches[::2], benches[1::2], strict=True))
    same = sum([compare(*pair) for pair in pairs])
    if len(pairs) > 1:
        total = len(pairs) * len(verdicts(benches[0]))
        print(f"{same} of {total} verdicts of all pairs repeat ({percent(same / total)})")


def compare(first: Bench, second: Bench) -> int:
    """Print what does not repeat of two benches, and return how many verdicts do."""
    for one, other, title in (
        (first, second, "of the second in the first"),
        (second, first, "of the first in the second"),
    ):
        medians = list(repeats(one, other))
        for median in medians:
            if not median.is_within:
                print(f"  {median}")
        within = sum(median.is_within for median in medians)
        print(f"{within} of {len(medians)} medians {title} ({percent(within / len(medians)) if medians else 'none'})")
    changed, total = list(flips(first, second)), len(verdicts(first))
    for line in changed:
        print(f"  {line}")
    same = total - len(changed)
    print(f"{same} of {total} verdicts repeat ({percent(same / total)})")
    return same


def write_page(source: str, page: str) -> None:
    """Write the page, and print the tables."""
    bench = from_json(Path(source).read_bytes(), source)
    Path(page).write_text(view.to_html(bench, recorded=True), encoding="utf-8")
    print("\n".join(_markdown(bench)))


def _markdown(bench: Bench) -> Iterator[str]:
    yield f"{view.machine_line(bench)}\n"
    yield from _table(("", "claim", "by", "published", "measured", "here", "why"), _claims(bench))
    figures = [
        (experiment.number, *row)
        for experiment, result in view.experiments_run(bench)
        for row in view.figure_rows(experiment, result)
        if row[-1] != NOTHING
    ]
    yield ""
    yield from _table(("", "figure", "measured", "spread", "published"), figures)
    for experiment, result in view.experiments_run(bench):
        for grid in view.tables_by_size(result):
            yield f"\n{experiment.number} {experiment.name}"
            yield ""
            yield from _table([column.title for column in grid.columns], [list(map(str, row)) for row in grid.rows])


def _claims(bench: Bench) -> Iterator[Sequence[str]]:
    for verdict in view.by_text(verdicts(bench)):
        figures = (verdict.published or NOTHING, verdict.measured or NOTHING)
        outcome = view.OUTCOME_WORDS[verdict.outcome]
        yield verdict.number, verdict.claim, view.claimed_by(verdict), *figures, outcome, view.reason_of(verdict)


def _table(columns: Sequence[str], lines: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for line in lines:
        yield f"| {' | '.join(cell.replace('|', '/') for cell in line)} |"


if __name__ == "__main__":
    what, *files = sys.argv[1:]
    if what == "page":
        write_page(*files)
    else:
        print_repeats(*files)
