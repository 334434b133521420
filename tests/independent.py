"""Runs a training script without pinprof and says what it can see by itself: the step's time, or the lines that wait.

    python independent.py time|lines|TRACE.json.gz SCRIPT STEPS

An iteration is a call of the optimizer that steps last in it. The time is that between two synchronizations, with no
profiler; the lines are those of torch's sync debug mode; a trace is written by torch.profiler with stacks.
"""

import json
import runpy
import sys
import time
import warnings
from contextlib import suppress
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

SKIPPED = 40


class Done(BaseException):
    """Ends the script."""


def main() -> None:
    question, script, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    seen: dict[int, int] = {}
    lines: set[tuple[str, int]] = set()
    began = [0.0]
    profiler = torch.profiler.profile(with_stack=True)

    def note(message: Any, *_: Any, **__: Any) -> None:
        frame = sys._getframe(1)
        while frame and frame.f_code.co_filename != script:
            frame = frame.f_back  # type: ignore[assignment]
        if frame and "synchronizing CUDA operation" in str(message):
            lines.add((frame.f_code.co_name, frame.f_lineno))

    def after(optimizer: Any, *_: Any) -> None:
        seen[id(optimizer)] = seen.get(id(optimizer), 0) + 1
        if id(optimizer) != list(seen)[-1]:
            return
        count = seen[id(optimizer)]
        if count == SKIPPED:
            torch.cuda.synchronize()
            began[0] = time.perf_counter()
            if question.endswith(".json.gz"):
                profiler.start()
            if question == "lines":
                warnings.simplefilter("always")
                warnings.showwarning = note
                torch.cuda.set_sync_debug_mode("warn")
        if question.endswith(".json.gz") and SKIPPED < count < SKIPPED + steps:
            profiler.step()
        if count == SKIPPED + steps:
            if question.endswith(".json.gz"):
                profiler.stop()
                profiler.export_chrome_trace(question)
            torch.cuda.set_sync_debug_mode("default")
            torch.cuda.synchronize()
            mean_ms = (time.perf_counter() - began[0]) * 1e3 / steps
            sys.stdout.write(json.dumps({"step_ms": mean_ms, "lines": sorted(lines)}) + "\n")
            sys.stdout.flush()
            raise Done

    register_optimizer_step_post_hook(after)
    sys.argv = [script]
    with suppress(Done):
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
