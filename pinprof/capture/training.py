"""The recording of a training that a framework drives: the common part of the callbacks."""

import atexit
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pinprof.capture.job import path_of_rank
from pinprof.capture.window.recording import Recording, profile
from pinprof.errors import CaptureError, unexpected
from pinprof.standard_streams import is_terminal
from pinprof.tracking import destinations
from pinprof.units import counted

RANKS_STOP_APART = (
    "stop=True is for one process: the ranks of a job would stop at different steps and wait for each other forever; "
    "leave it out, and limit the training itself"
)


class TrainingRecording:
    """The recording of one training: it begins at the first step and ends with the training.

    After the training has begun, an error of the recording goes to standard error, and the training goes on. If the
    training has runs of a tracker, the first rank logs the report to them as soon as the steps are recorded.
    """

    def __init__(self, path: str | os.PathLike[str], *, stop: bool, options: dict[str, Any], log: bool = True) -> None:
        self._path = Path(path)
        self._stop = stop
        self._log = log
        self._options = options
        self._recording: Recording | None = None
        self._started = False
        self._ended = False
        self._validations = 0
        self._runs: Sequence[Any] = ()

    def begin(self, rank: int, ranks: int, runs: Sequence[Any] = ()) -> None:
        """Prepare to record the first training; ignore a second one. Raises CaptureError as `profile()` does.

        `runs` are tracker runs as `pinprof.log` takes them.
        """
        if self._recording is not None:
            return
        if ranks > 1 and self._stop:
            raise CaptureError(RANKS_STOP_APART)
        if self._stop and self._options.get("every"):
            raise CaptureError(
                "stop=True ends the training at the recording, every=N looks again after it: leave one out"
            )
        path = path_of_rank(self._path, rank) if ranks > 1 else self._path
        self._recording = profile(path, **self._options)
        self._recording.on_look = self._say_look
        self._runs = () if rank else runs
        atexit.register(self.end, at_exit=True)  # not every framework reports a failed training

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
        except Exception as error:  # noqa: BLE001  the training goes on, whatever it is
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

    def end(self, *, at_exit: bool = False) -> None:
        """End the recording if it still runs, keep its complete steps, and say where they are.

        At the exit of the program it logs no report: Python starts no threads then, and reading needs some.
        """
        if self._recording is None or self._ended:
            return
        self._close()
        try:
            self._recording.end()
        except CaptureError as exc:
            _say(str(exc))
            return
        _say(self._outcome(self._recording))
        if self._log and self._recording.recorded_steps:
            self._log_report(self._recording.path, at_exit=at_exit)

    def _log_report(self, path: Path, *, at_exit: bool) -> None:
        """Log the report to the runs, if any; an error is one line, and the training goes on."""
        try:
            runs = destinations(self._runs)
            if runs and at_exit:
                _say(f"did not log the report to {runs[0]}, as the program ends; pinprof log does it")
            elif runs:
                from pinprof.logbook import log  # noqa: PLC0415  reports: recording does not need them

                _say(f"logged the report to {' and '.join(log(path, to=self._runs))}")
        except Exception as error:  # noqa: BLE001  of the trackers' libraries
            _say(f"did not log the report: {' '.join(str(error).split())}")

    def _say_look(self, path: Path, step: int) -> None:
        """Say what a look at the training has found; without `every` there are no looks."""
        from pinprof.logbook import verdict_of  # noqa: PLC0415  reports: recording does not need them

        _say(f"step {step}: {verdict_of(path)}")

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
    below_progress_bar = "\n" if is_terminal(sys.stderr) else ""
    print(f"{below_progress_bar}pinprof: {text}", file=sys.stderr)  # noqa: T201
