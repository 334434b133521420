"""The step of a program by its own clock: all steps, and the regular ones by a rule that is not pinprof's."""

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

WARM_UP_STEPS = 20
"""Left out at the start, or a quarter of the steps where there are few."""
LONGEST = 3.0
"""Times the median: a step whose own time, without waiting for input, is longer is irregular."""
NS_PER_MS = 1e6

Noted = dict[str, Any]


def of_run(noted: Noted) -> Noted:
    """Return what the noted ends of steps say, times in ms.

    A step that waits for input within an epoch is regular. One in which another pass over data begins, and that is
    longer than `LONGEST` medians with all its waiting, is not: workers are started there, or an evaluation is made.
    """
    ends, waited, epochs = (np.asarray(noted[name], np.int64) for name in ("ends_ns", "waited_ns", "epochs"))
    skipped = min(WARM_UP_STEPS, len(ends) // 4)
    steps, inputs, begun = (np.diff(each[skipped:]) for each in (ends, waited, epochs))
    if len(steps) == 0:
        return {"steps": 0}
    own = steps - inputs
    regular = own <= LONGEST * np.median(own)
    regular &= (begun == 0) | (steps <= LONGEST * np.median(steps))
    tail_ns = noted["synchronized_ns"] - noted["ends_ns"][-1]
    return {
        "steps": len(steps),
        "mean_ms": float(steps.mean()) / NS_PER_MS,
        "median_ms": float(np.median(steps)) / NS_PER_MS,
        "regular_ms": float(steps[regular].mean()) / NS_PER_MS,
        "regular_median_ms": float(np.median(steps[regular])) / NS_PER_MS,
        "irregular": int((~regular).sum()),
        "irregular_ms": float(steps[~regular].sum()) / NS_PER_MS,
        "input_share": float(inputs.sum() / steps.sum()),
        "queued_ms": tail_ns / NS_PER_MS,
        "steps_ms": [round(float(step) / NS_PER_MS, 3) for step in steps],
    }


def of_runs(runs: Sequence[Noted], figure: str = "regular_ms") -> tuple[float, float, float] | None:
    """Return the median, the least and the largest of a figure over the runs that have it."""
    values = [run[figure] for run in runs if run.get(figure) is not None]
    return (statistics.median(values), min(values), max(values)) if values else None
