"""Runs a user's script or module in this process as `python` runs it, and ends it at a step where pinprof asks."""

import ast
import atexit
import builtins
import ctypes
import io
import os
import pkgutil
import runpy
import signal
import sys
import sysconfig
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any, NoReturn

from pinprof.errors import CaptureError
from pinprof.host_time import HOST_TIME

OWN_FOLDERS = tuple(str(Path(__file__).parents[1] / room) + os.sep for room in ("capture", "program", "races"))
"""Folders of pinprof whose frames come between the program and python, and belong to neither."""

WITHOUT_SOURCE = "{name}: it has no source, so none of its functions can mark steps"

INTERRUPTED = 130  # the exit status after Ctrl-C, as a shell reports it


@dataclass(frozen=True)
class CodeChange:
    """A change of a program's code before it runs."""

    rewrite: Callable[[ast.Module], ast.Module]
    """Takes the code and returns the code to run instead."""
    names: Mapping[str, object]
    """The objects that the new code uses, by their names in `__main__`."""


def is_script(path: str | os.PathLike[str]) -> bool:
    """Return whether python can run what is there: a file, or a folder with a `__main__`."""
    return Path(path).is_file() or any((Path(path) / f"__main__{suffix}").is_file() for suffix in (".py", ".pyc"))


@dataclass(frozen=True)
class UserProgram:
    """The words after `python` on a command line: a script, or `-m` and a module, and the arguments.

    A script may also be compiled, or an archive or a folder with a `__main__`, as for python.
    """

    name: str
    args: Sequence[str]
    module: bool = False

    @classmethod
    def found(cls, script: str | os.PathLike[str], args: Sequence[str], *, module: bool) -> "UserProgram":
        """Return the program of a command line. Raises CaptureError if the script does not exist."""
        if not module and not is_script(script):
            raise CaptureError(f"{script}: no such script")
        return cls(os.fspath(script), args, module)

    @contextmanager
    def as_main(self) -> Iterator[ModuleType]:
        """Give the block a fresh `__main__`, with `sys.argv` and `sys.path` as python sets them.

        Functions that run at the interpreter's exit find all this and the working directory again; otherwise they
        could neither pickle objects of the program's classes nor import modules next to it.
        """
        saved, folder, shared = (sys.argv, sys.path[:], sys.modules["__main__"]), Path.cwd(), _Shared()
        main = ModuleType("__main__")
        vars(main).update(__builtins__=builtins, __cached__=None)
        if sys.version_info < (3, 14):  # since then, Python makes them on demand
            main.__annotations__ = {}
        sys.argv = ["-m" if self.module else self.name, *self.args]
        is_safe = getattr(sys.flags, "safe_path", False)  # python -P leaves the path alone, except for an archive
        if self._holds_main:
            sys.path[: 0 if is_safe else 1] = [self._whole_name]
        elif not is_safe:
            sys.path[0] = str(Path.cwd() if self.module else Path(self.name).resolve().parent)
        sys.modules["__main__"] = main
        try:
            yield main
        finally:
            atexit.register(_give_back, getattr(sys, "argv", []), sys.path[:], main)  # it may have deleted sys.argv
            shared.take_back()
            sys.argv, sys.path[:], sys.modules["__main__"] = saved
            with suppress(OSError):  # the program removed its folder, or its rights to it
                atexit.register(os.chdir, Path.cwd())
            with suppress(OSError):
                os.chdir(folder)

    def load(self, main: ModuleType, change: CodeChange | None = None) -> CodeType:
        """Return the code to execute in `main`, and set the file and the loader of `main`."""
        is_module = self.module or self._holds_main
        return self._load_module(main, change) if is_module else self._load_script(main, change)

    @property
    def _holds_main(self) -> bool:
        """Whether the script is an archive or a folder, whose `__main__` is run."""
        return not self.module and pkgutil.get_importer(self._whole_name) is not None

    @property
    def _whole_name(self) -> str:
        slash = self.name[len(self.name.rstrip(os.sep)) :]  # python keeps it
        return str(Path(self.name).absolute()) + slash

    def _load_script(self, main: ModuleType, change: CodeChange | None) -> CodeType:
        path = str(Path(self.name).absolute())
        main.__file__ = path
        with io.open_code(path) as file:
            compiled = pkgutil.read_code(file)
            file.seek(0)
            if compiled is None and not path.endswith(".pyc"):
                main.__loader__ = SourceFileLoader("__main__", path)
                return _compiled(file.read(), path, change)
        main.__loader__ = SourcelessFileLoader("__main__", path)
        if compiled is None:
            raise CaptureError(f"{self.name}: was not compiled by this version of Python")
        if change is not None:
            raise CaptureError(WITHOUT_SOURCE.format(name=self.name))
        return compiled

    def _load_module(self, main: ModuleType, change: CodeChange | None) -> CodeType:
        of_module, of_main = vars(runpy)["_get_module_details"], vars(runpy)["_get_main_module_details"]
        try:  # private, but pdb and coverage use them too
            name, spec, code = of_module(self.name, CaptureError) if self.module else of_main(CaptureError)
        except CaptureError as error:
            if not isinstance(error.__cause__, ModuleNotFoundError):
                raise
            raise CaptureError(f"{self.name}: no such module ({error.__cause__})") from error
        main.__file__ = spec.origin
        if self.module:
            sys.argv[0] = spec.origin
        main.__loader__, main.__package__, main.__spec__ = spec.loader, spec.parent, spec
        vars(main)["__cached__"] = spec.cached
        if change is None:
            return code
        source = spec.loader.get_source(name)
        if source is None:
            raise CaptureError(WITHOUT_SOURCE.format(name=self.name))
        return _compiled(source, spec.origin, change)


