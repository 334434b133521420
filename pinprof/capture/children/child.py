"""Follows the processes that a program starts: each runs as without pinprof, and is recorded from its first step on."""

import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial, wraps
from importlib import import_module
from inspect import signature
from multiprocessing.process import BaseProcess
from os import getpid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pinprof.capture.children.commands import as_line, may_make_steps, may_train, serves_pool, to_follow, words_of
from pinprof.capture.children.notes import ChildConfig, ChildEnd, Notes, importable
from pinprof.capture.children.waiting import StuckScript
from pinprof.capture.job import leave_job, rank_in
from pinprof.capture.steps.sources import is_function
from pinprof.ground.errors import CaptureError
from pinprof.program.ending import caused_by_stop, ending_of, finishable
from pinprof.program.hooks import contained, faults, preceded, replaced, when_imported
from pinprof.program.user_program import CodeChange, UserProgram, exit_as_fork, hide_own_frames

if TYPE_CHECKING:
    from pinprof.capture.children.child_recording import ChildRecording

_config: ChildConfig | None = None  # set while this process follows those that it starts, and in its forks
_stuck: StuckScript | None = None


@contextmanager
def followed(config: ChildConfig, stuck: StuckScript | None = None) -> Iterator[None]:
    """Record the processes that the block starts, and their children; `stuck` watches once the first has started."""
    global _config, _stuck  # noqa: PLW0603  one for the process
    if _config is not None:  # a fork has all this from its parent
        if _stuck is not None:
            _stuck.leave()
        yield
        return
    _config, _stuck = config, stuck
    with ExitStack() as undo:
        undo.enter_context(importable())
        undo.enter_context(replaced(BaseProcess, "start", _following_start))
        undo.enter_context(replaced(subprocess.Popen, "__init__", _following_init))
        undo.enter_context(replaced(os, "system", preceded(contained(partial(_note_unfollowed, "a shell starts it")))))
        try:
            yield
        finally:
            _config = None


def _following_start(start: Callable[[BaseProcess], None]) -> Callable[[BaseProcess], None]:
    @wraps(start)
    def started(process: BaseProcess) -> None:
        is_of_pool = not contained(may_make_steps)(process)
        is_followed = not is_of_pool or contained(serves_pool)(process)
        config = contained(_config_of_child)(is_of_pool=is_of_pool) if is_followed else None
        if config is None:
            start(process)
            return

        # Python finds it before the method of the class, and pickles it with the process
        vars(process)["run"] = partial(run_followed, process, config)
        try:
            start(process)
        finally:
            vars(process).pop("run", None)
        if process.pid is not None and not serves_pool(process):  # nobody waits for the end of an idle one
            contained(Notes(config.notes).follow)(process.pid)

    return started


def _following_init(init: Callable[..., None]) -> Callable[..., None]:
    parameters = signature(init)

    @wraps(init)
    def initialized(popen: Any, *args: Any, **options: Any) -> None:
        try:
            bound = parameters.bind(popen, *args, **options)
        except TypeError:
            init(popen, *args, **options)  # it raises the error
            return
        config = contained(_follow)(bound.arguments)
        init(*bound.args, **bound.kwargs)
        if config is not None:
            contained(Notes(config.notes).follow)(popen.pid)

    return initialized


def _follow(arguments: dict[str, Any]) -> ChildConfig | None:
    """Change the command among the arguments of a `Popen` if it is to be followed; return its config then."""
    words = words_of(arguments["args"])
    if words is None or arguments.get("shell") or arguments.get("executable") is not None:
        _note_unfollowed("a shell or another program starts it", arguments["args"])
        return None
    variables = arguments["env"] if arguments.get("env") is not None else os.environ
    environment = {os.fsdecode(name): os.fsdecode(value) for name, value in variables.items()}
    command = to_follow(words, environment, Path(os.fsdecode(arguments.get("cwd") or Path.cwd())))
    config = _config_of_child() if command else None
    if command is None or config is None:
        return None
    arguments["args"] = command.followed(config)
    return config


def _note_unfollowed(why: str, command: Any) -> None:
    line = as_line(command)
    if _config is not None and may_train(line):
        Notes(_config.notes).remark(
            f"Not followed: {line} ({why}); run pinprof on it, or start it with a list of arguments"
        )


