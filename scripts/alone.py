"""Runs each measurement in a process of its own, because CUPTI slows a process for good once it is loaded.

All are forks of a process that imports torch once and never starts the GPU.
"""

import multiprocessing
import os
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch

from scripts.pair_programs.parts import Step, synchronize

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


def window(step: Step, device: torch.device, least_seconds: float) -> float:
    """Run for some time, synchronized at the end only; return the mean step in milliseconds."""
    start = time.perf_counter()
    done = 0
    while time.perf_counter() - start < least_seconds:
        step()
        done += 1
    synchronize(device)
    return (time.perf_counter() - start) * 1000 / done
