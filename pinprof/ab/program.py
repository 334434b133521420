"""A version of a program: the command that runs it, its folder, and what it is called."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pinprof.capture.children.commands import python_command
from pinprof.errors import MeasureError

HOME = str(Path(__file__).parents[2])
"""The folder from which this process imports pinprof."""
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

    def under_pinprof(self, options: Sequence[str]) -> list[str]:
        """Return the command that runs it as `pinprof run` with these options. Raises MeasureError if it cannot."""
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
        what = ["-m", command.name] if command.module else [command.name]
        return [*command.python, "-c", PINPROF.format(home=HOME), "run", *options, *what, *command.args]


def with_python(words: Sequence[str]) -> list[str]:
    """Return a command with this Python before it, where it begins with a script or `-m`."""
    first = words[0] if words else ""
    return [sys.executable, *words] if first == "-m" or first.endswith(".py") else list(words)
