"""The lines of a program at which torch's sync debug mode sees the host wait, from its first step on."""

import atexit
import json
import os
import sys
import sysconfig
import time
import warnings
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from exam_steps import call_at_ends

SYNC = "called a synchronizing CUDA operation"
HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # frames name files as strings
INSTALLED = ("/site-packages/", "/dist-packages/", "/torchinductor_")
LIBRARY = sysconfig.get_paths()["stdlib"] + "/"
TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + "/"  # noqa: PTH100, PTH120

Place = tuple[str, int, str]
Wait = tuple[Place | None, Place | None]


class Lines:
    """How often each line waited in the judged steps, and which lines waited in the seconds after them."""

    def __init__(self) -> None:
        self._steps, self._began = 0, 0.0
        self._seen: Counter[Wait] = Counter()
        self._later: Counter[Wait] = Counter()
        self._judged_steps = int(os.environ["EXAM_STEPS"])
        self._least_seconds, self._most_seconds = (
            float(os.environ[name]) for name in ("EXAM_LEAST_SECONDS", "EXAM_SECONDS")
        )
        self._show: Any = vars(warnings)["_showwarnmsg"]

    def end_step(self) -> None:
        """Start after the first step; count; write and end the program after the last."""
        if self._began == 0.0:
            self._began = time.perf_counter()
            vars(warnings)["_showwarnmsg"] = self.show  # a script may replace showwarning itself
            torch.cuda.set_sync_debug_mode("warn")
        else:
            self._steps += 1
        warnings.simplefilter("always")  # whatever the script asked for meanwhile
        taken = time.perf_counter() - self._began
        if taken > self._most_seconds or (taken > self._least_seconds and self._steps >= self._judged_steps):
            self.write()
            sys.stdout.flush()
            os._exit(0)

    def show(self, message: Any) -> None:
        """Count a warning of the sync debug mode; other warnings are shown as ever."""
        if SYNC in str(message.message):
            seen = self._seen if self._steps < self._judged_steps else self._later
            seen[places(sys._getframe(1))] += 1  # noqa: SLF001  # the way to the caller's frame
        else:
            self._show(message)

    def write(self) -> None:
        """Write what was seen, if there were steps."""
        if self._steps == 0:
            return
        noted = {"steps": self._steps, "lines": rows(self._seen), "later": rows(self._later)}
        Path(f"{os.environ['EXAM_OUT']}.{os.getpid()}.json").write_text(json.dumps(noted))


def rows(seen: Counter[Wait]) -> list[dict[str, Any]]:
    """Return the lines with their counts, as JSON takes them."""
    return [{"user": user, "library": library, "count": count} for (user, library), count in seen.items()]


def places(frame: FrameType | None) -> tuple[Place | None, Place | None]:
    """Return the nearest line that is neither installed nor Python's own, and the innermost one outside of torch."""
    library = None
    while frame is not None:
        place = (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        if not place[0].startswith(("<", HERE, TORCH)):
            library = library or place
            if not _is_installed(place[0]):
                return place, library
        frame = frame.f_back
    return None, library


def _is_installed(path: str) -> bool:
    return path.startswith(LIBRARY) or any(part in path for part in INSTALLED)


def install() -> None:
    """Put the hooks on."""
    lines = Lines()
    atexit.register(lines.write)  # of a program that ends first
    call_at_ends(lines.end_step)
