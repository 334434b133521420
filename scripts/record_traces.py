"""Record every workload on this machine, with the truth measured next to it: the same step without a profiler.

Run from the repository root:  PYTHONPATH=. python scripts/record_traces.py OUT_DIR [--only NAME]...
"""

import gzip
import json
import sys
import time
from pathlib import Path
from typing import Any

import click
import torch

from pinprof.capture.window.recording import profile
from pinprof.outputs import write_whole
from pinprof.workloads.catalogue import WORKLOADS, Workload, workload
from pinprof.workloads.model import Step
from scripts.pair_programs.parts import synchronize
from scripts.recordings import Alone, machine_of, of_windows, write_packed

WARM_UP_STEPS = 10
PLAIN_WINDOWS = 5
LEAST_STEPS = 10  # in each plain window
LEAST_SECONDS = 0.3  # of each plain window
RECORDED_STEPS = {False: 5, True: 3}  # without and with stacks, which make a trace several times larger
ALONE_SECONDS = 120  # no workload may take longer than this
NS_PER_MS = 1_000_000

Truth = dict[str, Any]


@click.command()
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--only", multiple=True, metavar="NAME", help="Record this workload alone; may be repeated.")
@click.option("--device", default="cuda", show_default=True, help="cpu: to rehearse on a machine without GPU.")
@click.option("--scale", default=1.0, show_default=True, help="All sizes times this.")
@click.option(
    "--start",
    type=click.Choice(["fork", "spawn"]),
    default="fork",
    show_default=True,
    help="How each workload gets its own process; spawn is slower, and safe where a fork cannot start the GPU.",
)
def main(out: Path, only: tuple[str, ...], device: str, scale: float, start: str) -> None:
    """Record the workloads into OUT, with truth.json and README.md; earlier truth of other workloads is kept."""
    chosen = [workload(name) for name in only] or list(WORKLOADS)
    out.mkdir(parents=True, exist_ok=True)
    alone = Alone(start, ALONE_SECONDS)
    failed = ["machine"] if alone.run(write_machine, out, device, scale, only)[0] else []
    for known in chosen:
        began = time.perf_counter()
        problem, _ = alone.run(measure_plain, known.name, out, device, scale)
        for with_stack in RECORDED_STEPS:
            problem = problem or alone.run(record, known.name, out, device, scale, with_stack)[0]
        took = time.perf_counter() - began
        print(f"{known.name:24} {took:5.1f} s  {problem or summary_line(load_truth(out), known.name)}", flush=True)
        if problem:
            failed.append(known.name)
    write_readme(out)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        sys.exit(1)


def measure_plain(name: str, out: Path, device_name: str, scale: float) -> bool:
    """Time the workload's plain step and note it in the truth."""
    device = torch.device(device_name)
    with workload(name).build(device, scale) as step:
        plain = plain_windows(step, device)
    truth = load_truth(out)
    truth["workloads"][name] = {"name": name, "plain_ms": plain, "files": {}}
    save_truth(out, truth)
    return True


def plain_windows(step: Step, device: torch.device) -> dict[str, float | int | list[float]]:
    """Return the mean step of several windows without a profiler, each synchronized at its two ends only."""
    run_window(step, device, steps=WARM_UP_STEPS, seconds=0.0)
    means = [run_window(step, device, steps=LEAST_STEPS, seconds=LEAST_SECONDS) for _ in range(PLAIN_WINDOWS)]
    return of_windows(means)


def run_window(step: Step, device: torch.device, *, steps: int, seconds: float) -> float:
    """Run at least these steps and seconds; return the mean step in milliseconds."""
    synchronize(device)
    start = time.perf_counter_ns()
    done = 0
    while done < steps or time.perf_counter_ns() - start < seconds * 1000 * NS_PER_MS:
        step()
        done += 1
    synchronize(device)
    return (time.perf_counter_ns() - start) / NS_PER_MS / done


def record(name: str, out: Path, device_name: str, scale: float, with_stack: bool) -> bool:
    """Record the workload into its file and note the file in the truth."""
    path = out / f"{name}{'.stack' if with_stack else ''}.json.gz"
    steps = RECORDED_STEPS[with_stack]
    with (
        workload(name).build(torch.device(device_name), scale) as step,
        profile(path, steps=steps, with_stack=with_stack, force=True) as recording,
    ):
        while not recording.done:
            step()
            recording.step()
    write_packed(gzip.decompress(path.read_bytes()), path)
    truth = load_truth(out)
    truth["workloads"][name]["files"][path.name] = steps
    save_truth(out, truth)
    return True


def load_truth(out: Path) -> Truth:
    """Return what was noted so far."""
    path = out / "truth.json"
    truth: Truth = json.loads(path.read_text()) if path.exists() else {"machine": {}, "command": "", "workloads": {}}
    return truth


def save_truth(out: Path, truth: Truth) -> None:
    """Write the truth whole, the workloads in the catalogue's order."""
    order = [known.name for known in WORKLOADS]
    truth["workloads"] = dict(sorted(truth["workloads"].items(), key=lambda item: order.index(item[0])))
    write_whole(out / "truth.json", json.dumps(truth, indent=2) + "\n")


def write_machine(out: Path, device_name: str, scale: float, only: tuple[str, ...]) -> bool:
    """Note where and how the traces were recorded."""
    truth = load_truth(out)
    truth["machine"] = {**machine_of(device_name), "scale": scale}
    options = [part for name in only for part in ("--only", name)]
    options += [] if device_name == "cuda" else ["--device", device_name]
    options += [] if scale == 1.0 else ["--scale", str(scale)]
    truth["command"] = " ".join(["PYTHONPATH=. python scripts/record_traces.py", out.name, *options])
    save_truth(out, truth)
    return True


def summary_line(truth: Truth, name: str) -> str:
    """Return the plain step of one workload, for the terminal."""
    plain = truth["workloads"][name]["plain_ms"]
    return f"plain step {plain['median']:.3f} ms ({plain['min']:.3f} to {plain['max']:.3f})"


README = """\
# Recorded workloads

Real recordings of `pinprof/workloads`, with the truth: the same step timed without a profiler, in the same
process just before. This page and `truth.json` are written by the command that made the recordings:

    {command}

{machine}

*Plain step*: mean of {windows} windows of at least {steps} steps and {seconds} s, synchronized at their ends only:
median (least to most) of the windows, in ms.

| workload | what a step does | plain step, ms | known answer | files (steps, kB) |
|---|---|---|---|---|
{rows}
"""


def write_readme(out: Path) -> None:
    """Write the README of the recordings, all of it from the truth and the catalogue."""
    truth = load_truth(out)
    text = README.format(
        command=truth["command"],
        machine="\n".join(f"- {key}: {value}" for key, value in truth["machine"].items()),
        windows=PLAIN_WINDOWS,
        steps=LEAST_STEPS,
        seconds=LEAST_SECONDS,
        rows="\n".join(readme_row(out, workload(name), noted) for name, noted in truth["workloads"].items()),
    )
    (out / "README.md").write_text(text)


def readme_row(out: Path, known: Workload, noted: Truth) -> str:
    """Return one workload's row."""
    plain = noted["plain_ms"]
    files = "<br>".join(
        f"[{name}]({name}) ({steps}, {(out / name).stat().st_size / 1000:.0f})"
        for name, steps in noted["files"].items()
    )
    step_ms = f"{plain['median']:.2f} ({plain['min']:.2f} to {plain['max']:.2f})"
    return f"| {known.name} | {known.summary} | {step_ms} | {known.known_answer} | {files} |"


if __name__ == "__main__":
    main()
