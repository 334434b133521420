"""A version of a program: the command that runs it, its folder, and what it is called."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pinprof.ab.tasks import Task, WorkerConfig
from pinprof.capture.children.commands import Command, python_command
from pinprof.errors import MeasureError

HOME = str(Path(__file__).parents[2])
"""The folder from which this process imports pinprof."""
CONFIG = "worker.config"
"""The file that tells a worker what to do, in the folder of its output."""
PINPROF = (
    "import sys; sys.path[0] = {home!r}; import pinprof; sys.path[0] = ''; "
    "{home!r} in sys.path or sys.path.append({home!r}); from pinprof.cli import main; main()"
)
"""Runs this very pinprof, which need not be installed; another one may be, or stand in the program's own folder."""


@dataclass(frozen=True)
class Program:
    """A version of a program."""

    name: str
    """What to call it: a revision, or `working tree`."""
    words: tuple[str, ...]
    """`python train.py --lr 1`, `train.py --lr 1`, `-m package.train`, or `torchrun --nproc-per-node 2 train.py`."""
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """What it has beside, or in place of, this process's environment."""
    not_its_own: tuple[str, ...] = ()
    """Folders whose code it must not import: those of the other version, each with a separator at its end."""

    def under_worker(self, task: Task, output: Path) -> list[str]:
        """Return the command of a worker that does the task and writes `output`; its config is a file beside that.

        Raises MeasureError if it is no command of this Python.
        """
        command = self.python_command()
        work = WorkerConfig(command.name, list(command.args), command.module, task, str(output))
        return worker_command(command.python, work, output.parent)

    def python_command(self) -> Command:
        """Return its command as one of this Python. Raises MeasureError if it is none, or has no script."""
        words = with_python(self.words)
        command = python_command(words, {**os.environ, **self.environment}, self.folder)
        if command is None:
            if "-c" in words[:2]:
                raise MeasureError(f"{shlex.join(self.words)}: a program of -c cannot be measured; put it into a file")
            found = shutil.which(words[0]) if words else None
            is_other = f" ({words[0]} is {found})" if found else ""
            raise MeasureError(
                f"{shlex.join(self.words) or 'nothing'}: not a command of the Python that runs pinprof, "
                f"{sys.executable}{is_other}; leave `python` out, as in `train.py ...` and `-m module ...`, or "
                "activate the environment of that one, for its `torchrun`, too"
            )
        if not command.module and not (self.folder / command.name).is_file():
            raise MeasureError(f"{self.name}: there is no script {command.name}")
        return command


def worker_command(python: Sequence[str], work: WorkerConfig, folder: Path) -> list[str]:
    """Return the command of a worker that does this work; its config becomes a file in the folder."""
    file = folder / CONFIG
    file.write_bytes(msgspec.json.encode(work))
    return [*python, "-c", PINPROF.format(home=HOME), "worker", str(file)]


def with_python(words: Sequence[str]) -> list[str]:
    """Return a command with this Python before it, where it begins with a script or `-m`."""
    first = words[0] if words else ""
    return [sys.executable, *words] if first == "-m" or first.endswith(".py") else list(words)
