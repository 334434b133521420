"""Learn what a profiler costs from recordings and their measured steps, and judge it on what was left out.

Run from the repository root:

    PYTHONPATH=. python scripts/fit_calibration.py add FOLDER MACHINE     rows of traces/estimates.json from a folder
    PYTHONPATH=. python scripts/fit_calibration.py judge                  errors on what was left out, as a table

FOLDER is what scripts/record.py wrote, or holds traces of pinprof run, which measured their steps. A row has what the
estimate looks at, and the step replayed at some costs of the profiler: so the fit needs no traces.
"""

import json
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
import numpy as np

from pinprof.details import details_of
from pinprof.ground.outputs import write_whole
from pinprof.replay import Replay, calibration
from pinprof.replay.machine import pace
from pinprof.replay.program import Program
from pinprof.replay.settings import SHORT_OF_TRUTH
from pinprof.trace import read_trace

ROWS = Path("traces/estimates.json")
COSTS_NS = (0, 500, 1000, 1500, 2000, 2500, 3000, 3500, 4000, 5000, 6000, 7000, 8000, 9000, 10000, 12000)
"""At which each program is replayed."""
GPU_BOUND, SENSITIVE = 0.9, 1.1
"""The profiler's cost shows in the step only if the GPU works for less than the first share of it, and if the replay at
no cost takes at least the second number of times as long as at the most."""
NOTED = ("pairs.json", "steps.json", "rules.json", "truth.json")
"""Where the measured steps of a folder are."""
MS = 1e6


@dataclass(frozen=True)
class Row:
    """One recording; times of steps in ms."""

    program: str
    machine: str
    way: calibration.Way
    step: float
    """Measured without a profiler: the median of windows."""
    scatter: float
    """Of the windows: the largest less the least, as a share of the step."""
    traced: float
    busy: float
    """Of the GPU."""
    host_ns: float
    """Per recorded op and call."""
    launch_ns: float
    launch_spread: float
    steps: tuple[float, ...]
    """Replayed at each of `COSTS_NS`."""
    unfed: tuple[float, ...]
    """The same without the time of the input; nothing where that is not shorter."""
    by_workers: bool
    """Whether workers of a DataLoader made its batches."""
    error: float
    """`Program.step_error`; 0 of recordings that were read before there was such a figure."""

    @property
    def shows_cost(self) -> bool:
        """Whether the profiler's cost shows in the step, and the recording is at least as long."""
        shows = self.busy < GPU_BOUND * self.step and self.steps[0] > SENSITIVE * self.steps[-1]
        return shows and self.step <= self.traced

    @property
    def cost_ns(self) -> float:
        """The cost at which the replay takes the measured step."""
        return float(np.interp(-self.step, [-step for step in self.steps], COSTS_NS))

    def at(self, cost_ns: float, *, fed: bool = True) -> float:
        """Return the step that the estimate would be at a cost, or that without the time of the input."""
        step = float(np.interp(cost_ns, COSTS_NS, self.steps if fed or not self.unfed else self.unfed))
        return min(max(step, self.busy), self.traced)

    @property
    def share(self) -> float:
        """What `HOST_SHARE` would have to be."""
        return self.cost_ns / (self.host_ns * self.launch_spread)


@click.group()
def main() -> None:
    """Learn the profiler's cost, or judge what was learned."""


@main.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("machine")
def add(folder: Path, machine: str) -> None:
    """Add the recordings of FOLDER, made on MACHINE, to the rows; those that are there are replaced."""
    rows = list(rows_of(folder, machine))
    new = {(row.program, row.machine, row.way, row.step) for row in rows}
    kept = [row for row in stored() if (row.program, row.machine, row.way, row.step) not in new]
    lines = [json.dumps(asdict(row)) for row in (*kept, *rows)]
    write_whole(ROWS, "[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{len(rows)} rows of {folder}, {len(kept) + len(rows)} in all")


def stored() -> list[Row]:
    """Return the rows that are there."""
    entries = json.loads(ROWS.read_text()) if ROWS.exists() else []
    return [Row(**{**entry, "steps": tuple(entry["steps"]), "unfed": tuple(entry["unfed"])}) for entry in entries]


def rows_of(folder: Path, machine: str) -> Iterator[Row]:
    """Yield a row for each recording in a folder whose step was measured."""
    for path, name, windows in measured(folder):
        replay = Replay([details_of(read_trace(path))])
        if not replay.runs:
            continue
        (program,), (rank,) = replay.programs, replay.ranks
        step = statistics.median(windows) if windows else (replay.step.step_ns or 0.0) / MS
        steps, unfed = (replayed(program, replay.steps, speed) for speed in (1.0, math.inf))
        yield Row(
            name,
            machine,
            calibration.recording_mode([rank.trace]),
            round(step, 4),
            round((max(windows) - min(windows)) / step, 4) if windows else 0.0,
            round((rank.steps.traced_ns or 0.0) / MS, 4),
            round((rank.steps.busy_ns or 0.0) / MS, 4),
            round(calibration.host_ns_per_event(program), 1),
            round(program.launch_ns, 1),
            round(program.launch_spread, 4),
            steps,
            () if unfed == steps else unfed,
            rank.loader.by_workers,
            round(program.step_error, 4),
        )


