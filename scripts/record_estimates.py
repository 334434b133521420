"""Record programs in the ways in which people do, each with its step without a profiler: truth for the estimates.

Run from the repository root:  PYTHONPATH=. python scripts/record_estimates.py OUT_DIR [--only NAME]...

The programs are those of scripts/launch_programs; scripts/record_pairs.py and `scripts/exam.py --traces-only` record
others. OUT_DIR gets the traces and steps.json; scripts/fit_calibration.py makes rows of traces/estimates.json from it.
"""

from pathlib import Path

import click
import torch

from scripts.alone import time_each, window
from scripts.launch_programs.models import PROGRAMS, program
from scripts.launch_programs.sides import EAGER
from scripts.record_launches import built
from scripts.recordings import record

RECORDED, WINDOWS, LEAST_SECONDS, ALONE_SECONDS = 2, 6, 0.25, 90
WAYS: dict[str, dict[str, bool]] = {"plain": {}, "stacks": {"stacks": True}, "memory": {"memory": True}}


@click.command()
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--only", multiple=True, metavar="NAME", help="Take this program alone; may be repeated.")
@click.option("--device", default="cuda", show_default=True, help="cpu: to rehearse on a machine without GPU.")
@click.option("--budget", default=500.0, show_default=True, help="Start nothing new after this number of seconds.")
def main(out: Path, only: tuple[str, ...], device: str, budget: float) -> None:
    """Record the programs into OUT."""
    jobs = [(name, (name, device, str(out))) for name in only or [known.name for known in PROGRAMS]]
    time_each(out / "steps.json", jobs, take, device=device, seconds=ALONE_SECONDS, budget=budget)


def take(name: str, device_name: str, out: str) -> list[float]:
    """Return the mean steps in ms of windows of a program, and record it then in each way."""
    device = torch.device(device_name)
    step = built(program(name).name, EAGER, device)
    windows = [window(step, device, LEAST_SECONDS) for _ in range(WINDOWS)]
    for way, options in WAYS.items():
        record(step, device, Path(out) / f"{name}.{way}.json.gz", RECORDED, **options)
    return windows


if __name__ == "__main__":
    main()
