"""Hold predictions against the pairs of programs that were measured before and after a fix.

Run from the repository root:  PYTHONPATH=. python scripts/score_pairs.py [FOLDER]

Prints a table: the step before, as the trace shows it and as pinprof estimates it without being told; the step after,
predicted from the trace and the measured step before, and measured. Pairs marked * were not looked at while the replay
was made.
"""

import json
import statistics
import sys
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pinprof.details import Details
from pinprof.prediction import Scenario, predict_scenario, replay_of
from pinprof.prediction.scenarios import edits_of
from pinprof.ranks.compare import compare_ranks
from pinprof.ranks.rank import measure_rank
from pinprof.replay import Replay
from pinprof.report.job.view import verdict_line
from pinprof.trace import read_trace

MS = 1e6
FEWEST = 2
"""The least number of pairs whose percentiles mean something."""
NS_BOUND = 0.9
"""Of the step: a GPU that is busy for less leaves the step to the host."""


class Score(NamedTuple):
    """One pair; steps in ms."""

    name: str
    looked_at: bool
    options: str
    before: float
    traced: float
    estimated: float
    low: float
    high: float
    host_bound: bool
    predicted: float
    after: float
    held: bool
    """Whether the range of the prediction holds the measured step."""
    saving: tuple[float, float]
    """The range of the saving, as findings state it, as a share of the step before: 0 at least."""
    estimated_saving: tuple[float, float]
    """The same if the step before is estimated from the trace alone."""
    waits: float
    """How long the host waits per step in the calls that the fix spares; of ranks, the longest."""
    idle: float
    """How long the GPU is idle in the step before."""

    @property
    def error(self) -> float:
        """Of the predicted step, as a share of the measured one."""
        return self.predicted / self.after - 1

    @property
    def saved(self) -> float:
        """What was saved, as a share of the step before; longer counts as nothing."""
        return max(1 - self.after / self.before, 0.0)

    @property
    def saving_held(self) -> bool:
        """Whether the range of the saving holds the measured one."""
        return self.saving[0] <= self.saved <= self.saving[1]

    def points(self, saving: float) -> float:
        """Return the error of a saving in ms, in points of the step before; positive where it promises too much."""
        return (saving - (self.before - self.after)) / self.before * 100

    @property
    def estimate_error(self) -> float:
        """Of the estimated step before, as a share of the measured one."""
        return self.estimated / self.before - 1


def scores(folder: Path) -> list[Score]:
    """Return the scores of all pairs in a folder for whose fix there is a scenario."""
    pairs: dict[str, Any] = json.loads((folder / "pairs.json").read_text())["pairs"]
    return [score(folder, name, pair) for name, pair in pairs.items() if pair["scenario"]]


def score(folder: Path, name: str, pair: dict[str, Any]) -> Score:
    """Return the score of one pair, of one process or of several ranks."""
    before, after = pair["before_ms"]["median"], pair["after_ms"]["median"]
    replay, measured = replays(folder, pair.get("trace", name), before)
    changes: dict[str, Any] = {
        key: (value,) if key == "drop_syncs" else value for key, value in pair["scenario"].items()
    }
    scenario = Scenario(**changes)
    prediction, of_estimate = (predict_scenario(of_step, scenario) for of_step in (measured, replay))
    ranges = ((bound / (before * MS) for bound in each.saving.range_ns) for each in (prediction, of_estimate))
    saving, estimated_saving = ((max(least, 0.0), max(most, 0.0)) for least, most in ranges)
    busy = max(rank.steps.busy_ns or 0.0 for rank in replay.ranks)
    low, high = replay.step.range_ns or (0.0, 0.0)
    return Score(
        name,
        pair["looked_at"],
        " ".join(option(name, value) for name, value in pair["scenario"].items()),
        before,
        max(rank.steps.traced_ns or 0.0 for rank in replay.ranks) / MS,
        (replay.step.step_ns or 0.0) / MS,
        low / MS,
        high / MS,
        busy < NS_BOUND * before * MS,
        prediction.predicted_ns / MS,
        after,
        prediction.range_ns[0] <= after * MS <= prediction.range_ns[1],
        saving,
        estimated_saving,
        max(waited_ns(rank, scenario) for rank in replay.ranks) / MS,
        max(before - busy / MS, 0.0),
    )


def waited_ns(details: Details, scenario: Scenario) -> float:
    """Return how long the host waits per step in the calls whose wait a scenario removes or shortens."""
    edits, stalls = edits_of(details, scenario), details.syncs.stalls
    spared = np.isin(np.arange(len(stalls.call)), list(edits.unwaited | edits.unblocked))
    spared |= np.isin(stalls.copy, list(edits.pinned | edits.ahead))
    step = details.trace.links.call_step[stalls.call]
    spared &= details.trace.steps.holds(step)
    return float(stalls.stall_ns[spared].sum()) / max(int(details.trace.steps.complete.sum()), 1)


def drifts(folder: Path) -> list[float]:
    """Return by what share each window of the programs before the fix differs from the one before it."""
    pairs: dict[str, Any] = json.loads((folder / "pairs.json").read_text())["pairs"]
    windows = {pair.get("trace", name): pair["before_ms"].get("windows", []) for name, pair in pairs.items()}
    return [later / earlier - 1 for means in windows.values() for earlier, later in pairwise(means)]


@lru_cache(maxsize=1)
def replays(folder: Path, trace: str, before_ms: float) -> tuple[Replay, Replay]:
    """Return the recorded program at the step that it is estimated to take, and at the one that is told."""
    files = sorted(folder.glob(f"{trace}.rank*.before.json.gz")) or [folder / f"{trace}.before.json.gz"]
    estimated = replay_of([read_trace(file) for file in files])
    return estimated, Replay(estimated.ranks, before_ms * MS)


