"""Record small programs in several ways on this machine, each with its step without a profiler.

Run from the repository root:  PYTHONPATH=. python scripts/record_programs.py rules OUT_DIR [--only NAME]...
                               PYTHONPATH=. python scripts/record_programs.py estimates OUT_DIR [--only NAME]...

`rules`: the programs of scripts/launch_programs/rules.py, slow and mended. OUT_DIR gets NAME.json.gz and
NAME.mended.json.gz, the same with stacks and shapes as *.stack.json.gz, and rules.json with the steps.

`estimates`: the programs of scripts/launch_programs/models.py, recorded plainly, with stacks, and with memory: truth
for estimates of the step. OUT_DIR gets NAME.WAY.json.gz and steps.json, from which scripts/fit_calibration.py makes
rows of traces/estimates.json. scripts/record_pairs.py and `scripts/exam.py --traces-only` record others.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
import torch

from scripts.launch_programs.models import PROGRAMS
from scripts.launch_programs.rules import PROGRAMS as RULE_PROGRAMS
from scripts.launch_programs.sides import EAGER
from scripts.record_launches import built
from scripts.recordings import (
    Alone,
    Notes,
    budget_option,
    device_option,
    machine_of,
    of_windows,
    only_option,
    out_argument,
    record,
    warmed,
    window,
)

RECORDED_STEPS, LEAST_SECONDS, ALONE_SECONDS = 2, 0.25, 90
RULE_WARM_UP_STEPS, RULE_WINDOWS, ESTIMATE_WINDOWS = 10, 4, 6
COMPILING = ("recompiling",)
"""Programs whose steps compile: they are too long to time in windows, and to record with stacks."""
WAYS: dict[str, dict[str, bool]] = {"plain": {}, "stacks": {"stacks": True}, "memory": {"memory": True}}

Job = tuple[str, tuple[Any, ...]]
"""A label, and the arguments of the function that records it."""


@click.group()
def main() -> None:
    """Record small programs, and time their steps without a profiler."""


@main.command()
@out_argument
@only_option
@device_option
@budget_option
def rules(out: Path, only: tuple[str, ...], device: str, budget: float) -> None:
    """Record the programs of the rules into OUT."""
    sides = [(name, mended) for name in only or RULE_PROGRAMS for mended in (False, True)]
    jobs = [(f"{name}.mended" if mended else name, (name, mended, device, str(out))) for name, mended in sides]
    record_all(out / "rules.json", jobs, record_rule, device, budget)


@main.command()
@out_argument
@only_option
@device_option
@budget_option
def estimates(out: Path, only: tuple[str, ...], device: str, budget: float) -> None:
    """Record the programs bound by launches into OUT."""
    jobs = [(name, (name, device, str(out))) for name in only or [program.name for program in PROGRAMS]]
    record_all(out / "steps.json", jobs, record_in_all_ways, device, budget)


def record_all(path: Path, jobs: Iterable[Job], take: Callable[..., list[float]], device: str, budget: float) -> None:
    """Call `take` for each job in a process of its own, and write the windows that it returns into a JSON file.

    Nothing new is started after `budget` seconds.
    """
    deadline, alone = time.perf_counter() + budget, Alone("fork", ALONE_SECONDS)
    path.unlink(missing_ok=True)
    notes = Notes(path, "programs")
    notes.save(machine=alone.run(machine_of, device)[1])
    for label, arguments in jobs:
        if time.perf_counter() > deadline:
            print(f"{label}: no time left", flush=True)
            continue
        began = time.perf_counter()
        problem, windows = alone.run(take, *arguments)
        if not problem:
            notes.keep(label, windows and of_windows(windows))
        outcome = problem or (windows and f"{of_windows(windows)['median']:.2f} ms")
        print(f"{label}: {outcome}; {time.perf_counter() - began:.0f} s", flush=True)


def record_rule(name: str, mended: bool, device_name: str, out: str) -> list[float]:
    """Return the mean steps in ms of windows of one side; record it without stacks and with them."""
    device, label = torch.device(device_name), f"{name}.mended" if mended else name
    torch.manual_seed(0)
    step = warmed(RULE_PROGRAMS[name](device, mended), device, RULE_WARM_UP_STEPS)
    is_compiling = name in COMPILING and not mended
    windows = [] if is_compiling else [window(step, device, LEAST_SECONDS) for _ in range(RULE_WINDOWS)]
    record(step, device, Path(out) / f"{label}.json.gz", RECORDED_STEPS)
    if not is_compiling:
        record(step, device, Path(out) / f"{label}.stack.json.gz", RECORDED_STEPS, stacks=True)
    return windows


def record_in_all_ways(name: str, device_name: str, out: str) -> list[float]:
    """Return the mean steps in ms of windows of a program; record it in each way."""
    device = torch.device(device_name)
    step = built(name, EAGER, device)
    windows = [window(step, device, LEAST_SECONDS) for _ in range(ESTIMATE_WINDOWS)]
    for way, options in WAYS.items():
        record(step, device, Path(out) / f"{name}.{way}.json.gz", RECORDED_STEPS, **options)
    return windows


if __name__ == "__main__":
    main()