def _config_of_child(*, is_of_pool: bool = False) -> ChildConfig | None:
    if _config is None:
        return None
    if _stuck is not None and not is_of_pool:  # nobody waits for its end
        _stuck.watch()
    return msgspec.structs.replace(_config, keep_going=_config.keep_going or is_of_pool, inherited=rank_in(os.environ))


class Child:
    """This process, watched while the block of `watched()` is open. It does not import torch by itself."""

    def __init__(self, config: ChildConfig) -> None:
        self.config = config
        self.process = getpid()
        self.notes = Notes(config.notes)
        self.recording: ChildRecording | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Mark the steps in the block as soon as torch is imported, and follow the processes that it starts."""
        faults.output = self.notes.remark
        with ExitStack() as undo, followed(self.config), reporting_departure(lambda _: self.end(failed=False)):
            when_imported("torch", lambda: undo.enter_context(self._load_recording().placed()))
            yield

    def change_of_script(self) -> CodeChange | None:
        """Return the change of the script's code if a function of the script marks the steps; imports torch then."""
        if ":" in self.config.step_marker or not is_function(self.config.step_marker):
            return None
        import_module("torch")  # first: its import places the marks
        return self._load_recording().marks.change

    def end(self, *, failed: bool) -> None:
        """End the recording, and note how it ended."""
        end = ChildEnd() if self.recording is None else self.recording.end(failed=failed)
        self.notes.end(end)
        if end.stopped:
            leave_job()

    def _load_recording(self) -> "ChildRecording":
        from pinprof.capture.children.child_recording import ChildRecording  # noqa: PLC0415  it imports torch

        if self.recording is None:
            self.recording = ChildRecording(self.config, self.notes)
        return self.recording


def run_followed(process: BaseProcess, config: ChildConfig) -> None:
    """Run a process of `multiprocessing` and record it, once in place of its method `run`."""
    vars(process).pop("run", None)
    child = Child(config)
    with child.watched():
        error = _error_of(process)
        if getpid() == child.process:
            contained(child.end)(failed=error is not None)
    if isinstance(error, SystemExit):
        raise error
    if error is not None:  # print it as multiprocessing does, without pinprof's frames
        sys.stderr.write(f"Process {process.name}:\n")
        traceback.print_exception(hide_own_frames(error))
        raise SystemExit(1)


def _error_of(process: BaseProcess) -> BaseException | None:
    try:
        with finishable():
            process.run()
    except BaseException as exc:  # noqa: BLE001  as multiprocessing itself does
        return None if caused_by_stop(exc) else exc
    return None


def main(config: str, *, module: bool) -> None:
    """Run the script or module that the command line names, in a process of its own, and exit with its status."""
    child = Child(msgspec.json.decode(config, type=ChildConfig))
    program = UserProgram(sys.argv[1], sys.argv[2:], module)
    try:
        with program.as_main() as in_main, child.watched():
            ending = ending_of(program, in_main, child.change_of_script())
            if getpid() == child.process:
                contained(child.end)(failed=bool(ending.exit_status))
    except CaptureError as error:
        sys.exit(f"Error: {error}")
    if getpid() != child.process:
        exit_as_fork(ending.exit_status)
    sys.exit(ending.exit_status)


@contextmanager
def reporting_departure(leaves: Callable[[str], None]) -> Iterator[None]:
    """Call `leaves` before `os.execv`, `execve` (as all of `os.exec…` do) or `_exit` takes this process from Python."""
    process = getpid()

    @contained
    def executes(path: Any, args: Any, *_environment: Any) -> None:
        if getpid() == process and _is_program(path):  # `execvp` tries every folder of PATH
            leaves(f"started another program in its place ({contained(as_line)(args)})")

    @contained
    def exits(status: int) -> None:
        if getpid() == process:
            leaves(f"ended by os._exit({status})")

    with ExitStack() as undo:
        undo.enter_context(replaced(os, "execv", preceded(executes)))
        undo.enter_context(replaced(os, "execve", preceded(executes)))
        undo.enter_context(replaced(os, "_exit", preceded(exits)))
        yield


def _is_program(path: Any) -> bool:
    with suppress(TypeError, ValueError, OSError):
        return os.access(path, os.X_OK) and not os.path.isdir(path)  # noqa: PTH112  a path of any type
    return False
