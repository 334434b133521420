"""Examines `pinprof ab` with real programs: false alarms, slow-downs that it finds, and the causes that it names.

    PYTHONPATH=. python scripts/exam_ab.py run OUT --subject mlp --same 20 --at-once 2 --seconds 1 --limit-s 60
    PYTHONPATH=. python scripts/exam_ab.py run OUT --plant op --plant python --slower 10 --percent 2 --at-once 2
    PYTHONPATH=. python scripts/exam_ab.py bisect OUT --case mlp:python --revisions 12 --slow 7 --broken 5
    PYTHONPATH=. python scripts/exam_ab.py summary OUT

`--same N` compares each program with itself, N times; `--slower N` with a copy that was made slower by `--percent`.
Each comparison appends a line to `OUT/comparisons.jsonl`; a second run goes on where one ended. `--at-once` runs
several side by side, which is what makes a machine busy. The size of a slow-down is found by trying larger ones; its
true size comes from all pairs of all its comparisons. `bisect` makes a git history with one slow revision, and lets
`pinprof bisect` find it, by the command itself.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from math import comb, expm1, sqrt
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pinprof.ab.plan
from pinprof.ab import Bounds, Measurement, ProgramVersion, Wishes, measure_versions, record
from pinprof.ab.pairs import Pairs, time_first
from pinprof.ab.plan import TURN_S, Plan
from pinprof.ab.sequential_test import differences, is_by_quickest
from pinprof.ab.times import Pair
from pinprof.ab.worker import AUTO

import pinprof
from pinprof.errors import PinprofError
from scripts.slow_downs import KINDS, SUBJECTS, Plant, Subject, planted, write_history, write_program

Noted = dict[str, Any]
TRIED_PERCENT = 25.0
"""A slow-down is tried at about this size, which few pairs can measure, and then made smaller in proportion."""
TRIES = 3


def main() -> None:
    """Run what the command line asks for, or sum up what has run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "bisect", "summary"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", choices=list(KINDS), default="cpu")
    parser.add_argument("--subject", action="append", choices=list(SUBJECTS), default=[])
    parser.add_argument("--plant", action="append", default=[])
    parser.add_argument("--case", action="append", default=[], help="SUBJECT:PLANT, in place of all with all")
    parser.add_argument("--others", type=Path, default=Path("programs"), help="the folder with others' repositories")
    parser.add_argument("--same", type=int, default=0, help="comparisons of each program with itself")
    parser.add_argument("--slower", type=int, default=0, help="comparisons of each program with each slow-down")
    parser.add_argument("--percent", type=float, default=2.0, help="how large a slow-down is")
    parser.add_argument("--limit-percent", type=float, default=2.0)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="the time of each process")
    parser.add_argument("--turn-ms", type=float, default=1e3 * TURN_S, help="the shortest turn")
    parser.add_argument("--limit-s", type=float, default=60.0, help="the time of a comparison")
    parser.add_argument("--begin-at-most-s", type=float, default=1e9, help="begin no comparison later")
    parser.add_argument("--no-causes", action="store_true")
    parser.add_argument("--units", type=int, help="the size of the slow-down, where it is not to be tried")
    parser.add_argument("--revisions", type=int, default=12, help="of a history, after the good one")
    parser.add_argument("--slow", type=int, default=7, help="the number of the slow revision")
    parser.add_argument("--broken", type=int, action="append", default=[], help="a revision that does not run")
    asked = parser.parse_args()
    pinprof.ab.plan.TURN_S = asked.turn_ms / 1e3
    if asked.what == "run":
        Exam(asked).run()
    if asked.what == "bisect":
        Exam(asked).bisect()
    print(summary(asked.out))


