"""The folder of a server: names of files and programs that lead outside of it are refused."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pinprof.errors import PinprofError
from pinprof.trace.files import trace_files
from pinprof.urls import STANDARD_INPUT, is_url, shown

MOST_FILES = 256
"""The most traces of a call; a job of more ranks needs a terminal."""
MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
PYTHONS = ("python", "python3")
PLAIN_OPTIONS = {"-u", "-O", "-B"}
"""Options of python that name no code."""
RANKS = re.compile(r"--(standalone|n(proc[-_]per[-_]node|nodes)=[0-9]{1,3})")
"""Options of torchrun that say how many ranks there are."""


@dataclass(frozen=True)
class Folder:
    """A folder, without links in its own path."""

    root: Path

    def inside(self, name: str) -> Path:
        """Return the path of a name, links resolved. Raises PinprofError if it is outside of the folder or absent."""
        if name == STANDARD_INPUT or is_url(name):
            raise PinprofError(f"{shown(name)}: name a file in the folder of this server, not a URL or standard input")
        try:
            path = (self.root / name).resolve()
            if not path.is_relative_to(self.root):
                raise PinprofError(f"{name}: is outside of the folder of this server, {self.root}")
            is_there = path.exists()
        except (OSError, ValueError, RuntimeError) as error:  # too long, with a null, a loop of links
            raise PinprofError(f"{name[:200]}: is not a name that a file can have") from error
        if not is_there:
            pattern = "; patterns are not taken: name files, or their folder" if re.search(r"[*?\[]", name) else ""
            raise PinprofError(f"{name}: there is no such file in {self.root}{pattern}")
        return path

    def file(self, name: str) -> str:
        """Return the name of a regular file relative to the folder."""
        path = self.inside(name)
        if not path.is_file():
            raise PinprofError(f"{name}: is not a regular file")
        return str(path.relative_to(self.root))

    def traces(self, names: Sequence[str]) -> list[str]:
        """Return the traces of names of files and folders, relative to the folder.

        Links that lead outside are left out of a named folder; a folder with only such links is refused.
        """
        files: list[str] = []
        for name in names:
            path = self.inside(name)
            files += [self.file(trace) for trace in self._traces_in(path)] if path.is_dir() else [self.file(name)]
        if len(files) > MOST_FILES:
            raise PinprofError(f"{len(files)} traces are too many for a call, at most {MOST_FILES}; use a terminal")
        return files

    def left_out(self, names: Sequence[str]) -> list[str]:
        """Return the traces in the named folders that `traces` leaves out."""
        folders = [path for path in map(self.inside, names) if path.is_dir()]
        return [trace for path in folders for trace in {*trace_files(str(path))} - {*self._traces_in(path)}]

    def _traces_in(self, path: Path) -> list[str]:
        traces = trace_files(str(path))
        return [trace for trace in traces if not _leads_out(Path(trace), self.root)] or traces

    def program(self, words: Sequence[str]) -> list[str]:
        """Return a command of this Python whose script or module is in the folder. Raises PinprofError for others."""
        launcher, rest = _launcher(words)
        first = rest[0] if rest else ""
        if first == "-m" and len(rest) > 1:
            return [*launcher, "-m", self._module(rest[1]), *rest[2:]]
        if not first.endswith(".py"):
            raise PinprofError(
                f"{first or 'nothing'}: not a program of the folder; give `python train.py`, `train.py`, `-m module` "
                "or `torchrun --nproc-per-node=2 train.py`"
            )
        return [*launcher, self.file(first), *rest[1:]]

    def _module(self, name: str) -> str:
        path = name.replace(".", "/")
        if MODULE.fullmatch(name):
            for file in (f"{path}.py", f"{path}/__main__.py"):
                if (self.root / file).is_file():
                    self.file(file)
                    return name
        raise PinprofError(f"{name}: there is no such module in {self.root}")


def _leads_out(path: Path, root: Path) -> bool:
    """Return whether a link leads out of a folder; False for a broken link, which is refused later."""
    try:
        return not path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):
        return False


def _launcher(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words before the script or the `-m` of a command, and the others."""
    count = 0
    if words and words[0] in PYTHONS:
        count = 1
        while count < len(words) and words[count] in PLAIN_OPTIONS:
            count += 1
    elif words and words[0] == "torchrun":
        count = 1
        while count < len(words) and RANKS.fullmatch(words[count]):
            count += 1
    launcher = [] if count == 1 and words[0] in PYTHONS else [_of_this_python(word) for word in words[:count]]
    return launcher, list(words[count:])


def _of_this_python(word: str) -> str:
    """Return a launcher of the Python that runs the server, which may not be on the client's path."""
    if word in PYTHONS:
        return sys.executable
    installed = Path(sys.executable).parent / word
    return str(installed) if word == "torchrun" and installed.is_file() else word
