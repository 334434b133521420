"""Notes when the steps of a program end, by a hook and a clock at its DataLoaders, and nothing more: the truth."""

import atexit
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from exam_steps import call_at_ends
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

NS_PER_SECOND = 10**9
WARM_UP_STEPS = 20
"""Or a quarter, as `truth_of_run` leaves them out: the first load libraries for seconds."""


class Truth:
    """Ends of steps in ns of the monotonic clock; for each, the wait for input so far and the epochs begun."""

    def __init__(self) -> None:
        self.ends_ns: list[int] = []
        self.waited_ns: list[int] = []
        self.epochs: list[int] = []
        self._waited_ns = self._epochs = 0
        self._fewest_steps = int(os.environ["EXAM_STEPS"])
        self._least_ns, self._most_ns = (
            float(os.environ[name]) * NS_PER_SECOND for name in ("EXAM_LEAST_SECONDS", "EXAM_SECONDS")
        )

    def end_step(self) -> None:
        """Note the end of a step; the last one ends the program."""
        now_ns = time.perf_counter_ns()
        self.ends_ns.append(now_ns)
        self.waited_ns.append(self._waited_ns)
        self.epochs.append(self._epochs)
        taken_ns = now_ns - self.ends_ns[min(len(self.ends_ns) // 4, WARM_UP_STEPS)]
        if taken_ns > self._most_ns or (taken_ns > self._least_ns and len(self.ends_ns) > self._fewest_steps):
            self.write()
            sys.stdout.flush()
            os._exit(0)

    def write(self) -> None:
        """Write what was noted, if there were steps."""
        if not self.ends_ns:
            return
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        noted: dict[str, Any] = {
            "ends_ns": self.ends_ns,
            "waited_ns": self.waited_ns,
            "epochs": self.epochs,
            "synchronized_ns": time.perf_counter_ns(),
        }
        Path(f"{os.environ['EXAM_OUT']}.{os.getpid()}.json").write_text(json.dumps(noted))

    def watch_input(self) -> None:
        """Time what the program waits for batches, and count its passes over the data."""
        following = _BaseDataLoaderIter.__next__
        iterating = DataLoader.__iter__

        def timed_next(iterator: Any) -> Any:
            start_ns = time.perf_counter_ns()
            try:
                return following(iterator)
            finally:
                self._waited_ns += time.perf_counter_ns() - start_ns

        def counted_iter(loader: Any) -> Any:
            self._epochs += 1
            return iterating(loader)

        _BaseDataLoaderIter.__next__ = timed_next  # type: ignore[assignment, method-assign]
        DataLoader.__iter__ = counted_iter  # type: ignore[method-assign]


def install() -> None:
    """Put the hooks on."""
    truth = Truth()
    truth.watch_input()
    atexit.register(truth.write)  # of a program that ends first
    call_at_ends(truth.end_step)