class Exam:
    """Runs comparisons side by side, and notes each as it ends."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked = asked
        self.begun = time.monotonic()
        self.writing = threading.Lock()
        asked.out.mkdir(parents=True, exist_ok=True)
        self.file = asked.out / "comparisons.jsonl"
        self.done = {comparison["id"] for comparison in read(asked.out)}
        names = asked.subject or [name for name, subject in SUBJECTS.items() if asked.device in subject.busy]
        self.subjects = [SUBJECTS[name] for name in names]
        kinds = KINDS[asked.device]
        self.slow = [(subject, kinds[name]) for subject in self.subjects for name in asked.plant or kinds]
        if asked.case:
            self.slow = [
                (SUBJECTS[name], kinds[plant]) for name, _, plant in (case.partition(":") for case in asked.case)
            ]

    def run(self) -> None:
        """Run all that is not yet done and can end in time."""
        with ThreadPoolExecutor(self.asked.at_once) as pool:
            slow = self.slow if self.asked.slower else ()
            sizes = {(one.name, plant.name): pool.submit(self.size, one, plant) for one, plant in slow}
            for subject, plant, number in self.cases():
                size = sizes[subject.name, plant.name] if plant else None
                pool.submit(self.compare, subject, plant, number, size)

    def cases(self) -> Iterator[tuple[Subject, Plant | None, int]]:
        """Yield the comparisons, so that each case has had about as many whenever the time is over."""
        for number in range(max(self.asked.same, self.asked.slower)):
            yield from ((subject, None, number) for subject in self.subjects if number < self.asked.same)
            yield from ((subject, plant, number) for subject, plant in self.slow if number < self.asked.slower)

    def program(self, subject: Subject, plant: Plant | None, units: int, name: str) -> ProgramVersion:
        """Return a program in a folder of its own."""
        folder = self.asked.out / "programs" / name
        write_program(folder, subject, self.asked.others.resolve(), self.asked.device, plant, units)
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if self.asked.device == "cpu" else {}
        threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        return ProgramVersion(name, ("train.py", *subject.words), folder.resolve(), {**hidden, **threads})

    def size(self, subject: Subject, plant: Plant) -> int:
        """Return how many units of a slow-down make the program slower by the percent that were asked for."""
        if self.asked.units:
            return int(self.asked.units)
        if self.asked.begin_at_most_s - (time.monotonic() - self.begun) < 0:
            return 0
        file = self.asked.out / "sizes.json"
        key = f"{subject.name} {plant.name} {self.asked.device} {self.asked.percent:g}"
        with suppress(FileNotFoundError):
            sizes_measured = json.loads(file.read_text())
            if key in sizes_measured:
                return int(sizes_measured[key])
        units = self._sized(subject, plant)
        with self.writing:
            sizes_measured = json.loads(file.read_text()) if file.exists() else {}
            file.write_text(json.dumps({**sizes_measured, key: units}, indent=1))
        return units

    def _sized(self, subject: Subject, plant: Plant) -> int:
        name = f"size-{subject.name}-{plant.name}"
        plain, units, slower = self.program(subject, None, 0, f"{name}-0"), plant.begin, 0.0
        for tried in range(TRIES):
            programs = plain, self.program(subject, plant, units, f"{name}-{tried + 1}")
            slower = ratio_of(programs) - 1
            if TRIED_PERCENT / 2 <= 100 * slower <= TRIED_PERCENT * 2:
                break
            units = max(round(units * min(max(TRIED_PERCENT / 100 / max(slower, 0.01), 0.02), 50)), 1)
        return max(round(units * self.asked.percent / 100 / slower), 1)

    def compare(self, subject: Subject, plant: Plant | None, number: int, size: Future[int] | None) -> None:
        """Compare a program with itself, or with its slower copy, and note what came out."""
        asked = self.asked
        what = plant.name if plant else "same"
        name = f"{asked.device}-{subject.name}-{what}-{number}"
        if name in self.done or time.monotonic() - self.begun > asked.begin_at_most_s:
            return
        noted: Noted = {"id": name, "device": asked.device, "subject": subject.name, "plant": what}
        try:
            units = size.result() if size else 0
            if plant and not units:
                return
            programs = self.program(subject, None, 0, f"{name}-a"), self.program(subject, plant, units, f"{name}-b")
            noted |= {"units": units, "percent": asked.percent if plant else 0.0}
            noted |= compared(programs, asked)
        except (PinprofError, OSError, ValueError, ArithmeticError) as error:
            noted["error"] = f"{type(error).__name__}: {error}"
        noted["load"] = os.getloadavg()[0]
        with self.writing, self.file.open("a") as file:
            file.write(json.dumps(noted) + "\n")
        print(
            {key: value for key, value in noted.items() if key not in {"differences", "both", "causes"}},
            flush=True,
        )

    def bisect(self) -> None:
        """Let `pinprof bisect` find the slow revision of a history of each program."""
        for subject, plant in self.slow:
            self._bisect(subject, plant)

    def _bisect(self, subject: Subject, plant: Plant) -> None:
        asked = self.asked
        folder = asked.out / f"history-{asked.device}-{subject.name}-{plant.name}"
        source = subject.source(asked.others.resolve(), asked.device)
        units = self.size(subject, plant)
        texts = source, planted(source, subject.step, plant, units)
        good, slow = write_history(folder, texts, count=asked.revisions, slow=asked.slow, broken=asked.broken)
        begun = time.monotonic()
        noted: Noted = {"device": asked.device, "subject": subject.name, "plant": plant.name, "percent": asked.percent}
        noted |= {"units": units, "slow": slow}
        answer = self._pinprof(folder, "bisect", good, "HEAD", "train.py", *subject.words)
        noted |= {"seconds": time.monotonic() - begun, "found": answer["found"], "is_right": answer["found"] == slow}
        noted["tried"] = [
            [
                tried["commit"],
                tried["reason"] or tried["judgement"]["sentence"],
                (tried["judgement"] or {}).get("pair_count"),
            ]
            for tried in answer["tried"]
        ]
        noted["why"] = answer["reason"]
        if not asked.no_causes:
            against = self._pinprof(folder, "ab", "--base", good, "train.py", *subject.words)
            noted["last against good"] = [against[name] for name in ("sentence", "too_slow", "pair_count", "seconds")]
            noted["causes"] = [[cause["kind"], cause["what"], cause["where"]] for cause in against["causes"] or ()]
        (asked.out / f"{folder.name}.json").write_text(json.dumps(noted, indent=1))
        print(json.dumps(noted, indent=1), flush=True)

    def _pinprof(self, folder: Path, command: str, *words: str) -> Noted:
        """Return the JSON of a command of pinprof that runs in a folder."""
        asked, file = self.asked, folder.parent.resolve() / f"{folder.name}-{command}.json"
        options = ["--seconds", f"{asked.seconds}", "--minutes", f"{asked.limit_s / 60}", "--json", str(file)]
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if asked.device == "cpu" else {}
        home = str(Path(pinprof.__file__).parents[1])
        environment = {**os.environ, **hidden, "OMP_NUM_THREADS": "1", "PYTHONPATH": home}
        start = [sys.executable, "-m", "pinprof", command, "--force", *options]
        subprocess.run([*start, *words], cwd=folder, check=False, env=environment)
        return dict(json.loads(file.read_text()))


def ratio_of(programs: tuple[ProgramVersion, ProgramVersion]) -> float:
    """Return how much longer the second one's step is, by a few pairs."""
    first = [timed for program in programs for timed in time_first([program], AUTO, 0.5, 600.0)]
    plan = Plan.of(first, 1.0, 60.0)
    in_turns = not any(timed.children for timed in first)
    with closing(Pairs(programs, AUTO, [plan if in_turns else replace(plan, at_once=0)])) as pairs:
        return median(float(np.exp(pairs.pair(number).usual.value)) for number in range(2))


