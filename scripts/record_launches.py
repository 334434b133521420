"""Record programs bound by launches on this machine, and time them with fewer launches: graphs, compiled, fused.

Run from the repository root:  PYTHONPATH=. python scripts/record_launches.py OUT_DIR [--only NAME]...

All sides of a program are timed in turns in one process, since a new one has another pace; the profiler comes last.
OUT_DIR gets the trace of each program as people write it, and pairs.json in the form of scripts/record_pairs.py: a pair
for each way to make fewer launches. They need torchvision, timm and transformers.
"""

import gc
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import torch

from scripts.launch_programs.models import PROGRAMS, Program, program
from scripts.launch_programs.sides import (
    COMPILED,
    EAGER,
    FUSED,
    GRAPH_MODEL,
    GRAPH_STEP,
    LOOPED,
    REDUCED,
    build,
)
from scripts.pair_programs.parts import Step
from scripts.recordings import (
    Alone,
    Notes,
    budget_option,
    device_option,
    end_with,
    machine_of,
    of_windows,
    only_option,
    out_argument,
    record,
    warmed,
    window,
)

WARM_UP_STEPS = 12
WINDOWS, LEAST_SECONDS = 8, 0.25
ALONE_SECONDS, COMPILING_SECONDS = 200, 150

SCENARIOS: dict[str, dict[str, str | bool]] = {
    FUSED: {"fused_optimizer": True},
    GRAPH_STEP: {"cuda_graph": "step"},
    GRAPH_MODEL: {"cuda_graph": "model"},
    COMPILED: {},
    REDUCED: {},
}
"""What predicts a side; nothing predicts what torch.compile brings."""
WORDS = {
    FUSED: "a fused optimizer",
    GRAPH_STEP: "the whole step in a CUDA graph",
    GRAPH_MODEL: "forward and backward in CUDA graphs",
    COMPILED: "torch.compile",
    REDUCED: "torch.compile, mode reduce-overhead",
}


@click.command()
@out_argument
@only_option
@device_option
@click.option("--compile/--no-compile", "compiles", default=True, help="Measure torch.compile too.")
@click.option("--afters", is_flag=True, help="Also record graphs and compiled programs, into OUT_DIR/after.")
@budget_option
def main(out: Path, only: tuple[str, ...], device: str, *, compiles: bool, afters: bool, budget: float) -> None:
    """Record the programs into OUT, with pairs.json; what OUT has of other programs is kept."""
    deadline = time.perf_counter() + budget
    (out / "after").mkdir(parents=True, exist_ok=True)
    recorder = Recorder(out, device, deadline)
    chosen = [program(name) for name in only] or list(PROGRAMS)
    if compiles:
        recorder.compile_all([chosen_program for chosen_program in chosen if chosen_program.compiled])
    for chosen_program in chosen:
        recorder.take(chosen_program, compiles=compiles and chosen_program.compiled, afters=afters)
    end_with(recorder.failed)