SHARED_MODULES = ("builtins", "io", "json", "math", "os", "posixpath", "re", "shutil", "tempfile", "threading")
"""Modules whose functions programs replace, for tests or to watch themselves, and which a report needs."""


class _Shared:
    """The functions of shared modules, and what Python imports, traces and profiles, as they are before the program."""

    def __init__(self) -> None:
        modules = [vars(sys.modules[name]) for name in SHARED_MODULES if name in sys.modules]
        self._functions = [(of, {name: of[name] for name in of if callable(of[name])}) for of in modules]
        self._modules, self._finders = sys.modules.copy(), sys.meta_path[:]
        self._trace, self._profile = sys.gettrace(), sys.getprofile()

    def take_back(self) -> None:
        """Undo what the program changed, calling nothing that it may have replaced; as it exits, its own are back."""
        functions = [
            (of, {name: of[name] for name in before if name in of and of[name] is not before[name]})
            for of, before in self._functions
        ]
        for of, before in self._functions:
            of.update(before)
        sys.modules.update(self._modules)
        atexit.register(_put_back, functions, sys.meta_path[:], sys.gettrace(), sys.getprofile())
        sys.meta_path[:] = self._finders
        sys.settrace(self._trace)
        sys.setprofile(self._profile)


def _put_back(functions: list[tuple[dict[str, Any], dict[str, Any]]], finders: Any, trace: Any, profile: Any) -> None:
    """Give the program what it had replaced."""
    for of, changed in functions:
        of.update(changed)
    sys.meta_path[:] = finders
    sys.settrace(trace)
    sys.setprofile(profile)


def _give_back(argv: list[str], path: list[str], main: ModuleType) -> None:
    """Set the program's own `sys.argv`, `sys.path` and `__main__` again."""
    sys.argv, sys.path[:], sys.modules["__main__"] = argv, path, main


def _compiled(source: str | bytes, path: str, change: CodeChange | None) -> CodeType:
    code = source if change is None else change.rewrite(ast.parse(source, path))
    return compile(code, path, "exec", dont_inherit=True)