def compared(programs: tuple[ProgramVersion, ProgramVersion], asked: argparse.Namespace) -> Noted:
    """Return what a comparison says, with all that it has measured, and what it names as the cause."""
    start = time.monotonic()
    wishes = Wishes(Bounds(asked.limit_percent / 100, asked.limit_s), asked.seconds)
    measurement = measure_versions(programs, wishes)
    test, judgement = measurement.test, measurement.test.judgement
    noted = {
        "verdict": judgement.verdict,
        "ratio": judgement.ratio,
        "low": judgement.low,
        "high": min(judgement.high, 1e9),
        "pairs": len(test.pairs),
        "seconds": time.monotonic() - start,
        "of_pairs_s": test.seconds,
        "turns": "steps" if measurement.plan.takes_turns else "runs",
        "step_ms": measurement.first[0].usual_ns / 1e6,
        "by_quickest": is_by_quickest(test.pairs),
        "differences": differences(test.pairs).tolist(),
        "both": [[pair.usual.value, pair.usual.error, *_quickest(pair)] for pair in test.pairs],
    }
    return noted if asked.no_causes else {**noted, **causes(measurement, programs[1].folder / "traces")}


def _quickest(pair: Pair) -> list[float]:
    return [pair.quickest.value, pair.quickest.error] if pair.quickest else []


