"""`%%pinprof`: a cell of a notebook, recorded while it runs, and the report on its steps below it."""

from pathlib import Path
from typing import Any

from pinprof.capture.steps.marks import Marks
from pinprof.capture.steps.sources import AUTO
from pinprof.capture.steps.stepper import Stepper
from pinprof.capture.window.recording import profile
from pinprof.ground.errors import CaptureError
from pinprof.notebook import Report, report_on

MAGIC_NAME = "pinprof"


def register(shell: Any) -> None:
    """Give a shell of IPython the magic `%%pinprof`."""

    def magic(line: str, cell: str) -> Report:
        code = shell.transform_cell(cell)
        compiled = shell.compile(code, shell.compile.cache(code), "exec")
        return report_of_cell(compiled, shell.user_ns, line.strip())

    shell.register_magic_function(magic, "cell", MAGIC_NAME)


def report_of_cell(code: Any, names: dict[str, Any], path: str = "") -> Report:
    """Run a cell as it stands, record some of its training steps, and return the report.

    Steps are found as `pinprof run` finds them. The cell runs to its end. Without `path` the trace is removed after it
    is read. Raises what the cell raises, and CaptureError if it made too few steps.
    """
    return report_on(lambda file: _record(code, names, file), path or None, "cell")


def _record(code: Any, names: dict[str, Any], path: Path) -> Path:
    """Run a cell and record it. Return the path of the trace."""
    # A cell is shorter than a script, so its plain steps are timed for less time. A second run overwrites the trace.
    recording = profile(path, plain_seconds=0.2, plain_max_seconds=1.0, plain_precision=0.1, force=True)
    stepper = Stepper(recording, None, keep_going=True)
    marks = Marks(AUTO, stepper.end_step, group=False, may_move=lambda: recording.may_move)
    recording.watch()
    try:
        with marks.placed():
            recording.start(with_step=False)
            exec(code, names)  # noqa: S102  running the user's cell is the purpose
    finally:
        stepper.end()
    if stepper.failure is not None:
        raise stepper.failure
    if not recording.recorded_steps:
        raise CaptureError(
            f"{recording.why_nothing_recorded()}. A cell that is a single step: pinprof.profile_step(train_step, ...)"
        )
    return recording.path
