"""Records an unmodified script: it runs as under `python`, and its steps advance the recording."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from pinprof.capture.agreement import Agreement
from pinprof.capture.frames import INSTALLED
from pinprof.capture.job import leave_job
from pinprof.capture.markers import DECORATOR, Marks
from pinprof.capture.plain import PlainWindow
from pinprof.capture.profiling import ON_COMMAND_LINE, OnWindow, Recording, profile
from pinprof.capture.program import OWN_FOLDERS, UserProgram, exit_as_fork, status_after
from pinprof.errors import CaptureError

MARK_STEPS = (
    "mark them yourself: call pinprof.step() at the end of each, or name the function that makes one with --step-marker"
)
POLITE_STOPS = 2
"""How often to ask a script to stop before interrupting its handlers too."""


@dataclass(frozen=True)
class ScriptRun:
    """How a script ended, and its recording.

    `path` is None if the script failed before a step was recorded. `marker` says what marked its steps, `stopped`
    whether pinprof ended it after its windows.
    """

    path: Path | None
    steps_seen: int
    recorded_steps: int
    plain: PlainWindow | None
    marker: str
    stopped: bool
    exit_status: int


@dataclass(frozen=True)
class _Ending:
    exit_status: int
    stopped: bool = False


class _Finished(BaseException):
    """Ends the script at a step boundary; the script's own `except Exception` does not catch it."""


def run_script(
    script: str | os.PathLike[str],
    args: Sequence[str],
    *,
    path: str | os.PathLike[str],
    module: bool = False,
    step_marker: str = "auto",
    keep_going: bool = False,
    agreement: Agreement | None = None,
    on_progress: OnWindow | None = None,
    **options: Any,
) -> ScriptRun:
    """Run `script` like `python script args` or `python -m script args`, and record it; return how it ended.

    `step_marker` says what marks the steps: `auto`, `loader` (a batch drawn from a DataLoader), `optimizer`, or the
    name of a function, as the script defines it or as `module:name`. `options` are those of `profile()`. After the
    windows it stops the script at the end of a step, or lets it finish if `keep_going`. By their `agreement`, the ranks
    of a job begin their windows at the same step and stop after the same one. If the script fails, its traceback goes
    to standard error as Python prints it, and the recorded steps are kept.

    Raises CaptureError if the script or function does not exist, or if a script ended without failure before a step was
    recorded.
    """
    if not module and not Path(script).is_file():
        raise CaptureError(f"{script}: no such script")
    if options.get("warmup", 1) < 1:
        raise CaptureError(
            "warmup=0: the first step of a script includes its start; keep at least one step for warm-up"
        )
    recording = profile(path, on_progress=on_progress, **options)
    stepper = _Stepper(recording, agreement, keep_going=keep_going)
    marks = Marks(step_marker, stepper.end_step)
    recording.join(agreement, lambda: marks.place)
    ending = _run_to_its_end(UserProgram(os.fspath(script), args, module), marks, stepper)
    if not recording.recorded_steps and not ending.exit_status:
        raise CaptureError(_why_nothing_recorded(recording, marks))
    return ScriptRun(
        path=recording.path if recording.recorded_steps else None,
        steps_seen=recording.steps_seen,
        recorded_steps=recording.recorded_steps,
        plain=recording.plain,
        marker=recording.marker,
        stopped=ending.stopped,
        exit_status=ending.exit_status,
    )


class _Stepper:
    """Advances the recording at the end of every step, and ends the script when that is done or has failed.

    A rank of a job goes on until it can end together with the others, which would wait for it in a collective.
    """

    def __init__(self, recording: Recording, agreement: Agreement | None, *, keep_going: bool) -> None:
        self.recording = recording
        self.failure: CaptureError | None = None
        self.stops = 0
        self._agreement = agreement
        self._keep_going = keep_going

    def end_step(self, marker: str) -> None:
        """Note the end of a step, with the name of its marker."""
        if self.failure is None:
            self.recording.marker = marker
            try:
                self.recording.step()
            except CaptureError as exc:
                self.failure = exc
        if self.stops or (self._may_end() and (self._agreement is None or self._agreement.ends(self.recording.place))):
            self._stop()

    def _may_end(self) -> bool:
        return self.failure is not None or (self.recording.done and not self._keep_going)

    def _stop(self) -> None:
        """End the script; interrupt one that catches this and goes on in its next line, outside of that `try`."""
        self.stops += 1
        if self.stops > POLITE_STOPS:
            _interrupt_next_line()
        raise _Finished


