"""The recording of a training that a framework drives, which its callbacks share."""

import atexit
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from pinprof.capture.job import path_of_rank
from pinprof.capture.profiling import Recording, profile
from pinprof.errors import CaptureError
from pinprof.units import counted

RANKS_STOP_APART = (
    "stop=True is for one process: the ranks of a job would stop at different steps and wait for each other forever; "
    "leave it out, and limit the training itself"
)


class TrainingRecording:
    """The recording of one training: it begins at the first step, ends with the training, and never fails it.

    After the training has begun, it reports an error of the recording on standard error and lets the training go on.
    """

    def __init__(self, path: str | os.PathLike[str], *, stop: bool, options: dict[str, Any]) -> None:
        self._path = Path(path)
        self._stop = stop
        self._options = options
        self._recording: Recording | None = None
        self._started = False
        self._ended = False
        self._validations = 0

    def begin(self, rank: int, ranks: int) -> None:
        """Prepare to record the first training; ignore a second one. Raises CaptureError as `profile()` does."""
        if self._recording is not None:
            return
        if ranks > 1 and self._stop:
            raise CaptureError(RANKS_STOP_APART)
        path = path_of_rank(self._path, rank) if ranks > 1 else self._path
        self._recording = profile(path, **self._options)
        atexit.register(self.end)  # not every framework reports a failed training

    def boundary(self) -> bool:
        """End the current step, if any, and begin the next; return whether to stop training."""
        if self._recording is None or self._ended:
            return False
        try:
            if self._started:
                self._recording.step()
            else:
                self._started = True
                self._recording.start()
        except CaptureError as exc:
            self._close()
            _say(str(exc))
            return self._stop
        if self._recording.done:
            self.end()
            return self._stop
        return False

    def validated(self) -> None:
        """Note that the current step contains a validation."""
        self._validations += self._started and not self._ended

    def end(self) -> None:
        """End the recording if it still runs, keep its complete steps, and say where they are."""
        if self._recording is None or self._ended:
            return
        self._close()
        try:
            self._recording.end()
        except CaptureError as exc:
            _say(str(exc))
            return
        _say(self._outcome(self._recording))

    def _close(self) -> None:
        self._ended = True
        atexit.unregister(self.end)

    def _outcome(self, recording: Recording) -> str:
        steps = recording.recorded_steps
        if not steps:
            return recording.why_nothing_recorded()
        lines = [f"recorded {counted(steps, 'step')}; next: pinprof report {shlex.quote(str(recording.path))}"]
        if self._validations:
            lines.append("validation ran between timed or recorded steps, so these steps appear too long")
        return "\npinprof: ".join(lines)


def _say(text: str) -> None:
    below_progress_bar = "\n" if sys.stderr.isatty() else ""
    print(f"{below_progress_bar}pinprof: {text}", file=sys.stderr)  # noqa: T201
