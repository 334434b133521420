"""Runs a training script without pinprof and says what it can see by itself: the step's time, or the lines that wait.

    python independent.py time|lines|TRACE.json.gz SCRIPT STEPS

An iteration is a call of the optimizer that steps last in it. The time is that between two synchronizations, with no
profiler; the lines are those of torch's sync debug mode, in the script and, as `libraries`, in the innermost function
outside of torch where that is a library's; a trace is written by torch.profiler with stacks.
"""

import json
import runpy
import sys
import time
import warnings
from contextlib import suppress
from types import FrameType
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

SKIPPED = 40


class Done(BaseException):
    """Ends the script."""


class Watch:
    """What is done when the counted steps begin and when they end; and what was seen of them."""

    def __init__(self, question: str, script: str) -> None:
        self.question, self.script = question, script
        self.lines: set[tuple[str, int]] = set()
        self.libraries: set[tuple[str, int, str]] = set()
        self.profiler = torch.profiler.profile(with_stack=True) if question.endswith(".json.gz") else None

    def note(self, message: Any, *_: Any, **__: Any) -> None:
        frame = sys._getframe(1)
        if "synchronizing CUDA operation" in str(message):
            self.note_library(frame)
        while frame and frame.f_code.co_filename != self.script:
            frame = frame.f_back  # type: ignore[assignment]
        if frame and "synchronizing CUDA operation" in str(message):
            self.lines.add((frame.f_code.co_name, frame.f_lineno))

    def note_library(self, frame: FrameType | None) -> None:
        while frame and not self.is_outside(frame.f_code.co_filename):
            frame = frame.f_back
        if frame and frame.f_code.co_filename != self.script:
            file = frame.f_code.co_filename.partition("-packages/")[2]
            self.libraries.add((file, frame.f_lineno, frame.f_code.co_name))

    def is_outside(self, file: str) -> bool:
        """Return whether a file is the script or an installed package's, but not torch's."""
        return file == self.script or ("-packages/" in file and "-packages/torch/" not in file)

    def begin(self) -> None:
        torch.cuda.synchronize()
        self.began = time.perf_counter()
        if self.profiler:
            self.profiler.start()
        if self.question == "lines":
            warnings.simplefilter("always")
            warnings.showwarning = self.note
            torch.cuda.set_sync_debug_mode("warn")

    def step(self) -> None:
        if self.profiler:
            self.profiler.step()

    def end(self, steps: int) -> None:
        if self.profiler:
            self.profiler.stop()
            self.profiler.export_chrome_trace(self.question)
        torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()
        mean_ms = (time.perf_counter() - self.began) * 1e3 / steps
        answer = {"step_ms": mean_ms, "lines": sorted(self.lines), "libraries": sorted(self.libraries)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def main() -> None:
    question, script, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    watch = Watch(question, script)
    seen: dict[int, int] = {}

    def after(optimizer: Any, *_: Any, **__: Any) -> None:
        seen[id(optimizer)] = seen.get(id(optimizer), 0) + 1
        if id(optimizer) != list(seen)[-1]:
            return
        count = seen[id(optimizer)]
        if count == SKIPPED:
            watch.begin()
        elif count == SKIPPED + steps:
            watch.end(steps)
            raise Done
        elif count > SKIPPED:
            watch.step()

    register_optimizer_step_post_hook(after)
    sys.argv = [script]
    with suppress(Done):
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
