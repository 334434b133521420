"""Decides which processes of a program are followed, and changes their commands so that pinprof records them."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.machinery import PathFinder
from importlib.util import find_spec
from inspect import unwrap
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pinprof.capture.children.notes import ChildConfig
from pinprof.capture.job import rank_in
from pinprof.program.user_program import IMPORT_FOLDER, is_installed, is_script

FOLLOWED_LAUNCHERS = (
    *("torch.distributed.run", "torch.distributed.launch", "lightning.fabric.cli"),
    *("accelerate.commands.launch", "accelerate.commands.accelerate_cli"),
    *("deepspeed.launcher.runner", "deepspeed.launcher.launch"),
)
"""Modules that start a training script."""
LAUNCHER_PROGRAMS = ("torchrun", "accelerate", "accelerate-launch", "deepspeed", "fabric")
"""The names of launchers as programs."""
OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")  # options of python whose value is the next word
SHEBANG_BYTES = 256  # the longest first line of a program that Linux reads
FOLLOWED_PROGRAM = (
    "import sys; first = [] if getattr(sys.flags, 'safe_path', False) else [sys.path.pop(0)]; "
    "{home!r} in sys.path or sys.path.append({home!r}); "
    "from pinprof.capture.children.child import main; sys.path[:0] = first; main({config!r}, module={module!r})"
)
"""What a followed child runs first. While it imports pinprof, the working directory is not on the path."""


class PythonCommand(NamedTuple):
    """A command of Python: the words before the script or module, its name, and the words after it."""

    python: tuple[str, ...]
    module: bool
    name: str
    args: tuple[str, ...]

    def followed(self, config: ChildConfig) -> list[str]:
        """Return the command that does the same and is recorded."""
        program = FOLLOWED_PROGRAM.format(
            home=IMPORT_FOLDER, config=msgspec.json.encode(config).decode(), module=self.module
        )
        return [*self.python, "-c", program, self.name, *self.args]


def words_of(args: object) -> list[str] | None:
    """Return the words of a command, given as to `subprocess.Popen`; None for a line of a shell."""
    if isinstance(args, (str, bytes, os.PathLike)):
        return None
    if isinstance(args, Sequence):
        return [os.fsdecode(word) if isinstance(word, (bytes, os.PathLike)) else str(word) for word in args]
    return None


def to_follow(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> PythonCommand | None:
    """Return the command if it starts a script of the user, a launcher, or a rank of its own; otherwise None."""
    command = python_command(words, environment, folder)
    if command is None:
        return None
    rank = rank_in(environment)
    if rank is not None and rank != rank_in(os.environ):
        return command
    is_users = _is_users_module(command.name, folder) if command.module else _is_users_script(folder / command.name)
    return command if is_users else None


def may_train(line: str) -> bool:
    """Return whether a command line that is not followed may start a training script."""
    words = [Path(word).name for word in line.split()]
    return any(word in LAUNCHER_PROGRAMS or word.endswith(".py") for word in words)


def as_line(args: object) -> str:
    """Return a command as one line, for use in a sentence."""
    words = words_of(args)
    text = shlex.join(words) if words is not None else os.fsdecode(args) if isinstance(args, bytes) else str(args)
    return " ".join(text.split())


def python_command(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> PythonCommand | None:
    """Return the command if it runs a script or module with this Python; otherwise None."""
    program = _path_of(words[0], environment, folder) if words else None
    if program is None:
        return None
    if _is_this_python(program):
        return _split(words)
    shebang = _shebang(program)
    if shebang and _is_this_python(Path(shebang[0])):
        return _split([*shebang, str(program), *words[1:]])
    return None


def _path_of(program: str, environment: Mapping[str, str], folder: Path) -> Path | None:
    if os.sep in program:
        path = folder / program
        return path if path.is_file() else None
    resolved = shutil.which(program, path=environment.get("PATH", os.environ.get("PATH")))
    return Path(resolved) if resolved else None


def _is_this_python(program: Path) -> bool:
    """Return whether a program is the Python that runs now: another one may have other packages."""
    running = Path(sys.executable)
    same_folder = program.parent.resolve() == running.parent.resolve()
    return same_folder and program.name.startswith("python") and program.resolve() == running.resolve()


def _shebang(program: Path) -> list[str]:
    with program.open("rb") as file:
        first = file.readline(SHEBANG_BYTES)
    if not first.startswith(b"#!"):
        return []
    words = os.fsdecode(first[2:]).split()
    if words[:1] == ["/usr/bin/env"]:
        program_of_env = shutil.which(words[1]) if len(words) > 1 else None
        return [program_of_env, *words[2:]] if program_of_env else []
    return words


def _split(words: Sequence[str]) -> PythonCommand | None:
    """Split the words of a command of python at its script or module; None if it runs neither."""
    index = 1
    while index < len(words):
        word = words[index]
        if word == "-m" and index + 1 < len(words):
            return PythonCommand(tuple(words[:index]), True, words[index + 1], tuple(words[index + 2 :]))
        if not word.startswith("-"):
            return PythonCommand(tuple(words[:index]), False, word, tuple(words[index + 1 :]))
        if word in {"-", "-c", "-i"} or word.startswith("-c"):
            return None
        index += 2 if word in OPTIONS_WITH_VALUE else 1
    return None


def _is_users_module(name: str, folder: Path) -> bool:
    if name in FOLLOWED_LAUNCHERS:
        return True
    path = folder.joinpath(*name.split("."))
    if path.with_suffix(".py").is_file() or (path / "__main__.py").is_file():
        return True
    top = name.partition(".")[0]
    try:  # the paths first: asked for pip, setuptools' finder unloads this program's own distutils
        spec = PathFinder.find_spec(top) or find_spec(top)
    except (ImportError, ValueError):
        return False
    origin = spec.origin if spec else None
    return origin is not None and origin not in {"built-in", "frozen"} and not is_installed(origin)


def _is_users_script(path: Path) -> bool:
    if path.name in LAUNCHER_PROGRAMS:
        return True
    if not is_script(path):
        return False
    return not is_installed(str(path)) and path.resolve().parent != Path(sys.executable).parent.resolve()


SPAWNED_BY_TORCH = "torch.multiprocessing.spawn"
"""The module of the function that every process of `torch.multiprocessing.spawn` runs."""
POOL_MODULES = ("concurrent.futures.process", "multiprocessing.pool")
"""The modules of the functions that processes of pools run."""


def may_make_steps(process: BaseProcess) -> bool:
    """Return whether a process runs the user's code, and serves neither a DataLoader nor a pool, which waits for it."""
    return any(_trains(function) for function in (type(process).run, vars(process).get("_target")))


def serves_pool(process: BaseProcess) -> bool:
    """Return whether a process works for a pool: it may get functions that train, so it is recorded, never stopped."""
    return getattr(vars(process).get("_target"), "__module__", None) in POOL_MODULES


def _trains(function: Any) -> bool:
    while isinstance(function, partial):
        function = function.func
    if getattr(function, "__module__", None) == SPAWNED_BY_TORCH:
        return True
    code = getattr(unwrap(function), "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return code is not None and not is_installed(code.co_filename)
