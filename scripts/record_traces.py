"""Record every workload on this machine, with the truth measured next to it: the same step without a profiler.

Run from the repository root:  PYTHONPATH=. python scripts/record_traces.py OUT_DIR [--only NAME]...
"""

import gzip
import time
from pathlib import Path

import click
import torch

from pinprof.capture.window.recording import profile
from pinprof.workloads.catalogue import WORKLOADS, Workload, workload
from scripts.recordings import (
    Alone,
    Noted,
    Notes,
    device_option,
    end_with,
    in_words,
    machine_of,
    of_windows,
    only_option,
    out_argument,
    scale_option,
    warmed,
    window,
    write_packed,
)

WARM_UP_STEPS = 10
PLAIN_WINDOWS = 5
LEAST_STEPS = 10  # in each plain window
LEAST_SECONDS = 0.3  # of each plain window
RECORDED_STEPS = {False: 5, True: 3}  # without and with stacks, which make a trace several times larger
ALONE_SECONDS = 120  # no workload may take longer than this


@click.command()
@out_argument
@only_option
@device_option
@scale_option
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
    truth = Notes(out / "truth.json", "workloads", (chosen_workload.name for chosen_workload in WORKLOADS))
    alone = Alone(start, ALONE_SECONDS)
    problem, machine = alone.run(machine_of, device)
    failed = ["machine"] if problem else []
    options = [part for name in only for part in ("--only", name)]
    options += [] if device == "cuda" else ["--device", device]
    options += [] if scale == 1.0 else ["--scale", str(scale)]
    command = " ".join(["PYTHONPATH=. python scripts/record_traces.py", out.name, *options])
    truth.save(machine={**(machine or {}), "scale": scale}, command=command)
    for chosen_workload in chosen:
        began = time.perf_counter()
        problem, plain = alone.run(measure_plain, chosen_workload.name, device, scale)
        files: dict[str, int] = {}
        for with_stack, steps in RECORDED_STEPS.items():
            path = out / f"{chosen_workload.name}{'.stack' if with_stack else ''}.json.gz"
            problem = problem or alone.run(record, chosen_workload.name, path, device, scale, with_stack)[0]
            files[path.name] = steps
        if problem:
            failed.append(chosen_workload.name)
        else:
            truth.keep(chosen_workload.name, {"name": chosen_workload.name, "plain_ms": plain, "files": files})
            problem = f"plain step {in_words(plain)}"
        print(f"{chosen_workload.name:24} {time.perf_counter() - began:5.1f} s  {problem}", flush=True)
    write_readme(out, truth)
    end_with(failed)


def measure_plain(name: str, device_name: str, scale: float) -> Noted:
    """Return the mean step of several windows without a profiler, each synchronized at its two ends only."""
    device = torch.device(device_name)
    with workload(name).build(device, scale) as step:
        warmed(step, device, WARM_UP_STEPS)
        return of_windows([window(step, device, LEAST_SECONDS, LEAST_STEPS) for _ in range(PLAIN_WINDOWS)])


def record(name: str, path: Path, device_name: str, scale: float, with_stack: bool) -> int:
    """Record the workload into its file, and return the size of that."""
    with (
        workload(name).build(torch.device(device_name), scale) as step,
        profile(path, steps=RECORDED_STEPS[with_stack], with_stack=with_stack, force=True) as recording,
    ):
        while not recording.done:
            step()
            recording.step()
    return write_packed(gzip.decompress(path.read_bytes()), path)


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


def write_readme(out: Path, truth: Notes) -> None:
    """Write the README of the recordings, all of it from the truth and the catalogue."""
    text = README.format(
        command=truth.all["command"],
        machine="\n".join(f"- {key}: {value}" for key, value in truth.all["machine"].items()),
        windows=PLAIN_WINDOWS,
        steps=LEAST_STEPS,
        seconds=LEAST_SECONDS,
        rows="\n".join(readme_row(out, workload(name), noted) for name, noted in truth.entries.items()),
    )
    (out / "README.md").write_text(text)


def readme_row(out: Path, recorded: Workload, noted: Noted) -> str:
    """Return one workload's row."""
    plain = noted["plain_ms"]
    files = "<br>".join(
        f"[{name}]({name}) ({steps}, {(out / name).stat().st_size / 1000:.0f})"
        for name, steps in noted["files"].items()
    )
    step_ms = f"{plain['median']:.2f} ({plain['min']:.2f} to {plain['max']:.2f})"
    return f"| {recorded.name} | {recorded.summary} | {step_ms} | {recorded.known_answer} | {files} |"


if __name__ == "__main__":
    main()
