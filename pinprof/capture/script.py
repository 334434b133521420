"""Recording an unmodified script: it runs as under `python`, and every optimizer step moves the recording on."""

import io
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook

from pinprof.capture.plain import PlainStep
from pinprof.capture.profiling import OnProgress, Recording, profile
from pinprof.errors import CaptureError

INTERRUPTED = 130  # what a shell reports after Ctrl-C
MARK_STEPS = "mark them yourself: `with pinprof.profile(...) as p:` around the loop and `p.step()` after every step"


@dataclass(frozen=True)
class ScriptRun:
    """How a script ended and what was recorded of it.

    `path` is None if the script failed before a step was recorded; `stopped` says that we ended it, its windows done.
    """

    path: Path | None
    steps_seen: int
    recorded_steps: int
    plain: PlainStep | None
    stopped: bool
    exit_status: int


@dataclass(frozen=True)
class _Ending:
    exit_status: int
    stopped: bool = False


class _Finished(BaseException):
    """Ends the script at a step boundary; no `except Exception` of the script's own holds it up."""


def run_script(
    script: str | os.PathLike[str],
    args: Sequence[str],
    *,
    path: str | os.PathLike[str],
    keep_going: bool = False,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> ScriptRun:
    """Run `script` as `python script args` would, recording it to `path`; return how it ended.

    An optimizer step in the main thread ends a step; `options` are those of `profile()`. When the windows are done, the
    script is stopped, or left to finish if `keep_going`. The traceback of a failing script goes to standard error as
    Python prints it, and what was recorded until then is kept.

    Raises CaptureError if there is no such script, and if a script that did not fail ended before a step was recorded.
    """
    script = Path(script)
    if not script.is_file():
        raise CaptureError(f"{script}: there is no such script")
    if options.get("warmup", 1) < 1:
        raise CaptureError("warmup=0: the first step of a script contains its start; keep at least one for warm-up")
    recording = profile(path, on_progress=on_progress, **options)
    ending = _run_to_its_end(script, args, recording, keep_going=keep_going)
    if not recording.recorded_steps and not ending.exit_status:
        raise CaptureError(_why_nothing_recorded(recording))
    return ScriptRun(
        path=recording.path if recording.recorded_steps else None,
        steps_seen=recording.steps_seen,
        recorded_steps=recording.recorded_steps,
        plain=recording.plain,
        stopped=ending.stopped,
        exit_status=ending.exit_status,
    )


def _run_to_its_end(script: Path, args: Sequence[str], recording: Recording, *, keep_going: bool) -> _Ending:
    """Run the script within the recording; whatever ends it, the recording is ended too."""
    recording.start()
    with _running_as_main(script, args) as main, _stepping(recording, keep_going=keep_going):
        ending = _ending_of(script, main)
    if ending.exit_status:
        with suppress(CaptureError):  # the script's own failure is the one to see
            recording.end()
    else:
        recording.end()
    return ending


def _ending_of(script: Path, main: ModuleType) -> _Ending:
    """Execute the script; return how it ended, its traceback printed if it failed."""
    try:
        exec(_code_of(script), main.__dict__)  # noqa: S102  running the user's program is the purpose
    except _Finished as finished:
        if finished.__cause__ is not None:  # the recording failed, not the script
            raise finished.__cause__ from None
        return _Ending(0, stopped=True)
    except SystemExit as exc:
        return _Ending(_exit_status(exc))
    except BaseException as exc:  # noqa: BLE001  as python itself does
        exc = exc.with_traceback(_without_own_frames(exc.__traceback__))
        sys.excepthook(type(exc), exc, exc.__traceback__)
        return _Ending(INTERRUPTED if isinstance(exc, KeyboardInterrupt) else 1)
    return _Ending(0)


def _code_of(script: Path) -> CodeType:
    path = str(script.absolute())
    with io.open_code(path) as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def _exit_status(exc: SystemExit) -> int:
    """Return the status that python would exit with; a text is printed, as python does."""
    if exc.code is None or isinstance(exc.code, int):
        return exc.code or 0
    print(exc.code, file=sys.stderr)  # noqa: T201
    return 1


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the script's first frame on; None if it never began (a syntax error)."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


@contextmanager
def _running_as_main(script: Path, args: Sequence[str]) -> Iterator[ModuleType]:
    """Give a fresh `__main__`, with `sys.argv` and `sys.path` as `python script args` sets them."""
    saved = sys.argv, sys.path[:], sys.modules["__main__"]
    main = ModuleType("__main__")
    main.__file__ = str(script.absolute())
    sys.argv = [str(script), *args]
    sys.path[0] = str(script.resolve().parent)
    sys.modules["__main__"] = main
    try:
        yield main
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = saved


@contextmanager
def _stepping(recording: Recording, *, keep_going: bool) -> Iterator[None]:
    """Let every optimizer step of the main thread end a step of the recording; once done, end the script.

    The hook runs inside torch's own `Optimizer.step` range, which therefore ends some microseconds after the step does.
    """
    main_thread = threading.get_ident()

    def end_step(*_: object) -> None:
        if threading.get_ident() != main_thread:  # an optimizer that runs inside backward: no step boundary
            return
        try:
            recording.step()
        except CaptureError as exc:
            raise _Finished from exc
        if recording.done and not keep_going:
            raise _Finished

    hook = register_optimizer_step_post_hook(end_step)
    try:
        yield
    finally:
        hook.remove()


def _why_nothing_recorded(recording: Recording) -> str:
    if not recording.steps_seen:
        return f"no optimizer step was seen, so no step could be recorded; {MARK_STEPS}"
    return recording.why_nothing_recorded()