class Recorder:
    """Measures programs in processes of their own and keeps pairs.json up to date."""

    def __init__(self, out: Path, device: str, deadline: float) -> None:
        self.failed: list[str] = []
        self._out, self._device, self._deadline = out, device, deadline
        self._notes = Notes(out / "pairs.json", "pairs")
        self._alone, self._compiling = Alone("fork", ALONE_SECONDS), Alone("fork", COMPILING_SECONDS)
        self._notes.save(machine=self._alone.run(machine_of, device)[1])

    def compile_all(self, programs: list[Program]) -> None:
        """Fill the compiler's caches, side by side: nothing is timed."""
        began = time.perf_counter()
        jobs = [(program.name, side) for program in programs for side in (COMPILED, REDUCED)]
        with ThreadPoolExecutor(len(jobs) or 1) as pool:
            for problem, _ in pool.map(lambda job: self._compiling.run(warm, *job, self._device), jobs):
                self._say("compiling", problem)
        print(f"compiled in {time.perf_counter() - began:.0f} s", flush=True)

    def take(self, program: Program, *, compiles: bool, afters: bool) -> None:
        """Time all sides of a program in turns in one process, and record what people write."""
        began = time.perf_counter()
        if began > self._deadline:
            self._say(program.name, "no time left")
            return
        sides = [FUSED, *((GRAPH_STEP, GRAPH_MODEL) if self._device != "cpu" else ())]
        sides += [COMPILED, REDUCED] if compiles else []
        sides += [LOOPED] if program.looped else []
        problem, times = self._alone.run(take_all, program.name, (EAGER, *sides), self._device, str(self._out), afters)
        self._say(program.name, problem)
        windows, failed = times or ({}, {})
        for side, why in failed.items():
            self._say(f"{program.name}, {side}", f"FAILED: {why}")
        for side in sides:
            self._keep(program, EAGER, side, windows)
        if program.looped:
            self._keep(program, LOOPED, FUSED, windows)
        medians = ", ".join(f"{side} {of_windows(times)['median']:.2f}" for side, times in windows.items())
        print(f"{program.name}: {medians} ms; {time.perf_counter() - began:.0f} s", flush=True)

    def _keep(self, program: Program, before: str, after: str, windows: dict[str, list[float]]) -> None:
        if after not in SCENARIOS or before not in windows or after not in windows:
            return
        trace = trace_of(program, before)
        entry = {"what": f"{program.what}: {WORDS[after]}", "trace": trace, "scenario": SCENARIOS[after]}
        times = {"before_ms": of_windows(windows[before]), "after_ms": of_windows(windows[after])}
        self._notes.keep(f"{trace}.{after}", {**entry, "looked_at": program.looked_at, **times})

    def _say(self, what: str, problem: str | None) -> None:
        if problem:
            self.failed.append(what)
            print(f"{what}: {problem}", flush=True)


def trace_of(program: Program, side: str) -> str:
    """Return the name of the trace of a side."""
    return program.name if side == EAGER else f"{program.name}_{side}"


def built(name: str, side: str, device: torch.device) -> Step:
    """Return the step of one side after its warm-up."""
    torch.manual_seed(0)
    return warmed(build(program(name), side, device), device, WARM_UP_STEPS)


def warm(name: str, side: str, device_name: str) -> bool:
    """Compile a side."""
    built(name, side, torch.device(device_name))
    return True


def take_all(
    name: str, sides: tuple[str, ...], device_name: str, out: str, afters: bool
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Return the mean steps in ms of windows of each side, and why a side failed; record them in the end."""
    device, failed = torch.device(device_name), dict[str, str]()
    windows = in_turns(name, sides, device, failed)
    tidy_up()
    chosen, folder = program(name), Path(out)
    for side in windows:
        if side in (EAGER, LOOPED):
            record(built(name, side, device), device, folder / f"{trace_of(chosen, side)}.before.json.gz", chosen.steps)
        elif afters and side != FUSED:
            record(built(name, side, device), device, folder / "after" / f"{name}.{side}.json.gz", chosen.steps)
        tidy_up()
    return windows, failed


def in_turns(name: str, sides: Sequence[str], device: torch.device, failed: dict[str, str]) -> dict[str, list[float]]:
    """Return the mean steps in ms of windows of each side, one after the other and again: the host's pace changes."""
    steps: dict[str, Step] = {}
    for side in sides:
        try:
            steps[side] = built(name, side, device)
        except Exception as error:  # noqa: BLE001, PERF203  other people's programs may fail in any way
            failed[side] = f"{type(error).__name__}: {error}".partition("\n")[0]
    windows: dict[str, list[float]] = {side: [] for side in steps}
    for _ in range(WINDOWS):
        for side, step in steps.items():
            windows[side].append(window(step, device, LEAST_SECONDS))
    return windows


def tidy_up() -> None:
    """Give back what a side held, and forget what was compiled."""
    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
