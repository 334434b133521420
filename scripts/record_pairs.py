"""Record every pair on this machine: both sides traced, and both timed without a profiler.

Run from the repository root:  PYTHONPATH=. python scripts/record_pairs.py OUT_DIR [--only NAME]...

Each measurement has a process of its own: CUPTI, once loaded, slows a process for ever after. All of them are forks of
this process, which imports torch once and never starts the GPU. One runs at a time, so that timing has quiet.
"""

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch

from pinprof.outputs import write_whole
from scripts.pair_programs.parts import Step, synchronize
from scripts.pairs import PAIRS, Pair, pair
from scripts.recordings import Alone, machine_of, of_windows, record, window

WARM_UP_STEPS = 20
PLAIN_WINDOWS = 5
LEAST_SECONDS = 0.3  # of each plain window
ALONE_SECONDS = 60  # no measurement may take longer than this
SIDES = ("before", "after")

Noted = dict[str, Any]


@click.command()
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--only", multiple=True, metavar="NAME", help="Record this pair alone; may be repeated.")
@click.option("--missing", is_flag=True, help="Leave out the pairs that OUT has already.")
@click.option("--device", default="cuda", show_default=True, help="cpu: to rehearse on a machine without GPU.")
@click.option("--scale", default=1.0, show_default=True, help="All sizes times this.")
@click.option("--jobs", default=1, show_default=True, help="How many pairs to record at a time; to rehearse only.")
@click.option(
    "--rounds", default=2, show_default=True, help="How often to time both sides: each time all pairs in turn."
)
@click.option("--budget", default=500.0, show_default=True, help="Start nothing new after this number of seconds.")
def main(
    out: Path,
    only: tuple[str, ...],
    missing: bool,
    device: str,
    scale: float,
    jobs: int,
    rounds: int,
    budget: float,
) -> None:
    """Record the pairs into OUT, with pairs.json; what OUT has of other pairs is kept."""
    began = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    asked = [pair(name) for name in only] or list(PAIRS)
    recorder = Recorder(out, device, scale, "fork" if jobs == 1 else "spawn")
    recorder.note_machine()
    for number in range(rounds):
        left = [known for known in asked if recorder.rounds(known) == number or (number == 0 and not missing)]
        work = partial(timely, recorder.next_round if number else recorder.first_round, began + budget)
        skipped = [known.name for known, done in zip(left, side_by_side(work, left, jobs), strict=True) if not done]
        if skipped:
            print(f"round {number + 1}: no time left for {', '.join(skipped)}", flush=True)
    recorded = sum(recorder.rounds(known) > 0 for known in asked)
    print(f"{recorded} of {len(asked)} pairs in {time.perf_counter() - began:.0f} s", flush=True)
    if recorder.failed:
        print(f"failed: {', '.join(recorder.failed)}", file=sys.stderr)
        sys.exit(1)


def side_by_side(work: Callable[[Pair], bool], pairs: list[Pair], jobs: int) -> list[bool]:
    """Do the work for all pairs, `jobs` at a time."""
    if jobs == 1:  # no threads: a fork would not have them
        return [work(pair) for pair in pairs]
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(work, pairs))


def timely(work: Callable[[Pair], None], deadline: float, pair: Pair) -> bool:
    """Do the work if there is time to start it; tell whether it was done."""
    if time.perf_counter() > deadline:
        return False
    work(pair)
    return True