def causes(measurement: Measurement, folder: Path) -> Noted:
    """Return what is named as the cause, the first one first."""
    start = time.monotonic()
    recorded = record(measurement, AUTO, folder)
    for path in recorded.traces:
        path.unlink()
    return {
        "causes": [
            [cause.kind, cause.what, cause.where, cause.is_certain, cause.more_ns] for cause in recorded.causes or ()
        ],
        "why_no_cause": recorded.why,
        "recorded_s": time.monotonic() - start,
    }


def read(out: Path) -> list[Noted]:
    """Return what has been noted so far."""
    with suppress(FileNotFoundError):
        return [json.loads(line) for line in (out / "comparisons.jsonl").read_text().splitlines()]
    return []


def summary(out: Path) -> str:
    """Return false alarms, slow-downs found, causes named, and how long it took."""
    noted = read(out)
    lines = [f"{sum('error' in comparison for comparison in noted)} of {len(noted)} comparisons failed"]
    noted = [comparison for comparison in noted if "error" not in comparison]
    for device, plant in sorted({(comparison["device"], comparison["plant"]) for comparison in noted}):
        of_plant = [row for row in noted if (row["device"], row["plant"]) == (device, plant)]
        for subject in [*sorted({row["subject"] for row in of_plant}), ""]:
            rows = [row for row in of_plant if subject in {"", row["subject"]}]
            lines.append(f"{device:5}{plant:7}{subject or 'all':15}{_row(rows, plant)}")
    for device in sorted({comparison["device"] for comparison in noted}):
        rows = [row for row in noted if row["device"] == device and row["plant"] != "same"]
        if rows:
            lines.append(f"{device:5}{'every':7}{'all':15}{_row(rows, 'every')}")
    return "\n".join(lines)


def _row(rows: list[Noted], plant: str) -> str:
    count = len(rows)
    took = f"{median(row['seconds'] for row in rows):.0f} s, {median(row['pairs'] for row in rows):.0f} pairs"
    if plant == "same":
        wrong = sum(row["verdict"] in {"slower", "faster"} for row in rows)
        alike = sum(row["verdict"] == "no_difference" for row in rows)
        return f"{wrong:3} false alarms of {count:3} ({_share(wrong, count)}), {alike:3} no difference; {took}"
    slower = sum(row["verdict"] == "slower" for row in rows)
    pooled = np.concatenate([row["differences"] for row in rows])
    places = [place_of_cause(row) for row in rows if "causes" in row]
    right = f"cause first {sum(place == 1 for place in places)}, in three {sum(place <= 3 for place in places)}"  # noqa: PLR2004
    error = 100 * 1.25 * pooled.std() / sqrt(len(pooled))
    size = f"truly {100 * expm1(float(np.median(pooled))):+.2f} % +- {error:.2f}"
    return f"{slower:3} of {count:3} found ({_share(slower, count)}), {right} of {len(places)}; {size}; {took}"


def place_of_cause(noted: Noted) -> int:
    """Return the place of the right cause among those named; 99 if it is not named."""
    plant = KINDS[noted["device"]][noted["plant"]]
    right = (place for place, (kind, what, *_) in enumerate(noted["causes"], 1) if plant.is_named(kind, what))
    return next(right, 99)


def _share(some: int, count: int) -> str:
    """Return the 95 % interval of a share (Clopper and Pearson, Biometrika 26, 1934), by bisection of its tails."""
    low = _solve(lambda p: 1 - _at_most(some - 1, count, p) - 0.025) if some else 0.0
    high = _solve(lambda p: 0.025 - _at_most(some, count, p)) if some < count else 1.0
    return f"{100 * low:.0f} to {100 * high:.0f} %"


def _at_most(some: int, count: int, chance: float) -> float:
    return sum(comb(count, less) * chance**less * (1 - chance) ** (count - less) for less in range(some + 1))


def _solve(rising: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return low


if __name__ == "__main__":
    main()