def status_after(exc: BaseException) -> int:
    """Print an exception of the program as python does, and return the exit status of python after it."""
    if isinstance(exc, SystemExit):
        return _exit_status(exc)
    hide_own_frames(exc)
    try:
        sys.excepthook(type(exc), exc, exc.__traceback__)
    except SystemExit as leaving:
        return _exit_status(leaving)
    except BaseException as error:  # noqa: BLE001  the program's own hook fails, or the program has removed it
        _cut_context(error, exc)
        _print_as_python("Error in sys.excepthook:")
        sys.__excepthook__(type(error), hide_own_frames(error), error.__traceback__)
        _print_as_python("\nOriginal exception was:")
        sys.__excepthook__(type(exc), exc, exc.__traceback__)
    return INTERRUPTED if isinstance(exc, KeyboardInterrupt) else 1


def _cut_context(error: BaseException, exc: BaseException) -> None:
    """Remove the exception from the context of the error: python calls its hook outside of all handlers."""
    while error.__context__ is not None and error.__context__ is not exc:
        error = error.__context__
    error.__context__ = None


def _exit_status(exc: SystemExit) -> int:
    """Return the exit status of python after SystemExit; print its text, if it has one, as python does."""
    if exc.code is None or isinstance(exc.code, int):
        return exc.code or 0
    _print_as_python(exc.code)
    return 1


def _print_as_python(thing: object) -> None:
    """Print to standard error, even if the program has removed it; errors are ignored, as python does."""
    with suppress(Exception):
        text = f"{thing}\n"
        if sys.stderr is None:
            os.write(2, os.fsencode(text))
        else:
            sys.stderr.write(text)


def exit_as_fork(status: int) -> NoReturn:
    """End a forked process at the end of the script; the code after that is for its parent."""
    join_threads()
    with suppress(BaseException):  # nothing may lead back to the parent's code
        atexit._run_exitfuncs()  # noqa: SLF001  what python does at its exit
    for name in ("stdout", "stderr"):
        with suppress(BaseException):
            getattr(sys, name).flush()
    os._exit(status & 0xFF)


def join_threads(only: Collection[int] | None = None, within_s: float | None = None) -> None:
    """Wait for the program's threads as python does before it exits; for `only` some of them, or only `within_s`."""
    end = HOST_TIME.monotonic() + within_s if within_s is not None else None
    with suppress(BaseException):  # Ctrl-C
        while threads := [thread for thread in threading.enumerate() if _is_awaited(thread, only)]:
            threads[0].join(None if end is None else max(0.0, end - HOST_TIME.monotonic()))
            if end is not None and HOST_TIME.monotonic() >= end:
                return


def _is_awaited(thread: threading.Thread, only: Collection[int] | None) -> bool:
    if thread is threading.current_thread() or thread is threading.main_thread():
        return False
    return not thread.daemon if only is None else thread.ident in only


def hide_own_frames(error: BaseException) -> BaseException:
    """Remove pinprof's frames from the tracebacks of an exception of the program and of its causes."""
    todo: list[BaseException | None] = [error]
    visited: set[int] = set()
    while todo:
        current = todo.pop()
        if current is not None and id(current) not in visited:
            visited.add(id(current))
            current.__traceback__ = _programs_frames(current.__traceback__)
            todo += [current.__cause__, current.__context__]
    return error


def _programs_frames(trace: TracebackType | None) -> TracebackType | None:
    frames = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(OWN_FOLDERS):
            frames.append(trace)
        trace = trace.tb_next
    for frame, following in zip(frames, [*frames[1:], None], strict=False):
        frame.tb_next = following
    return frames[0] if frames else None


@dataclass(frozen=True)
class Ending:
    """The exit status of a program, and whether pinprof ended it."""

    exit_status: int
    stopped: bool = False


class Finished(BaseException):
    """Ends the script at a step boundary; the script's own `except Exception` does not catch it."""


FINISH = getattr(signal, "SIGRTMAX", signal.SIGTERM + 3) - 2
"""The signal by which another thread ends the main thread; no other code uses it."""

_can_finish = False


@contextmanager
def finishable() -> Iterator[None]:
    """Let `finish_main` end the block, which runs in the main thread; after it, no line raises an error of ours."""
    global _can_finish  # noqa: PLW0603  one for the process
    is_ours = threading.current_thread() is threading.main_thread() and signal.getsignal(FINISH) is signal.SIG_DFL
    if is_ours:
        signal.signal(FINISH, _finish)
        _can_finish = True
    try:
        yield
    finally:
        if isinstance(sys.gettrace(), _AtNextLine):
            sys.settrace(None)
        if is_ours:
            _can_finish = False
            if signal.getsignal(FINISH) is _finish:
                signal.signal(FINISH, signal.SIG_DFL)