class Recorder:
    """Measures pairs in processes of their own and keeps pairs.json up to date."""

    def __init__(self, out: Path, device: str, scale: float, start: str) -> None:
        self.failed: list[str] = []
        self._out, self._noted, self._device, self._scale = out, load_noted(out), device, scale
        self._alone = Alone(start, ALONE_SECONDS)

    def note_machine(self) -> None:
        """Note where and how the pairs are recorded."""
        problem, machine = self._alone.run(machine_of, self._device)
        if problem:
            self.failed.append("machine")
        self._noted["machine"] = {**(machine or {}), "scale": self._scale}
        self._noted["command"] = " ".join(
            ["PYTHONPATH=. python scripts/record_pairs.py", self._out.name, *sys.argv[2:]]
        )
        self._save()

    def rounds(self, pair: Pair) -> int:
        """Return how often both sides of the pair have been timed."""
        entry = self._noted["pairs"].get(pair.name)
        return len(entry["before_ms"]["windows"]) // PLAIN_WINDOWS if entry else 0

    def first_round(self, pair: Pair) -> None:
        """Time both sides of the pair, then record both."""
        began = time.perf_counter()
        problem, windows = self._time_both(pair)
        sizes: list[int] = []
        for side in SIDES:
            if not problem:
                problem, size = self._alone.run(record_side, pair.name, side, str(self._out), self._device, self._scale)
                sizes.append(size)
        if not problem:
            self._keep(pair, windows)
            problem = f"{self._summary(pair)}, {' and '.join(f'{size / 1000:.0f}' for size in sizes)} kB"
        else:
            self.failed.append(pair.name)
        print(f"{pair.name:24} {time.perf_counter() - began:5.1f} s  {problem}", flush=True)

    def next_round(self, pair: Pair) -> None:
        """Time both sides of the pair once more."""
        began = time.perf_counter()
        problem, windows = self._time_both(pair)
        if problem:
            self.failed.append(pair.name)
        else:
            earlier = self._noted["pairs"][pair.name]
            self._keep(pair, {side: earlier[f"{side}_ms"]["windows"] + windows[side] for side in SIDES})
        print(f"{pair.name:24} {time.perf_counter() - began:5.1f} s  {problem or self._summary(pair)}", flush=True)

    def _time_both(self, pair: Pair) -> tuple[str | None, dict[str, list[float]]]:
        windows: dict[str, list[float]] = {}
        for side in SIDES:
            problem, windows[side] = self._alone.run(measure_plain, pair.name, side, self._device, self._scale)
            if problem:
                return problem, windows
        return None, windows

    def _keep(self, pair: Pair, windows: dict[str, list[float]]) -> None:
        """Note the windows and write all that is noted."""
        entry: Noted = {"scenario": pair.scenario, "looked_at": pair.looked_at}
        entry |= {f"{side}_ms": of_windows(windows[side]) for side in SIDES}
        self._noted["pairs"][pair.name] = entry
        self._save()

    def _save(self) -> None:
        order = [known.name for known in PAIRS]
        pairs = dict(sorted(self._noted["pairs"].items(), key=lambda item: order.index(item[0])))
        write_whole(self._out / "pairs.json", json.dumps({**self._noted, "pairs": pairs}, indent=2) + "\n")

    def _summary(self, pair: Pair) -> str:
        entry = self._noted["pairs"][pair.name]
        before, after = (entry[f"{side}_ms"] for side in SIDES)
        parts = [f"{ms['median']:.3f} ({ms['min']:.3f} to {ms['max']:.3f})" for ms in (before, after)]
        return f"{' -> '.join(parts)} ms, saves {100 * (1 - after['median'] / before['median']):.1f} %"


def built(name: str, side: str, device: torch.device, scale: float) -> Step:
    """Return the step of one side after its warm-up."""
    torch.manual_seed(0)
    step = pair(name).build(device, side == "after", scale)
    for _ in range(WARM_UP_STEPS):
        step()
    synchronize(device)
    return step


def measure_plain(name: str, side: str, device_name: str, scale: float) -> list[float]:
    """Return the mean step of several windows in ms, each synchronized at its ends only."""
    device = torch.device(device_name)
    step = built(name, side, device, scale)
    return [window(step, device, LEAST_SECONDS) for _ in range(PLAIN_WINDOWS)]


def record_side(name: str, side: str, out: str, device_name: str, scale: float) -> int:
    """Record one side as a user would; return the size of the file."""
    device = torch.device(device_name)
    return record(built(name, side, device, scale), device, Path(out) / f"{name}.{side}.json.gz")


def load_noted(out: Path) -> Noted:
    """Return what was noted so far."""
    path = out / "pairs.json"
    noted: Noted = json.loads(path.read_text()) if path.exists() else {"machine": {}, "command": "", "pairs": {}}
    return noted


if __name__ == "__main__":
    main()
