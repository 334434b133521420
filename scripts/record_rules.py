"""Record the programs of the rules on this machine, with what makes them slow and without it.

Run from the repository root:  PYTHONPATH=. python scripts/record_rules.py OUT_DIR [--only NAME]...

OUT_DIR gets NAME.json.gz and NAME.mended.json.gz, the same with stacks and shapes as *.stack.json.gz, and rules.json
with the steps of both without the profiler.
"""

from pathlib import Path

import click
import torch

from scripts.alone import time_each, window
from scripts.launch_programs.rules import PROGRAMS
from scripts.pair_programs.parts import synchronize
from scripts.recordings import record

WARM_UP_STEPS, RECORDED = 10, 2
WINDOWS, LEAST_SECONDS = 4, 0.2
ALONE_SECONDS = 60
LASTING = ("recompiling",)
"""Whose steps compile: they are too long to time in windows, and to record with stacks."""


@click.command()
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--only", multiple=True, metavar="NAME", help="Take this program alone; may be repeated.")
@click.option("--device", default="cuda", show_default=True, help="cpu: to rehearse on a machine without GPU.")
@click.option("--budget", default=300.0, show_default=True, help="Start nothing new after this number of seconds.")
def main(out: Path, only: tuple[str, ...], device: str, budget: float) -> None:
    """Record the programs into OUT."""
    sides = [
        (f"{name}.mended" if mended else name, name, mended) for name in only or PROGRAMS for mended in (False, True)
    ]
    jobs = [(label, (name, mended, device, str(out / label))) for label, name, mended in sides]
    time_each(out / "rules.json", jobs, take, device=device, seconds=ALONE_SECONDS, budget=budget)


def take(name: str, mended: bool, device_name: str, path: str) -> list[float]:
    """Time one side, then record it, without stacks and with them."""
    device = torch.device(device_name)
    torch.manual_seed(0)
    step = PROGRAMS[name](device, mended)
    for _ in range(WARM_UP_STEPS):
        step()
    synchronize(device)
    lasting = name in LASTING and not mended
    windows = [] if lasting else [window(step, device, LEAST_SECONDS) for _ in range(WINDOWS)]
    for ending, stacks in (("", False),) if lasting else (("", False), (".stack", True)):
        record(step, device, Path(f"{path}{ending}.json.gz"), RECORDED, stacks=stacks)
    return windows


if __name__ == "__main__":
    main()
