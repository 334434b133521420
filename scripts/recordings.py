"""What recording needs: processes of their own, windows without a profiler, small files, notes, and the machine.

CUPTI slows a process for good once it is loaded, so what is timed has a process, and is recorded last: all are forks
of one that imports torch once and never starts the GPU.
"""

import gzip
import json
import multiprocessing
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from datetime import datetime, timezone
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from pinprof.gpu import link_and_driver
from pinprof.ground.errors import PinprofError
from pinprof.ground.outputs import write_whole
from scripts.pair_programs.parts import Step, synchronize

PROFILER_WARM_UP_STEPS = 3
MOST_BYTES = 1_000_000  # of one file: the traces live in the repository
ARROW = re.compile(rb'\{\s*"ph": "[sf]",[^{}]*\},\s*')
ENDING_SECONDS = 5  # of a process that has sent what it returns, or nothing

Noted = dict[str, Any]


class FailedError(PinprofError, RuntimeError):
    """What runs in a process of its own did not come to its end."""


class Windows(NamedTuple):
    """How a step is timed: windows after a warm-up, synchronized at both ends only."""

    warm_up_steps: int
    number: int
    least_s: float
    least_steps: int = 1

    def measure(self, step: Step, device: torch.device) -> list[float]:
        """Return the mean step of each window in ms; the step is warm already."""
        return [window(step, device, self.least_s, self.least_steps) for _ in range(self.number)]


class Notes:
    """The JSON file next to recordings: facts of all of them, and an entry for each."""

    def __init__(self, path: Path, key: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._key = path, key
        self.all: Noted = json.loads(path.read_text()) if path.exists() else {}
        self.entries: Noted = self.all.get(key, {})

    def keep(self, name: str, entry: object) -> None:
        """Write the file with an entry."""
        self.entries[name] = entry
        self.save()

    def save(self, **facts: object) -> None:
        """Write the file, with these facts before the entries."""
        self.all = {**self.all, **facts}
        self.all.pop(self._key, None)
        write_whole(self._path, json.dumps({**self.all, self._key: self.entries}, indent=2) + "\n")


def in_processes(calls: Iterable[Callable[[], Any]], seconds: float) -> list[Any]:
    """Call each in a process of its own, all at once; return what they return.

    Raises FailedError where one fails, or is not done in time. What they print goes nowhere.
    """
    context: Any = multiprocessing.get_context("fork")
    started = []
    for call in calls:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_send, args=(sender, call))
        process.start()
        sender.close()
        started.append((process, receiver))
    deadline = time.monotonic() + seconds
    try:
        return [_received(process, receiver, deadline) for process, receiver in started]
    finally:
        for process, _ in started:
            process.join(ENDING_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()


def _send(sender: Any, call: Callable[[], Any]) -> None:
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        try:
            sender.send((None, call()))
        except Exception as error:  # noqa: BLE001  other people's programs may fail in any way
            sender.send((f"{type(error).__name__}: {error}".partition("\n")[0], None))


def _received(process: Any, receiver: Any, deadline: float) -> Any:
    if not wait((receiver, process.sentinel), max(deadline - time.monotonic(), 0.0)):
        process.kill()
        raise FailedError("not done in time")
    try:
        problem, result = receiver.recv()
    except EOFError:
        process.join()
        raise FailedError(f"exit status {process.exitcode}") from None
    if problem:
        raise FailedError(problem)
    return result


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


def record(
    step: Callable[[], object],
    device: torch.device,
    path: Path,
    steps: int,
    *,
    stacks: bool = False,
    memory: bool = False,
) -> None:
    """Record some steps as a user would, into a packed file.

    `stacks`: with stacks and shapes; `memory`: with memory and shapes.
    """
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device.type == "cuda")
    with profile(
        activities=activities,
        with_stack=stacks,
        record_shapes=stacks or memory,
        profile_memory=memory,
        schedule=schedule(wait=0, warmup=PROFILER_WARM_UP_STEPS, active=steps, repeat=1),
    ) as profiler:
        for _ in range(PROFILER_WARM_UP_STEPS + steps):
            step()
            profiler.step()
    raw = path.with_suffix("")
    profiler.export_chrome_trace(str(raw))
    write_packed(raw.read_bytes(), path)
    raw.unlink()


def write_packed(text: bytes, path: Path) -> None:
    """Write a trace as small as gzip can, without a date, the machine's name and the arrows of viewers.

    The arrows lead from a launch to its work, which have a number in common, and from forward to backward.
    """
    text = re.sub(rb'"host_name": *"[^"]*"', b'"host_name": "recorder"', text)
    text = ARROW.sub(b"", text)
    packed = gzip.compress(text, compresslevel=9, mtime=0)
    path.write_bytes(packed)
    if len(packed) > MOST_BYTES:
        print(f"warning: {path.name} has {len(packed):,} bytes, more than {MOST_BYTES:,}", file=sys.stderr)


def of_windows(means: Sequence[float]) -> Noted:
    """Return the mean steps of windows in ms with what is said of them."""
    return {
        "median": round(statistics.median(means), 4),
        "min": round(min(means), 4),
        "max": round(max(means), 4),
        "windows": [round(mean, 4) for mean in means],
    }


def in_words(windows: Noted, digits: int = 3) -> str:
    """Return the mean steps of windows for people."""
    median, low, high = (f"{windows[name]:.{digits}f}" for name in ("median", "min", "max"))
    return f"{median} ({low} to {high})"


def machine_of(device_name: str) -> Noted:
    """Return what there is to know of this machine."""
    cuda = device_name.startswith("cuda")
    return {
        "gpu": torch.cuda.get_device_name() if cuda else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "driver": link_and_driver()[0] if cuda else None,
        "python": platform.python_version(),
        "date": datetime.now(timezone.utc).date().isoformat(),
    }
