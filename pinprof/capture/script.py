"""Recording an unmodified script or module: it runs as under `python`, and its steps move the recording on."""

import ast
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

import torch

from pinprof.capture.markers import AUTO, DECORATOR, LOADER, OPTIMIZER, StepMarks, mark_function
from pinprof.capture.plain import PlainStep
from pinprof.capture.profiling import OnProgress, Recording, profile
from pinprof.errors import CaptureError

OWN_FOLDER = str(Path(__file__).parent) + os.sep
INTERRUPTED = 130  # what a shell reports after Ctrl-C
MARK_STEPS = "mark them: call pinprof.step() after each step in the script, or name a function with --step-marker"


@dataclass(frozen=True)
class ScriptRun:
    """How a script ended and what was recorded of it.

    `path` is None if the script failed before a step was recorded; `stopped` says that we ended it, its windows done.
    """

    path: Path | None
    marker: str
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
    module: bool = False,
    step_marker: str = AUTO,
    keep_going: bool = False,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> ScriptRun:
    """Run `script` as `python script args` would, or `python -m script args`, recording it to `path`; return its end.

    What marks a step is found from the batches and optimizer steps of the main thread, or given as `step_marker`:
    `loader`, `optimizer`, a function of the script, or `module:function`; calls of `pinprof.step()` in the script go
    before all. `options` are those of `profile()`. When the windows are done, the
    script is stopped, or left to finish if `keep_going`. The traceback of a failing script goes to standard error as
    Python prints it, and what was recorded until then is kept.

    Raises CaptureError if there is no such script, and if a script that did not fail ended before a step was recorded.
    """
    program = _program_of_module(str(script)) if module else _program_of_script(Path(script), step_marker)
    if options.get("warmup", 1) < 1:
        raise CaptureError("warmup=0: the first step of a script contains its start; keep at least one for warm-up")
    recording = profile(path, on_progress=on_progress, **options)
    stopper = _Stopper(recording, keep_going=keep_going)
    marks = StepMarks(stopper.boundary, step_marker)
    recording.marks = marks
    ending = _run_to_its_end(program, args, recording, marks)
    if not recording.recorded_steps and not ending.exit_status:
        raise CaptureError(_why_nothing_recorded(recording))
    return ScriptRun(
        path=recording.path if recording.recorded_steps else None,
        marker=marks.text,
        steps_seen=recording.steps_seen,
        recorded_steps=recording.recorded_steps,
        plain=recording.plain,
        stopped=ending.stopped,
        exit_status=ending.exit_status,
    )


@dataclass(frozen=True)
class _Program:
    """What runs as `__main__`: its code, its first argument and what its module knows of itself."""

    code: Callable[[], CodeType]
    argv0: str
    search: str
    """First entry of `sys.path`."""
    names: dict[str, object]


def _program_of_script(script: Path, step_marker: str) -> _Program:
    if not script.is_file():
        raise CaptureError(f"{script}: there is no such script")

    file = str(script.absolute())
    with io.open_code(file) as source:
        text = source.read()
    marked: ast.Module | None = None
    if step_marker not in (AUTO, LOADER, OPTIMIZER) and ":" not in step_marker:
        with suppress(SyntaxError):  # the script's own, and shown as such when it runs
            marked = mark_function(ast.parse(text, file), step_marker, str(script))
    return _Program(
        code=lambda: compile(marked or text, file, "exec", dont_inherit=True),
        argv0=str(script),
        search=str(script.resolve().parent),
        names={"__file__": file},
    )


def _program_of_module(name: str) -> _Program:
    sys.path.insert(0, str(Path.cwd()))
    try:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as exc:
        raise CaptureError(f"{name}: cannot be run as a module ({exc})") from exc
    finally:
        del sys.path[0]
    if spec is None or spec.loader is None or not hasattr(spec.loader, "get_code"):
        raise CaptureError(f"{name}: there is no such module to run")
    loader, file = spec.loader, spec.origin or name
    names = {"__file__": file, "__spec__": spec, "__package__": spec.parent, "__loader__": loader}
    return _Program(lambda: loader.get_code(spec.name), file, str(Path.cwd()), names)


def _run_to_its_end(program: _Program, args: Sequence[str], recording: Recording, marks: StepMarks) -> _Ending:
    """Run the program within the recording; whatever ends it, the recording is ended too."""
    recording.start()
    with _running_as_main(program, args, marks) as main, marks.watching():
        ending = _ending_of(program, main)
    if ending.stopped:
        _leave_process_group()
    if ending.exit_status:
        with suppress(CaptureError):  # the script's own failure is the one to see
            recording.end()
    else:
        recording.end()
    return ending


def _leave_process_group() -> None:
    """Do what the end of the script would have done: a process group that is left open holds up the exit."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        with suppress(RuntimeError):
            torch.distributed.destroy_process_group()


def _ending_of(program: _Program, main: ModuleType) -> _Ending:
    """Execute the script; return how it ended, its traceback printed if it failed."""
    try:
        exec(program.code(), main.__dict__)  # noqa: S102  running the user's program is the purpose
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


def _exit_status(exc: SystemExit) -> int:
    """Return the status that python would exit with; a text is printed, as python does."""
    if exc.code is None or isinstance(exc.code, int):
        return exc.code or 0
    print(exc.code, file=sys.stderr)  # noqa: T201
    return 1


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the frames of this room; None if the script never began (a syntax error)."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(OWN_FOLDER):
        trace = trace.tb_next
    if trace is not None:
        trace.tb_next = _without_own_frames(trace.tb_next)
    return trace


@contextmanager
def _running_as_main(program: _Program, args: Sequence[str], marks: StepMarks) -> Iterator[ModuleType]:
    """Give a fresh `__main__`, with `sys.argv` and `sys.path` as python sets them."""
    saved = sys.argv, sys.path[:], sys.modules["__main__"]
    main = ModuleType("__main__")
    main.__dict__.update(program.names)
    main.__dict__[DECORATOR] = marks.marked
    sys.argv = [program.argv0, *args]
    sys.path[0] = program.search
    sys.modules["__main__"] = main
    try:
        yield main
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = saved


class _Stopper:
    """Moves a recording on at each step boundary; once it is done, ends the script there, every time it goes on."""

    def __init__(self, recording: Recording, *, keep_going: bool) -> None:
        self._recording = recording
        self._keep_going = keep_going

    def boundary(self) -> None:
        """End a step."""
        try:
            self._recording.step()
        except CaptureError as exc:
            raise _Finished from exc
        if self._recording.done and not self._keep_going:
            raise _Finished


def _why_nothing_recorded(recording: Recording) -> str:
    if not recording.steps_seen and not (recording.marks and recording.marks.watched):
        return f"no steps were found: neither batches of a DataLoader nor optimizer steps; {MARK_STEPS}"
    return recording.why_nothing_recorded()