def finish_main() -> bool:
    """End the main thread with Finished if it is still in the program; return whether. Call this in another thread."""
    is_possible = _can_finish and signal.getsignal(FINISH) is _finish
    if is_possible:
        signal.pthread_kill(threading.main_thread().ident or 0, FINISH)
    return is_possible


def _finish(_number: int, _frame: FrameType | None) -> None:
    if _can_finish:
        raise Finished


def ending_of(program: UserProgram, main: ModuleType, change: CodeChange | None = None) -> Ending:
    """Execute the program, print its traceback if it fails, and return how it ended."""
    try:
        code = program.load(main, change)
    except CaptureError:
        raise
    except BaseException as exc:  # noqa: BLE001  as python itself does
        return Ending(status_after(exc))
    vars(main).update(change.names if change else {})
    try:
        with finishable():
            exec(code, vars(main))  # noqa: S102  running the user's program is the purpose
    except BaseException as exc:  # noqa: BLE001  as python itself does
        return Ending(0 if is_our_doing(exc) else status_after(exc))
    return Ending(0)


def is_our_doing(exc: BaseException) -> bool:
    """Return whether the exception is the one by which pinprof ends the script, or was raised because of it."""
    chain: list[BaseException | None] = [exc]
    for link in chain:
        if isinstance(link, Finished):
            return True
        if link is not None:
            chain += [earlier for earlier in (link.__cause__, link.__context__) if earlier not in chain]
    return False


MAX_POLITE_STOPS = 2
"""How often to ask a script to stop before its exception handlers are interrupted, too."""


class Stop:
    """Ends the program when it is called; `times` says how often it was called."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> NoReturn:
        """End the program; if it catches that and goes on, interrupt it at its next line, outside of that `try`.

        Called in another thread, it ends that thread and the main thread, which may wait for its results.
        """
        self.times += 1
        if threading.current_thread() is not threading.main_thread():
            finish_main()
        if self.times > MAX_POLITE_STOPS:
            raise_at_next_line(Finished())
        raise Finished


class _AtNextLine:
    """A trace function that raises an error at the next line of the user's own code; then Python removes it."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "line" and not _is_installed(frame):
            raise self._error
        return None if event == "call" else self


def raise_at_next_line(error: BaseException) -> None:
    """Let the next line that runs in the user's own code raise an error."""
    raising = _AtNextLine(error)
    sys.settrace(raising)
    caller: FrameType | None = sys._getframe()  # noqa: SLF001  the only way to the frames below
    while caller is not None:
        if not _is_installed(caller):
            caller.f_trace = raising
        caller = None if caller.f_code is ending_of.__code__ else caller.f_back


_calls = deque[Callable[[FrameType], None]]()
"""What the main thread is asked to call. The interpreter may still do so after the program's end."""


def call_in_main(act: Callable[[FrameType], None]) -> bool:
    """Let the main thread call `act` between two bytecodes, with its innermost frame; return whether it will.

    This is a pending call of the interpreter: unlike a signal, it needs no handler and interrupts no system call. It
    has to wait while one call of C runs. What `act` raises, the next line of the user's own code raises.
    """
    _calls.append(act)
    if ctypes.pythonapi.Py_AddPendingCall(_CALL, None) == 0:
        return True
    _calls.pop()
    return False


def _call(_: object) -> int:
    try:
        _calls.popleft()(sys._getframe(1))  # noqa: SLF001  the only way to the frame below
    except BaseException as error:  # noqa: BLE001  Ctrl-C, too: C would lose it
        raise_at_next_line(error)
    return 0


_CALL = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_call)


def _is_installed(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith((*OWN_FOLDERS, *INSTALLED_FOLDERS))


INSTALLED_FOLDERS = tuple(
    {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)

HOME = str(Path(__file__).parents[2])
"""The folder from which this process imports pinprof, and from which its children can."""
