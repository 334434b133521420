"""Forks for `warm_python`: `warm_server.py FOLDER` listens at a socket there until its standard input ends."""

import atexit
import fcntl
import gc
import io
import marshal
import os
import runpy
import signal
import socket
import sys
import threading
import warnings
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import spawn
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from types import ModuleType

import numpy as np

LOADED = (
    "torch._dynamo",  # with the first optimizer
    "torch.distributed.run",
    "pinprof.capture.script",
    "pinprof.cli.report",
    "pinprof.report.explain",
    "pinprof.report.trace.json",
    "pinprof.report.trace.text",
    "rich.markdown",
)
"""What programs here load."""
HIGH = 512
"""Above the numbers of the files that a program here has open."""
SIGNALS = signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGCHLD


@dataclass(frozen=True)
class Asked:
    """What a fork is to be."""

    options: list[str]
    """Python's own."""
    words: list[str]
    environment: dict[bytes, bytes]
    folder: bytes
    numbers: list[int]
    """Of the open files."""
    files: list[int]
    """The same files here."""

    @staticmethod
    def by(connection: socket.socket) -> "Asked | None":
        """Read what the command asks for; None if it was killed before it had asked."""
        size, files, _, _ = socket.recv_fds(connection, 4, 250)
        data, more = b"", size
        while more and len(data) < int.from_bytes(size, "little"):
            data += (more := connection.recv(1 << 16))
        if not more:
            for file in files:
                os.close(file)
            return None
        options, words, environment, folder, numbers = marshal.loads(data)
        return Asked(options, words, environment, folder, numbers, files)


class Server:
    """Forks for each that asks, and tells it how its fork has ended."""

    def __init__(self, folder: Path) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / "socket"))
        self._listening.listen(64)
        self._woken, wakes = os.pipe2(os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes)
        self._asking: dict[int, socket.socket] = {}
        self._selector = DefaultSelector()
        for source in (sys.stdin, self._listening, self._woken):
            self._selector.register(source, EVENT_READ)

    def serve(self) -> Asked:
        """Serve until standard input ends. Returns in the forks alone."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    for child in self._asking:
                        _kill(child)
                    os._exit(0)
                elif key.fileobj is self._listening:
                    asked = self._fork()
                    if asked is not None:
                        return asked
                elif key.fileobj == self._woken:
                    os.read(self._woken, 1024)
                elif key.data in self._asking:  # who asked was killed
                    _kill(key.data)
                    self._selector.unregister(key.fileobj)
            self._tell()

    def _fork(self) -> Asked | None:
        """Return what a fork is asked to be in the fork, and None in the process that goes on serving."""
        connection, _ = self._listening.accept()
        asked = Asked.by(connection)
        if asked is None:
            connection.close()
            return None
        child = os.fork()
        if child == 0:
            return asked
        with suppress(ProcessLookupError, PermissionError):
            os.setpgid(child, child)  # so that it can be killed before it has done so itself
        for file in asked.files:
            os.close(file)
        with suppress(OSError):  # who asked is gone, which the selector tells, too
            connection.sendall(child.to_bytes(4, "little"))
        self._asking[child] = connection
        self._selector.register(connection, EVENT_READ, child)
        return None

    def _tell(self) -> None:
        while self._asking:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                break
            connection = self._asking.pop(child)
            with suppress(KeyError):
                self._selector.unregister(connection)
            with suppress(OSError):  # who asked is gone
                connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "little", signed=True))
            connection.close()


def _kill(child: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def become(asked: Asked, path: list[str], python: str) -> None:
    """Make this fork what Python is before it runs a program."""
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    os.chdir(asked.folder)
    os.environb.clear()
    os.environb.update(asked.environment)
    _open(asked)
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    for option in asked.options:
        if option not in {"-u", "-W"}:
            sys.warnoptions.append(option)
            warnings._setoption(option)  # type: ignore[attr-defined]
    own = [str(Path(name).absolute()) for name in os.environ.get("PYTHONPATH", "").split(os.pathsep) if name]
    sys.path[:] = [*own, *path]
    sys.executable = python
    spawn.set_executable(python)
    np.random.seed()  # noqa: NPY002  Python's own random numbers differ in each fork, and torch's are the same in each process
    with suppress(ImportError):
        __import__("sitecustomize")


def _open(asked: Asked) -> None:
    high = [fcntl.fcntl(file, fcntl.F_DUPFD, HIGH) for file in asked.files]
    os.closerange(0, HIGH)
    for file, number in zip(high, asked.numbers, strict=True):
        os.dup2(file, number)
        os.close(file)
    at_once = "-u" in asked.options or bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if number in asked.numbers:
            binary = open(number, "wb" if number else "rb", closefd=False)  # noqa: SIM115  it stays open
            errors = "backslashreplace" if number == 2 else "strict"
            lines = number == 2 or os.isatty(number)
            stream = io.TextIOWrapper(binary, "utf-8", errors, line_buffering=lines, write_through=at_once)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def run(words: list[str]) -> None:
    """Run a program as Python does."""
    first, *others = words
    main = sys.modules["__main__"] = ModuleType("__main__")
    vars(main)["__builtins__"] = __builtins__
    sys.argv[:] = [first, *others[1:]] if first in {"-c", "-m"} else words
    sys.orig_argv[:] = [sys.executable, *words]
    if first == "-m":
        sys.path.insert(0, str(Path.cwd()))
        runpy._run_module_as_main(others[0])  # type: ignore[attr-defined]
    elif first == "-c":
        sys.path.insert(0, "")
        exec(compile(others[0], "<string>", "exec"), vars(main))
    else:
        sys.path.insert(0, str(Path(first).resolve().parent))
        main.__file__ = first
        exec(compile(Path(first).read_bytes(), first, "exec"), vars(main))


def leave(status: int) -> None:
    """End the fork as Python does, but for the modules: to take them down would copy the pages of all."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.exit(status)  # Python says what it says, and ends with a status of its own
    os._exit(status)


if __name__ == "__main__":
    given = Path(sys.argv[1])
    installed = [entry for entry in sys.path[1:] if entry != os.environ["PYTHONPATH"]]
    for name in LOADED:
        import_module(name)
    server = Server(given)
    gc.collect()
    gc.freeze()  # a collection in a fork would copy all pages
    os.write(1, b"listening\n")
    it = server.serve()
    del server
    become(it, installed, str(given / "python"))
    status = 0
    try:
        run(it.words)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        status = end.code or 0
    except Exception as error:  # noqa: BLE001  shown as Python does, without the frames of this file
        shown = error.__traceback__
        for _ in range(2):
            shown = shown and shown.tb_next
        sys.excepthook(type(error), error.with_traceback(shown), shown)
        status = 1
    leave(status)
