"""Hooks on an examined program: when its steps end (the truth), and the lines at which sync debug mode sees it wait.

The optimizer or the backward calls of the program say where a step ends. Each hook writes its notes as JSON, and ends
the program once it has seen the steps and seconds that are asked for.
"""

import atexit
import json
import os
import sys
import sysconfig
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

NS_PER_SECOND = 10**9
WARM_UP_STEPS = 20
"""Or a quarter, as `truth_of_run` leaves them out: the first load libraries for seconds."""
SYNC = "called a synchronizing CUDA operation"
HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # frames name files as strings
INSTALLED = ("/site-packages/", "/dist-packages/", "/torchinductor_")
LIBRARY = sysconfig.get_paths()["stdlib"] + "/"
TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + "/"  # noqa: PTH100, PTH120

Place = tuple[str, int, str]
Wait = tuple[Place | None, Place | None]


def call_at_ends(ended: Callable[[], None]) -> None:
    """Call `ended` whenever a step has ended."""
    counted = 0
    per_step = int(os.environ["EXAM_CALLS_PER_STEP"])

    def count(*_: object) -> None:
        nonlocal counted
        counted += 1
        if counted % per_step == 0:
            ended()

    if os.environ["EXAM_MARKER"] == "optimizer":
        register_optimizer_step_post_hook(count)
    else:
        _after_backward(count)


def _after_backward(count: Callable[[], None]) -> None:
    backward: Callable[..., None] = torch.Tensor.backward

    def counted_backward(self: torch.Tensor, *arguments: Any, **options: Any) -> None:
        backward(self, *arguments, **options)
        count()

    torch.Tensor.backward = counted_backward  # type: ignore[method-assign]


def write_noted(noted: dict[str, Any]) -> None:
    """Write what a hook noted in this process."""
    Path(f"{os.environ['EXAM_OUT']}.{os.getpid()}.json").write_text(json.dumps(noted))


def end_program() -> None:
    """End the program at once."""
    sys.stdout.flush()
    os._exit(0)


class Hook:
    """Notes steps until there are as many as asked for, within the least and the most seconds."""

    def __init__(self) -> None:
        self.wanted_steps = int(os.environ["EXAM_STEPS"])
        self._least_s, self._most_s = (float(os.environ[name]) for name in ("EXAM_LEAST_SECONDS", "EXAM_SECONDS"))

    def install(self) -> None:
        """Put the hook on; a program that ends before it is ended writes what was noted, too."""
        atexit.register(self.write)
        call_at_ends(self.end_step)

    def end_step(self) -> None:
        """Note the end of a step."""
        raise NotImplementedError

    def write(self) -> None:
        """Write what was noted, if there were steps."""
        raise NotImplementedError

    def end_if_done(self, taken_s: float, steps: int) -> None:
        """End the program after its last step."""
        if taken_s > self._most_s or (taken_s > self._least_s and steps >= self.wanted_steps):
            self.write()
            end_program()


class Truth(Hook):
    """Ends of steps in ns of the monotonic clock; for each, the wait for input so far and the epochs begun."""

    def __init__(self) -> None:
        super().__init__()
        self._ends_ns: list[int] = []
        self._inputs_ns: list[int] = []
        self._begun: list[int] = []
        self._waited_ns = self._epochs = 0

    def install(self) -> None:
        """Put the hook on, and clocks at the DataLoaders: nothing more, so that the steps are as ever."""
        following, iterating = _BaseDataLoaderIter.__next__, DataLoader.__iter__

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
        super().install()

    def end_step(self) -> None:
        """Note the end of a step."""
        now_ns = time.perf_counter_ns()
        self._ends_ns.append(now_ns)
        self._inputs_ns.append(self._waited_ns)
        self._begun.append(self._epochs)
        taken_ns = now_ns - self._ends_ns[min(len(self._ends_ns) // 4, WARM_UP_STEPS)]
        self.end_if_done(taken_ns / NS_PER_SECOND, len(self._ends_ns) - 1)

    def write(self) -> None:
        """Write what was noted, if there were steps."""
        if not self._ends_ns:
            return
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        noted = {"ends_ns": self._ends_ns, "waited_ns": self._inputs_ns, "epochs": self._begun}
        write_noted({**noted, "synchronized_ns": time.perf_counter_ns()})


class Lines(Hook):
    """How often each line waited in the judged steps, and which lines waited in the seconds after them."""

    def __init__(self) -> None:
        super().__init__()
        self._steps, self._began = 0, 0.0
        self._seen: Counter[Wait] = Counter()
        self._later: Counter[Wait] = Counter()
        self._show: Any = vars(warnings)["_showwarnmsg"]

    def end_step(self) -> None:
        """Start after the first step, then count."""
        if self._began == 0.0:
            self._began = time.perf_counter()
            vars(warnings)["_showwarnmsg"] = self._show_or_count  # a script may replace showwarning itself
            torch.cuda.set_sync_debug_mode("warn")
        else:
            self._steps += 1
        warnings.simplefilter("always")  # whatever the script asked for meanwhile
        self.end_if_done(time.perf_counter() - self._began, self._steps)

    def _show_or_count(self, message: Any) -> None:
        """Count a warning of the sync debug mode; other warnings are shown as ever."""
        if SYNC in str(message.message):
            seen = self._seen if self._steps < self.wanted_steps else self._later
            seen[places(sys._getframe(1))] += 1  # noqa: SLF001  # the way to the caller's frame
        else:
            self._show(message)

    def write(self) -> None:
        """Write what was seen, if there were steps."""
        if self._steps:
            write_noted({"steps": self._steps, "lines": rows(self._seen), "later": rows(self._later)})


def rows(seen: Counter[Wait]) -> list[dict[str, Any]]:
    """Return the lines with their counts, as JSON takes them."""
    return [{"user": user, "library": library, "count": count} for (user, library), count in seen.items()]


def places(frame: FrameType | None) -> Wait:
    """Return the nearest line that is neither installed nor Python's own, and the innermost one outside of torch."""
    library = None
    while frame is not None:
        place = (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        if not place[0].startswith(("<", HERE, TORCH)):
            library = library or place
            if not place[0].startswith(LIBRARY) and not any(part in place[0] for part in INSTALLED):
                return place, library
        frame = frame.f_back
    return None, library
