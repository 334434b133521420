"""The recording of a training that a framework drives: the common part of the callbacks."""

import atexit
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pinprof.capture.job import path_of_rank
from pinprof.capture.window.recording import Recording, profile
from pinprof.ground.errors import CaptureError, unexpected
from pinprof.ground.standard_streams import is_terminal
from pinprof.ground.units import counted
from pinprof.notebook import load
from pinprof.report.trace.first_screen import first_screen
from pinprof.report.trace.verdict import headline

STOP_WITH_RANKS = (
    "stop=True is for one process: the ranks of a job would stop at different steps and wait for each other forever; "
    "leave it out, and limit the training itself"
)


class TrainingRecording:
    """The recording of one training: it begins at the first step and ends with the training.

    After the training has begun, an error of the recording goes to standard error, and the training goes on.
    """

    def __init__(self, path: str | os.PathLike[str], *, stop: bool, options: dict[str, Any]) -> None:
        self._path = Path(path)
        self._stop = stop
        self._options = options
        self._recording: Recording | None = None
        self._started = False
        self._ended = False
        self._validations = 0
        self._log: Callable[[dict[str, float]], None] | None = None

    def begin(self, rank: int, ranks: int, log: Callable[[dict[str, float]], None] | None = None) -> None:
        """Prepare to record the first training; ignore a second one. Raises CaptureError as `profile()` does.

        `log` gets the figures of the recorded steps while the training runs, on the first rank only.
        """
        if self._recording is not None:
            return
        if ranks > 1 and self._stop:
            raise CaptureError(STOP_WITH_RANKS)
        if self._stop and self._options.get("every"):
            raise CaptureError(
                "stop=True ends the training after the recording, every=N records again later: leave one out"
            )
        path = path_of_rank(self._path, rank) if ranks > 1 else self._path
        self._recording = profile(path, **self._options)
        self._recording.on_recorded = _say_verdict
        self._log = None if rank else log
        atexit.register(self.keep)  # not every framework reports a failed training

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
        except Exception as error:  # noqa: BLE001  the training goes on after any error
            self._close()
            _say(unexpected(error))
            return False
        if self._recording.done:
            self.end()
            return self._stop
        return False

    def validated(self) -> None:
        """Note that the current step contains a validation."""
        self._validations += self._started and not self._ended

    def end(self) -> None:
        """End the recording if it still runs, keep its complete steps, say where they are, and log their figures."""
        recording = self.keep()
        if recording is None or self._log is None:
            return
        try:
            self._log(load(recording.path).scalars())
        except Exception as error:  # noqa: BLE001  of the logger's library, too
            _say(f"did not log the figures: {' '.join(str(error).split()) or type(error).__name__}")

    def keep(self) -> Recording | None:
        """End the recording if it still runs; keep its complete steps, and say where they are.

        Returns the recording if it ended here and has steps.
        """
        recording = self._recording
        if recording is None or self._ended:
            return None
        self._close()
        try:
            recording.end()
        except CaptureError as exc:
            _say(str(exc))
            return None
        _say(self._outcome(recording))
        return recording if recording.recorded_steps else None

    def _close(self) -> None:
        self._ended = True
        atexit.unregister(self.keep)

    def _outcome(self, recording: Recording) -> str:
        steps = recording.recorded_steps
        if not steps:
            return recording.why_nothing_recorded()
        lines = [f"recorded {counted(steps, 'step')}; next: pinprof report {shlex.quote(str(recording.path))}"]
        if self._validations:
            lines.append("validation ran between timed or recorded steps, so these steps appear too long")
        return "\npinprof: ".join(lines)


def _say_verdict(path: Path, step: int) -> None:
    """Say the verdict on a recording of `every`; without that option, nothing calls it."""
    report = load(path)
    _say(f"step {step}: {headline(first_screen(report.profile, report.analysis.findings))}")


def _say(text: str) -> None:
    below_progress_bar = "\n" if is_terminal(sys.stderr) else ""
    print(f"{below_progress_bar}pinprof: {text}", file=sys.stderr)  # noqa: T201
