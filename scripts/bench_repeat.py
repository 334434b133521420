"""How well `pinprof bench` repeats: which verdicts of two benches differ, and how many medians of one the other holds.

PYTHONPATH=. python scripts/bench_repeat.py first.json second.json [first.json second.json ...]
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pinprof.bench.catalogue import verdicts
from pinprof.bench.figures import shown, spread
from pinprof.bench.results import Bench, Figure, from_json
from pinprof.units import percent, size

MEASURED = ("ms", "GB/s")
"""Units of times and rates; the others are counts and answers."""


class Repeat(NamedTuple):
    """A figure that two benches have."""

    number: str
    first: Figure
    second: Figure

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


def main(*files: str) -> None:
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


if __name__ == "__main__":
    main(*sys.argv[1:])
