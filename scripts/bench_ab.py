"""Measures `pinprof ab` itself: how often it says slower of a program against itself, and how soon it finds slow-downs.

    PYTHONPATH=. python scripts/bench_ab.py --compare 0 --compare 2 --compare 5 --repeat 4 --minutes 5
    PYTHONPATH=. python scripts/bench_ab.py --stream 100
    PYTHONPATH=.:tests python scripts/bench_ab.py --simulate 1000

The program is a small training on the CPU, whose step has 100 units of work, or more: 102 are a slow-down of 2 %. The
stream measures pairs of the program with itself, and then judges them again and again with the order of each pair drawn
anew: by the noise of this machine, thousands of comparisons.
"""

import argparse
import os
import tempfile
import time
from collections import Counter
from contextlib import closing
from itertools import product
from math import exp
from pathlib import Path
from random import Random
from statistics import median

from pinprof.ab import Bounds, Measurement, ProgramVersion, Wishes, measure_versions, record
from pinprof.ab.plan import Plan
from pinprof.ab.runs import StartedPairs, time_first
from pinprof.ab.sequential_test import differences, run_test
from pinprof.ab.times import Difference, Pair
from pinprof.ab.worker import AUTO

PROGRAM = """
import sys
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
units = 100 + int(sys.argv[1])
model = torch.nn.Linear(64, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
work, batch, target = torch.randn(96, 96), torch.randn(32, 64), torch.randint(0, 10, (32,))
while True:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(batch), target).backward()
    for _ in range(100):
        torch.mm(work, work)
    for _ in range(units - 100):
        torch.mm(work, work)  # the slow-down
    optimizer.step()
"""
RELABELLED = 2000


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", type=int, action="append", default=[], help="a slow-down in percent; 0 is none")
    parser.add_argument("--repeat", type=int, default=1, help="comparisons of each")
    parser.add_argument("--minutes", type=float, default=5.0, help="the time of a comparison")
    parser.add_argument("--seconds", type=float, default=2.0, help="the time of each process")
    parser.add_argument("--turns", choices=["auto", "steps", "runs"], default="auto")
    parser.add_argument("--limit-percent", type=float, default=2.0)
    parser.add_argument("--no-trace", action="store_true", help="do not look for the cause")
    parser.add_argument("--stream", type=int, default=0, help="pairs of the program with itself")
    parser.add_argument("--simulate", type=int, default=0, help="comparisons by simulation, of each kind of noise")
    asked = parser.parse_args()
    if asked.simulate:
        simulate(asked.simulate)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(PROGRAM)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
        for percent in asked.compare:
            compare(folder, percent, asked)
        if asked.stream:
            stream(folder, asked)


def simulate(comparisons: int) -> None:
    """Print how often a simulated version is called slower or faster, by the noise of the machine."""
    from pairs_of_noise import NOISES, simulated  # noqa: PLC0415  it is with the tests

    for noise in NOISES:
        row = [noise]
        for pairs, percent in product((20, 60), (0, 2, 5, 10)):
            verdicts = Counter(
                simulated(noise, percent / 100, Random(f"{noise} {seed}"), pairs=pairs)  # noqa: S311  no secret
                for seed in range(comparisons)
            )
            wrong_or_found = verdicts["slower"] + verdicts["faster"]
            row.append(f"{pairs} pairs {percent} %: {100 * wrong_or_found / comparisons:.1f} %")
        print("; ".join(row), flush=True)


def version(folder: Path, percent: int) -> ProgramVersion:
    """Return the program with so much more work in its step."""
    return ProgramVersion(f"{percent} % more", ("train.py", str(percent)), folder)


def compare(folder: Path, percent: int, asked: argparse.Namespace) -> None:
    """Compare the program with its slower version, and print what came out."""
    bounds = Bounds(asked.limit_percent / 100, asked.minutes * 60)
    wishes = Wishes(bounds, asked.seconds, asked.turns)
    verdicts: Counter[str] = Counter()
    took, right = [], 0
    for number in range(asked.repeat):
        start = time.monotonic()
        measurement = measure_versions((version(folder, 0), version(folder, percent)), wishes)
        judgement = measurement.test.judgement
        verdicts[judgement.verdict] += 1
        took.append(time.monotonic() - start)
        named = "" if asked.no_trace else likely_cause(measurement, folder / f"{percent}-{number}")
        right += "mm" in named
        print(
            f"{percent:3} % more: {judgement.verdict}, {100 * (judgement.ratio - 1):+.1f} % "
            f"({100 * (judgement.low - 1):+.1f} to {100 * (judgement.high - 1):+.1f}), "
            f"{len(measurement.test.pairs)} pairs, "
            f"{measurement.turns}, {took[-1]:.0f} s, load {os.getloadavg()[0]:.1f}; {named}",
            flush=True,
        )
    print(
        f"{percent:3} % more: {dict(verdicts)}, {median(took):.0f} s in the median, cause right in {right}", flush=True
    )


def likely_cause(measurement: Measurement, folder: Path) -> str:
    """Return what is named first as the cause."""
    recorded = record(measurement, AUTO, folder)
    if recorded.changes is None:
        return recorded.why
    return recorded.changes.causes[0].what if recorded.changes.causes else "no cause"


def stream(folder: Path, asked: argparse.Namespace) -> None:
    """Measure pairs of the program with itself, and judge them with many lots."""
    programs = (version(folder, 0), version(folder, 0))
    first = [timed for program in programs for timed in time_first([program], AUTO, asked.seconds, 600.0)]
    plan, rng, pairs = Plan.of(first, asked.seconds, 60.0), Random(0), list[Pair]()  # noqa: S311  no secret
    start = time.monotonic()
    with closing(StartedPairs(programs, AUTO, plan, 1)) as started:
        while len(pairs) < asked.stream:
            pairs.append(started.pair(int(rng.random() < 1 / 2)))
            if len(pairs) % 10 == 0:
                seconds = time.monotonic() - start
                print(f"{len(pairs)} pairs, {seconds:.0f} s, load {os.getloadavg()[0]:.1f}", flush=True)
    measured = differences(pairs).tolist()
    print("differences in %:", [round(100 * difference, 2) for difference in measured])
    for count in (12, 24, 48):
        for percent in (0, 2, 5, 10):
            print(f"{count} pairs, {percent} % more: {relabelled(measured, count, exp(0) + percent / 100)}", flush=True)


def relabelled(differences: list[float], count: int, ratio: float) -> dict[str, int]:
    """Return the verdicts of many comparisons of `count` consecutive pairs, each with an order of its own."""
    verdicts: Counter[str] = Counter()
    for seed in range(RELABELLED):
        rng = Random(seed)  # noqa: S311  no secret
        begin = rng.randrange(max(len(differences) - count, 0) + 1)
        verdicts[judged(differences[begin : begin + count], ratio, rng)] += 1
    return dict(verdicts)


def judged(differences: list[float], ratio: float, rng: Random) -> str:
    """Return the verdict on these pairs, were the second version slower by this ratio."""
    now = 0

    def measure(first: int) -> Pair:
        nonlocal now
        here = (differences[now] if first == 0 else -differences[now]) + ratio - 1
        now += 1
        return Pair(first, (1.0, ratio), (1.0, ratio), Difference(here), Difference(here))

    return run_test(measure, Bounds(0.02, len(differences)), clock=lambda: now, rng=rng).judgement.verdict


if __name__ == "__main__":
    main()
