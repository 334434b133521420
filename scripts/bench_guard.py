"""What the guard costs: the step of each workload with it and without it, in turns.

    PYTHONPATH=. python scripts/bench_guard.py [--json FILE] [--scale X] [--rounds N] [NAME...]

A round is some steps without the guard, then as many with it, then without it again; the figures are medians over the
rounds. `after` is the step without the guard once there has been one: it must not differ from `plain`.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import pinprof
from pinprof.workloads.catalogue import WORKLOADS, Workload

WARM_UP_STEPS = 10
ROUND_S = 0.5
"""How long a part of a round takes without the guard."""


def timed(step: Callable[[], None], steps: int) -> float:
    """Return the mean time of a step in ms, measured to the end of the steps' work on the GPU."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / steps * 1e3


def guarded(step: Callable[[], None], steps: int) -> tuple[float, int]:
    """Return the same under the guard, whose own start is left out, and how many violations there were."""
    with pinprof.guard("collect") as guard:
        step()
        return timed(step, steps), len(guard.violations)


def measured(workload: Workload, scale: float, rounds: int) -> dict[str, Any]:
    """Return the figures of a workload."""
    with workload.build(torch.device("cuda"), scale) as step:
        for _ in range(WARM_UP_STEPS):
            step()
        steps = max(3, round(ROUND_S * 1e3 / timed(step, 5)))
        before = [timed(step, steps) for _ in range(rounds)]  # no guard in this process yet, for the first workload
        rows = [(timed(step, steps), *guarded(step, steps), timed(step, steps)) for _ in range(rounds)]
    plain, with_guard, violations, after = zip(*rows, strict=True)
    medians = {
        "before_ms": statistics.median(before),
        "plain_ms": statistics.median(plain),
        "guarded_ms": statistics.median(with_guard),
        "after_ms": statistics.median(after),
    }
    ratio = medians["guarded_ms"] / medians["plain_ms"]
    return {"name": workload.name, "steps": steps, **medians, "ratio": ratio, "violations": max(violations)}


def main() -> None:
    """Measure, print a row per workload, and write all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads; default: all")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("Error: it needs a GPU that torch can see")
    rows = []
    print(f"{'workload':24}{'before, ms':>12}{'plain, ms':>12}{'guarded, ms':>13}{'after, ms':>12}{'ratio':>8}  found")
    for workload in WORKLOADS:
        if options.names and workload.name not in options.names:
            continue
        row = measured(workload, options.scale, options.rounds)
        rows.append(row)
        times = "".join(f"{row[key]:{width}.3f}" for key, width in COLUMNS)
        print(f"{row['name']:24}{times}{row['ratio']:8.2f}  {row['violations']}", flush=True)
    if options.json:
        machine = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "python": sys.version.split()[0]}
        options.json.write_text(json.dumps({**machine, "scale": options.scale, "workloads": rows}, indent=2) + "\n")


COLUMNS = (("before_ms", 12), ("plain_ms", 12), ("guarded_ms", 13), ("after_ms", 12))

if __name__ == "__main__":
    main()