def option(name: str, value: str | bool) -> str:
    """Return the option of a scenario as on the command line, without the places of dropped waits."""
    words = f"--{name.replace('_', '-')}"
    return words if value is True or name == "drop_syncs" else f"{words} {value}"


def of_errors(errors: list[float], unit: str = " %", scale: float = 100.0) -> str:
    """Return median, 90th percentile and largest of the sizes of errors: of shares in percent."""
    sizes = sorted(abs(error) * scale for error in errors)
    percentile = statistics.quantiles(sizes, n=10, method="inclusive")[8] if len(sizes) > 1 else sizes[0]
    figures = (("median", statistics.median(sizes)), ("90th percentile", percentile), ("largest", sizes[-1]))
    return ", ".join(f"{name} {figure:.1f}{unit}" for name, figure in figures)


def tell_jobs(folder: Path) -> None:
    """Print for each job of a folder what was done to it, who is said to hold up the others, and what a rule saves."""
    pairs: dict[str, Any] = json.loads((folder / "pairs.json").read_text())["pairs"]
    print("\n| job | before, ms | after, ms | late | told | rule | saves, predicted, ms | measured, ms |")
    print("|---|---|---|---|---|---|---|---|")
    for name, pair in pairs.items():
        files = sorted(folder.glob(f"{name}.rank*.before.json.gz"))
        job = compare_ranks([measure_rank(read_trace(file)) for file in files]) if len(files) > 1 else None
        if job is None or "late" not in pair:
            continue
        before, after = pair["before_ms"]["median"], pair["after_ms"]["median"]
        found = next((one.finding for one in job.findings if one.finding.rule.id == pair["rule"]), None)
        saving = found.saving if found else None
        low, high = (bound / MS for bound in saving.range_ns) if saving else (0.0, 0.0)
        told = f"{saving.saving_ns / MS:.2f} ({low:.2f} to {high:.2f})" if saving else "-"
        print(
            f"| {name} | {before:.2f} | {after:.2f} | {pair['late'] or 'none'} | {verdict_line(job).partition(':')[0]} "
            f"| {pair['rule'] or '-'} | {told} | {before - after:.2f} |"
        )


FORECASTS: dict[str, Callable[[Score], float]] = {
    "predicted": lambda pair: pair.before - pair.predicted,
    "nothing": lambda _: 0.0,
    "the whole wait": lambda pair: pair.waits,
    "all idle time of the GPU": lambda pair: pair.idle,
}
"""What pinprof forecasts to be saved, and what could be said without a replay; in ms."""


def main() -> None:
    """Print the table and what it comes to."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "traces/pairs")
    pairs = scores(folder)
    print("| program | change | before, ms | in the trace | estimated | after, predicted | after, measured | error |")
    print("|---|---|---|---|---|---|---|---|")
    for pair in pairs:
        mark = "" if pair.looked_at else " *"
        print(
            f"| {pair.name}{mark} | `{pair.options}` | {pair.before:.2f} | {pair.traced:.2f} "
            f"| {pair.estimated:.2f} ({pair.low:.2f} to {pair.high:.2f}) "
            f"| {pair.predicted:.2f} | {pair.after:.2f} | {pair.error * 100:+.1f} % |"
        )
    for name, chosen in (("all", pairs), ("not looked at", [pair for pair in pairs if not pair.looked_at])):
        print(f"\nPredicted step after the fix, {name}, {len(chosen)} pairs: {of_errors([e.error for e in chosen])}")
        print(f"the range holds the measured step in {sum(pair.held for pair in chosen)} of {len(chosen)}")
        for step, ranges in (
            ("measured", [(pair.saved, *pair.saving) for pair in chosen]),
            ("estimated", [(pair.saved, *pair.estimated_saving) for pair in chosen]),
        ):
            above, below = (
                sum(saved > most for saved, _, most in ranges),
                sum(saved < least for saved, least, _ in ranges),
            )
            width = statistics.median(most - least for _, least, most in ranges)
            print(
                f"with a step that is {step}, the range of the saving holds the measured one in "
                f"{len(chosen) - above - below}; {above} are larger, {below} smaller; its median width is "
                f"{width:.1%} of the step"
            )
        print(f"No change predicted: {of_errors([pair.before / pair.after - 1 for pair in chosen])}")
        for forecast, saving in FORECASTS.items():
            points = [pair.points(saving(pair)) for pair in chosen]
            mean = f"mean {statistics.mean(points):+.1f} points of the step"
            print(f"Saving, {forecast}: {mean}; of the sizes {of_errors(points, '', 1.0)}")
    for bound in ("host", "GPU"):
        chosen = [pair for pair in pairs if pair.host_bound == (bound == "host")]
        if len(chosen) < FEWEST:
            continue
        inside = sum(pair.low <= pair.before <= pair.high for pair in chosen) / len(chosen)
        width = statistics.median((pair.high - pair.low) / pair.estimated for pair in chosen)
        print(f"\nEstimated step, {bound}-bound, {len(chosen)}: {of_errors([e.estimate_error for e in chosen])};")
        print(f"as traced: {of_errors([pair.traced / pair.before - 1 for pair in chosen])};")
        print(f"the measured step lies in the range in {inside * 100:.0f} %; median width {width * 100:.0f} %")
    tell_jobs(folder)
    between = drifts(folder)
    if len(between) >= FEWEST:
        print(f"\nA window of a program before the fix and the next one differ by: {of_errors(between)}")


if __name__ == "__main__":
    main()