def _interrupt_next_line() -> None:
    """Let the next line that runs in the user's own code raise _Finished, whatever it is."""

    def interrupt(frame: FrameType, event: str, _: object) -> Any:
        if event == "line" and not _is_installed(frame):
            raise _Finished
        return None if event == "call" else interrupt

    sys.settrace(interrupt)
    caller: FrameType | None = sys._getframe()  # noqa: SLF001  of the frames below only a frame can be told
    while caller is not None:
        if not _is_installed(caller):
            caller.f_trace = interrupt
        caller = None if caller.f_code is _ending_of.__code__ else caller.f_back


def _is_installed(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith((*OWN_FOLDERS, *INSTALLED))


def _run_to_its_end(program: UserProgram, marks: Marks, stepper: _Stepper) -> _Ending:
    """Run the program in the recording, and end the recording however the program ends."""
    recording, process = stepper.recording, os.getpid()
    recording.watch()
    with program.as_main() as main, marks.placed():
        recording.start(with_step=False)
        ending = _ending_of(program, main, marks)
    if os.getpid() != process:
        exit_as_fork(ending.exit_status)
    if stepper.stops > POLITE_STOPS:
        sys.settrace(None)
    if stepper.stops and not ending.exit_status:
        ending = _Ending(0, stopped=True)
        leave_job()
    if ending.exit_status:
        with suppress(CaptureError):  # the user must see the script's own failure
            recording.end()
        return ending
    recording.end()
    if stepper.failure is not None:
        raise stepper.failure
    return ending


def _ending_of(program: UserProgram, main: ModuleType, marks: Marks) -> _Ending:
    """Execute the program, print its traceback if it fails, and return how it ended."""
    try:
        code = program.load(main, marks.decorated if marks.in_script else None)
    except CaptureError:
        raise
    except BaseException as exc:  # noqa: BLE001  as python itself does
        return _shown(exc)
    if marks.in_script:
        vars(main)[DECORATOR] = marks.mark_calls
    try:
        exec(code, vars(main))  # noqa: S102  running the user's program is the purpose
    except BaseException as exc:  # noqa: BLE001  as python itself does
        return _Ending(0) if _is_our_doing(exc) else _shown(exc)
    return _Ending(0)


def _shown(exc: BaseException) -> _Ending:
    """Print an exception as python does, and return the exit status of python after it."""
    return _Ending(status_after(exc))


def _is_our_doing(exc: BaseException) -> bool:
    """Return whether the exception is our end of the script, or one that the script raised from it."""
    chain: list[BaseException | None] = [exc]
    for link in chain:
        if isinstance(link, _Finished):
            return True
        if link is not None:
            chain += [earlier for earlier in (link.__cause__, link.__context__) if earlier not in chain]
    return False


def _why_nothing_recorded(recording: Recording, marks: Marks) -> str:
    if recording.steps_seen:
        chosen = marks.chooser is not None and recording.steps_seen < recording.windows.needed
        uncounted = ". The first few steps, before it was clear what marks a step, do not count" if chosen else ""
        return recording.why_nothing_recorded(ON_COMMAND_LINE) + uncounted
    if marks.chooser is None:
        return f"no step was seen between two calls of {marks.step_marker}; name a function that is called every step"
    seen = marks.chooser.seen
    if not seen.total():
        return (
            "the program drew no batch from a DataLoader and made no optimizer step, so no step was recorded; "
            f"{MARK_STEPS}"
        )
    return (
        f"the program ended after {seen['optimizer']} optimizer steps and {seen['batch']} batches, too few to tell "
        f"what one training step is. Run it longer, or {MARK_STEPS}"
    )
