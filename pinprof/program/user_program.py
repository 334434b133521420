"""Loads a user's script or module into this process as `python` does, and shows its errors as `python` shows them."""

import ast
import atexit
import builtins
import io
import os
import pkgutil
import runpy
import sys
import sysconfig
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any, NoReturn

from pinprof.ground.errors import CaptureError
from pinprof.ground.host_time import HOST_TIME

OWN_FOLDERS = tuple(str(Path(__file__).parents[1] / room) + os.sep for room in ("capture", "program", "races"))
"""Folders of pinprof whose frames come between the program and python, and belong to neither."""
WITHOUT_SOURCE = "{name}: it has no source, so none of its functions can mark steps"
INTERRUPTED = 130  # the exit status after Ctrl-C, as a shell reports it


@dataclass(frozen=True)
class CodeChange:
    """A change of a program's code before it runs."""

    rewrite: Callable[[ast.Module], ast.Module]  # takes the code and returns the code to run instead
    names: Mapping[str, object]  # the objects that the new code uses, by their names in `__main__`


def is_script(path: str | os.PathLike[str]) -> bool:
    """Return whether python can run what is there: a file, or a folder with a `__main__`."""
    return Path(path).is_file() or any((Path(path) / f"__main__{suffix}").is_file() for suffix in (".py", ".pyc"))


@dataclass(frozen=True)
class UserProgram:
    """A script, also compiled, an archive or a folder, or a module, as after `python`, and its arguments."""

    name: str
    args: Sequence[str]
    module: bool = False

    @classmethod
    def at(cls, script: str | os.PathLike[str], args: Sequence[str], *, module: bool) -> "UserProgram":
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
            atexit.register(_restore_main, getattr(sys, "argv", []), sys.path[:], main)  # it may have deleted sys.argv
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
        changed = [
            (of, {name: of[name] for name in before if name in of and of[name] is not before[name]})
            for of, before in self._functions
        ]
        for of, before in self._functions:
            of.update(before)
        sys.modules.update(self._modules)
        atexit.register(_restore_changes, changed, sys.meta_path[:], sys.gettrace(), sys.getprofile())
        sys.meta_path[:] = self._finders
        sys.settrace(self._trace)
        sys.setprofile(self._profile)


def _restore_changes(
    functions: list[tuple[dict[str, Any], dict[str, Any]]], finders: Any, trace: Any, profile: Any
) -> None:
    for of, changed in functions:
        of.update(changed)
    sys.meta_path[:] = finders
    sys.settrace(trace)
    sys.setprofile(profile)


def _restore_main(argv: list[str], path: list[str], main: ModuleType) -> None:
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
        error.__context__ = None  # python calls its hook outside of all handlers
        _print_as_python("Error in sys.excepthook:")
        sys.__excepthook__(type(error), hide_own_frames(error), error.__traceback__)
        _print_as_python("\nOriginal exception was:")
        sys.__excepthook__(type(exc), exc, exc.__traceback__)
    return INTERRUPTED if isinstance(exc, KeyboardInterrupt) else 1


def _exit_status(exc: SystemExit) -> int:
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


def join_threads(
    only: Collection[int] | None = None, within_s: float | None = None, before: Collection[threading.Thread] = ()
) -> None:
    """Wait for the program's threads as python does before it exits; for `only` some of them, or only `within_s`.

    Threads that ran `before` the program are not its own. As at python's exit, open pools of threads end with the work
    that they have.
    """
    end = HOST_TIME.monotonic() + within_s if within_s is not None else None
    with suppress(BaseException):  # Ctrl-C
        while threads := [thread for thread in threading.enumerate() if _is_awaited(thread, only, before)]:
            for thread in threads:
                _close_pool(thread)
            threads[0].join(None if end is None else max(0.0, end - HOST_TIME.monotonic()))
            if end is not None and HOST_TIME.monotonic() >= end:
                return


def _is_awaited(thread: threading.Thread, only: Collection[int] | None, before: Collection[threading.Thread]) -> bool:
    if thread in before or thread is threading.current_thread() or thread is threading.main_thread():
        return False
    return not thread.daemon if only is None else thread.ident in only


def _close_pool(thread: threading.Thread) -> None:
    """Let the pool of a thread take no more work, if it is a ThreadPoolExecutor's: its threads end after the last."""
    if thread in getattr(sys.modules.get("concurrent.futures.thread"), "_threads_queues", ()):
        arguments = vars(thread).get("_args")
        pool = arguments[0]() if arguments else None  # a weak reference: of a pool that is gone, the threads end anyway
        if pool is not None:
            pool.shutdown(wait=False)


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


INSTALLED_FOLDERS = tuple(
    {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def is_installed(file: str) -> bool:
    """Return whether a file belongs to Python or to an installed package, even to one of another environment."""
    packages = (f"{os.sep}{folder}{os.sep}" in file for folder in ("site-packages", "dist-packages"))
    return file.startswith(INSTALLED_FOLDERS) or any(packages)


IMPORT_FOLDER = str(Path(__file__).parents[2])
"""The folder from which this process imports pinprof, and from which its children can."""
