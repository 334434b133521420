"""Record every pair on this machine: both sides traced, and both timed without a profiler.

Run from the repository root:  PYTHONPATH=. python scripts/record_pairs.py OUT_DIR [--only NAME]...

Each measurement has a process of its own. One runs at a time, so that timing has quiet.
"""

import sys
import time
from pathlib import Path

import click
import torch

from scripts.pair_programs.parts import Step
from scripts.pairs import PAIRS, Pair, pair
from scripts.recordings import (
    Alone,
    Notes,
    budget_option,
    device_option,
    end_with,
    in_words,
    machine_of,
    of_windows,
    only_option,
    out_argument,
    record,
    scale_option,
    warmed,
    window,
)

WARM_UP_STEPS = 20
PLAIN_WINDOWS = 5
LEAST_SECONDS = 0.3  # of each plain window
ALONE_SECONDS = 60  # no measurement may take longer than this
SIDES = ("before", "after")


@click.command()
@out_argument
@only_option
@click.option("--missing", is_flag=True, help="Leave out the pairs that OUT has already.")
@device_option
@scale_option
@click.option(
    "--rounds", default=2, show_default=True, help="How often to time both sides: each time all pairs in turn."
)
@budget_option
def main(
    out: Path,
    only: tuple[str, ...],
    missing: bool,
    device: str,
    scale: float,
    rounds: int,
    budget: float,
) -> None:
    """Record the pairs into OUT, with pairs.json; what OUT has of other pairs is kept."""
    began = time.perf_counter()
    asked = [pair(name) for name in only] or list(PAIRS)
    recorder = Recorder(out, device, scale)
    for number in range(rounds):
        remaining = [entry for entry in asked if recorder.rounds(entry) == number or (number == 0 and not missing)]
        for entry in remaining:
            if time.perf_counter() > began + budget:
                print(f"{entry.name}: no time left in round {number + 1}", flush=True)
            else:
                recorder.take(entry, records=not number)
    recorded = sum(recorder.rounds(entry) > 0 for entry in asked)
    print(f"{recorded} of {len(asked)} pairs in {time.perf_counter() - began:.0f} s", flush=True)
    end_with(recorder.failed)


class Recorder:
    """Measures pairs in processes of their own and keeps pairs.json up to date."""

    def __init__(self, out: Path, device: str, scale: float) -> None:
        self._out, self._device, self._scale = out, device, scale
        self._alone = Alone("fork", ALONE_SECONDS)
        self._notes = Notes(out / "pairs.json", "pairs", (entry.name for entry in PAIRS))
        problem, machine = self._alone.run(machine_of, device)
        self.failed = ["machine"] if problem else []
        command = " ".join(["PYTHONPATH=. python scripts/record_pairs.py", out.name, *sys.argv[2:]])
        self._notes.save(machine={**(machine or {}), "scale": scale}, command=command)

    def rounds(self, pair: Pair) -> int:
        """Return how often both sides of the pair have been timed."""
        entry = self._notes.entries.get(pair.name)
        return len(entry["before_ms"]["windows"]) // PLAIN_WINDOWS if entry else 0

    def take(self, pair: Pair, *, records: bool) -> None:
        """Time both sides of the pair, once more or for the first time; then record both."""
        began = time.perf_counter()
        windows: dict[str, list[float]] = {}
        sizes: list[int] = []
        problem = None
        for side in SIDES:
            if not problem:
                problem, windows[side] = self._alone.run(measure_plain, pair.name, side, self._device, self._scale)
        for side in SIDES if records else ():
            if not problem:
                problem, size = self._alone.run(record_side, pair.name, side, str(self._out), self._device, self._scale)
                sizes.append(size)
        if problem:
            self.failed.append(pair.name)
        else:
            if not records:
                earlier = self._notes.entries[pair.name]
                windows = {side: earlier[f"{side}_ms"]["windows"] + windows[side] for side in SIDES}
            files = "".join(f", {size / 1000:.0f} kB" for size in sizes)
            problem = self._kept(pair, windows) + files
        print(f"{pair.name:24} {time.perf_counter() - began:5.1f} s  {problem}", flush=True)

    def _kept(self, pair: Pair, windows: dict[str, list[float]]) -> str:
        """Note the windows, and return them in words."""
        before, after = (of_windows(windows[side]) for side in SIDES)
        entry = {"scenario": pair.scenario, "looked_at": pair.looked_at, "before_ms": before, "after_ms": after}
        self._notes.keep(pair.name, entry)
        saved = 100 * (1 - after["median"] / before["median"])
        return f"{in_words(before)} -> {in_words(after)} ms, saves {saved:.1f} %"


def built(name: str, side: str, device: torch.device, scale: float) -> Step:
    """Return the step of one side after its warm-up."""
    torch.manual_seed(0)
    return warmed(pair(name).build(device, side == "after", scale), device, WARM_UP_STEPS)


def measure_plain(name: str, side: str, device_name: str, scale: float) -> list[float]:
    """Return the mean step of several windows in ms, each synchronized at its ends only."""
    device = torch.device(device_name)
    step = built(name, side, device, scale)
    return [window(step, device, LEAST_SECONDS) for _ in range(PLAIN_WINDOWS)]


def record_side(name: str, side: str, out: str, device_name: str, scale: float) -> int:
    """Record one side as a user would; return the size of the file."""
    device = torch.device(device_name)
    return record(built(name, side, device, scale), device, Path(out) / f"{name}.{side}.json.gz")


if __name__ == "__main__":
    main()