def replayed(program: Program, steps: int, input_speed: float) -> tuple[float, ...]:
    """Return the step in ms at each of `COSTS_NS`."""
    costs = [replace(calibration.cost_of(cost), input_speed=input_speed) for cost in COSTS_NS]
    return tuple(round(pace([program], steps, cost).step_ns / MS, 4) for cost in costs)


def measured(folder: Path) -> Iterator[tuple[Path, str, list[float]]]:
    """Yield the recordings of a folder, each with its program and the windows in which its step was measured, in ms.

    No windows: the trace itself says what was measured.
    """
    steps_file = next((folder / name for name in NOTED if (folder / name).exists()), None)
    steps = json.loads(steps_file.read_text()) if steps_file else {}
    if "pairs" in steps:
        by_trace = {pair.get("trace", name): pair for name, pair in steps["pairs"].items()}
        for trace, pair in by_trace.items():
            path = folder / f"{trace}.before.json.gz"
            if path.exists():
                yield path, trace.removesuffix("_looped"), pair["before_ms"]["windows"]
        return
    programs = {name: times for name, times in steps.get("programs", steps.get("workloads", {})).items() if times}
    for path in sorted(folder.glob("*.json.gz")):
        name = path.name.split(".")[0] + ".mended" * (".mended." in path.name)
        times = programs.get(name)
        if times or not steps:
            windows = times.get("plain_ms", times)["windows"] if times else []
            yield path, name.removesuffix(".mended"), windows


@main.command()
def judge() -> None:
    """Print the errors of what is learned without a program, without a machine, and of what pinprof has."""
    rows = [row for row in stored() if row.shows_cost]
    programs, machines = {row.program for row in rows}, {row.machine for row in rows}
    print(f"{len(rows)} recordings of {len(programs)} programs on {len(machines)} machines\n")
    print("| left out | recordings | median error | 90th percentile | bias | in the range | its width |")
    print("|---|---|---|---|---|---|---|")
    for label, key in (("a program", lambda row: row.program), ("a machine", lambda row: row.machine)):
        table(label, list(left_out(rows, key)))
    table("nothing, as built in", [(row, calibration.HOST_SHARE[row.way]) for row in rows])
    for way in calibration.HOST_SHARE:
        table(f"nothing, {way}", [(row, calibration.HOST_SHARE[row.way]) for row in rows if row.way == way])
        shares = [row.share for row in rows if row.way == way]
        print(f"{way}: share {statistics.median(shares):.3f}", end="; ")
        print(", ".join(f"{value:.2f}" for value in np.percentile(shares, [5, 25, 50, 75, 95])))
    for machine in sorted(machines):
        table(f"nothing, {machine}", [(row, calibration.HOST_SHARE[row.way]) for row in rows if row.machine == machine])


def left_out(rows: Sequence[Row], key: Callable[[Row], str]) -> Iterator[tuple[Row, float]]:
    """Yield each recording with the share that is learned from those with another key."""
    shares = [(key(row), row.way, row.share) for row in rows]
    for row in rows:
        alike = [share for value, way, share in shares if value != key(row) and way == row.way]
        if alike:
            yield row, statistics.median(alike)


def table(label: str, judged: Sequence[tuple[Row, float]]) -> None:
    """Print a row of the table: the errors of the steps that these shares make."""
    errors, inside, widths = [], [], []
    for row, share in judged:
        middle, low, high = estimate(row, share)
        errors.append(middle / row.step - 1)
        inside.append(low <= row.step <= high)
        widths.append((high - low) / middle)
    sizes = np.abs(errors)
    print(
        f"| {label} | {len(judged)} | {np.median(sizes):.1%} | {np.percentile(sizes, 90):.1%} "
        f"| {np.median(errors):+.1%} | {np.mean(inside):.0%} | {np.median(widths):.0%} |"
    )


def estimate(row: Row, share: float) -> tuple[float, float, float]:
    """Return the step that is estimated at a share, and its range."""
    low, high = calibration.COST_BOUNDS
    cost = calibration.likely_ns(share, row.host_ns, row.launch_ns, row.launch_spread)
    noise = calibration.unsure_of(row.launch_ns, row.error, row.traced / row.at(cost) - 1)
    least, most = row.at(cost * high, fed=False) * (1 - noise), row.at(cost * low) * (1 + noise)
    longest = row.traced * (1 + SHORT_OF_TRUTH)
    return row.at(cost), max(least, row.busy), longest if row.by_workers else min(most, longest)


if __name__ == "__main__":
    main()
