"""What the guard costs: the step of each workload with it and without it, in turns.

    PYTHONPATH=. python scripts/bench_guard.py [--json FILE] [--scale X] [--rounds N] [NAME...]

A round is some steps without the guard, then as many with it, then without it again; the figures are medians over the
rounds. `after` is the step without the guard once there has been one: it must not differ from `plain`.
"""

import json
import statistics
from pathlib import Path
from typing import Any

import click
import torch

import pinprof
from pinprof.workloads import WORKLOADS, Workload
from scripts.recordings import machine_of, warmed, window

WARM_UP_STEPS = 10
ROUND_S = 0.5
"""How long a part of a round takes without the guard."""
DEVICE = torch.device("cuda")
COLUMNS = ("before_ms", "plain_ms", "guarded_ms", "after_ms")


def measured(workload: Workload, scale: float, rounds: int) -> dict[str, Any]:
    """Return the figures of a workload."""
    with workload.build(DEVICE, scale) as step:
        warmed(step, DEVICE, WARM_UP_STEPS)
        steps = max(3, round(ROUND_S * 1e3 / window(step, DEVICE, 0.0, 5)))

        def plain() -> float:
            return window(step, DEVICE, 0.0, steps)

        def guarded() -> tuple[float, int]:
            """Return the step under the guard, whose own start is left out, and how many violations there were."""
            with pinprof.guard("collect") as guard:
                step()
                return plain(), len(guard.violations)

        before = [plain() for _ in range(rounds)]  # no guard in this process yet, for the first workload
        rows = [(plain(), *guarded(), plain()) for _ in range(rounds)]
    without, with_guard, violations, after = zip(*rows, strict=True)
    medians = dict(zip(COLUMNS, map(statistics.median, (before, without, with_guard, after)), strict=True))
    ratio = medians["guarded_ms"] / medians["plain_ms"]
    return {"name": workload.name, "steps": steps, **medians, "ratio": ratio, "violations": max(violations)}


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Where to write the figures.")
@click.option("--scale", default=1.0, show_default=True)
@click.option("--rounds", default=3, show_default=True)
def main(names: tuple[str, ...], file: Path | None, scale: float, rounds: int) -> None:
    """Measure the workloads, or those of these names; print a row for each, and write all as JSON."""
    if not torch.cuda.is_available():
        raise click.ClickException("it needs a GPU that torch can see")
    rows = []
    print(f"{'workload':24}{''.join(f'{name:>12}' for name in COLUMNS)}{'ratio':>8}  found")
    for workload in WORKLOADS:
        if names and workload.name not in names:
            continue
        rows.append(row := measured(workload, scale, rounds))
        times = "".join(f"{row[name]:12.3f}" for name in COLUMNS)
        print(f"{row['name']:24}{times}{row['ratio']:8.2f}  {row['violations']}", flush=True)
    if file:
        facts = {**machine_of("cuda"), "scale": scale, "workloads": rows}
        file.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
