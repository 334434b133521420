"""What the scripts that record share: recording as users do it, processes of their own, windows, and the machine.

CUPTI slows a process for good once it is loaded, so each measurement has a process: all are forks of one that imports
torch once and never starts the GPU. Files are as small as can be.
"""

import gzip
import json
import multiprocessing
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click
import torch
from torch.profiler import ProfilerActivity, profile, schedule

from pinprof.outputs import write_whole
from scripts.pair_programs.parts import Step, synchronize

PROFILER_WARM_UP, RECORDED_STEPS = 3, 6
MOST_BYTES = 1_000_000  # of one file: the traces live in the repository

out_argument = click.argument("out", type=click.Path(file_okay=False, path_type=Path))
only_option = click.option("--only", multiple=True, metavar="NAME", help="Take this one alone; may be repeated.")
device_option = click.option("--device", default="cuda", show_default=True, help="cpu: to rehearse without a GPU.")
scale_option = click.option("--scale", default=1.0, show_default=True, help="All sizes times this.")
budget_option = click.option("--budget", default=500.0, show_default=True, help="Start nothing after these seconds.")

Noted = dict[str, Any]


class Notes:
    """The JSON file next to recordings: their machine, the command that made them, and an entry for each."""

    def __init__(self, path: Path, key: str, order: Iterable[str] = ()) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._key, self._order = path, key, list(order)
        self.all: Noted = json.loads(path.read_text()) if path.exists() else {}
        self.entries: Noted = self.all.get(key, {})

    def keep(self, name: str, entry: object) -> None:
        """Write the file with an entry; entries are in their order, or else as they came."""
        self.entries[name] = entry
        if self._order:
            self.entries = dict(sorted(self.entries.items(), key=lambda item: self._order.index(item[0])))
        self.save()

    def save(self, **facts: object) -> None:
        """Write the file, with these facts before the entries."""
        self.all = {**self.all, **facts}
        self.all.pop(self._key, None)
        write_whole(self._path, json.dumps({**self.all, self._key: self.entries}, indent=2) + "\n")


def record(
    step: Callable[[], object],
    device: torch.device,
    path: Path,
    steps: int = RECORDED_STEPS,
    *,
    stacks: bool = False,
    memory: bool = False,
) -> int:
    """Record some steps as a user would, into a packed file; return its size.

    `stacks`: with stacks and shapes; `memory`: with memory and shapes.
    """
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device.type == "cuda")
    with profile(
        activities=activities,
        with_stack=stacks,
        record_shapes=stacks or memory,
        profile_memory=memory,
        schedule=schedule(wait=0, warmup=PROFILER_WARM_UP, active=steps, repeat=1),
    ) as profiler:
        for _ in range(PROFILER_WARM_UP + steps):
            step()
            profiler.step()
    raw = path.with_suffix("")
    profiler.export_chrome_trace(str(raw))
    size = write_packed(raw.read_bytes(), path)
    raw.unlink()
    return size


def write_packed(text: bytes, path: Path) -> int:
    """Write a trace as small as gzip can, without a date and the machine's name; return its size."""
    text = re.sub(rb'"host_name": *"[^"]*"', b'"host_name": "recorder"', text)
    packed = gzip.compress(text, compresslevel=9, mtime=0)
    path.write_bytes(packed)
    if len(packed) > MOST_BYTES:
        print(f"warning: {path.name} has {len(packed):,} bytes, more than {MOST_BYTES:,}", file=sys.stderr)
    return len(packed)


def of_windows(means: Sequence[float]) -> dict[str, Any]:
    """Return the mean steps of plain windows in ms with what is said of them."""
    return {
        "median": round(statistics.median(means), 4),
        "min": round(min(means), 4),
        "max": round(max(means), 4),
        "windows": [round(mean, 4) for mean in means],
    }


def machine_of(device_name: str) -> dict[str, Any]:
    """Return what there is to know of this machine."""
    cuda = device_name.startswith("cuda")
    return {
        "gpu": torch.cuda.get_device_name() if cuda else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "driver": _driver_version() if cuda else None,
        "python": platform.python_version(),
        "date": datetime.now(timezone.utc).date().isoformat(),
    }


def _driver_version() -> str | None:
    """Return the GPU driver's version, or None where nvidia-smi does not say."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    query = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, check=False, timeout=30).stdout.split()
    return answer[0] if answer else None


ENDING_SECONDS = 5  # of a process that sent nothing


class Alone:
    """Runs functions in processes of their own, each for a limited number of seconds."""

    def __init__(self, start: str, seconds: float) -> None:
        self._context: Any = multiprocessing.get_context(start)
        self._seconds = seconds

    def run(self, function: Callable[..., Any], *args: object) -> tuple[str | None, Any]:
        """Return what went wrong or None, and what the function returned."""
        receiver, sender = self._context.Pipe(duplex=False)
        process = self._context.Process(target=quietly, args=(sender, function, *args))
        process.start()
        sender.close()
        try:
            result = receiver.recv() if receiver.poll(self._seconds) else None
        except EOFError:
            result = None
        process.join(self._seconds if result is not None else ENDING_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
            return f"FAILED: {args} not done after {self._seconds} s", None
        return None if result is not None else f"FAILED: {args} exit status {process.exitcode}", result


def quietly(sender: Any, function: Callable[..., Any], *args: object) -> None:
    """Send what the function returns; what the programs print goes nowhere."""
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        sender.send(function(*args))


def warmed(step: Step, device: torch.device, steps: int) -> Step:
    """Run some steps, and return the step."""
    for _ in range(steps):
        step()
    synchronize(device)
    return step


def window(step: Step, device: torch.device, least_seconds: float, least_steps: int = 1) -> float:
    """Run for some time, and some steps, synchronized at both ends only; return the mean step in milliseconds."""
    synchronize(device)
    start = time.perf_counter()
    steps_made = 0
    while steps_made < least_steps or time.perf_counter() - start < least_seconds:
        step()
        steps_made += 1
    synchronize(device)
    return (time.perf_counter() - start) * 1000 / steps_made


def in_words(windows: Noted) -> str:
    """Return the mean steps of windows for the terminal."""
    return f"{windows['median']:.3f} ({windows['min']:.3f} to {windows['max']:.3f})"


def end_with(failed: Sequence[str]) -> None:
    """End a script: with status 1 if something failed."""
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        sys.exit(1)
