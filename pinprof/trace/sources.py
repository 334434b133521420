"""The source files of a recorded program, where they are at hand."""

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from pinprof.git import REPOSITORY
from pinprof.trace.constructors import Made

EDITED_AFTER_S = 10
"""A source file that is newer than the trace by more than this is not the one that ran; files of one copy or checkout
are written within seconds of each other, in any order."""

WITHIN = "PINPROF_SOURCES_WITHIN"
"""If this environment variable names a folder, only sources in it are read: a trace may name any file."""

MAX_BYTES = 10_000_000
"""Nobody wrote a source file larger than this."""


def project_of(folder: Path) -> Path:
    """Return the top folder of the program in a folder: the git repository around it, else the folder itself."""
    return next((parent for parent in (folder, *folder.parents) if (parent / REPOSITORY).exists()), folder)


class Sources:
    """Finds the source of a file that a trace names: from the working directory, else from the trace's own folder.

    A trace names a file of a package as it is imported, as `mypackage/net.py`. Such a one may also be in the top folder
    of the project, or in its `src`.
    """

    def __init__(self, trace_path: str, made: Made | None = None) -> None:
        """Look in the trace's folder, too; `made` has hashes of some files as they ran, surer than their times."""
        self._trace = Path(trace_path)
        self._hashes = made.sources if made else {}
        self._found: dict[str, str | None] = {}
        self._at: dict[str, Path | None] = {}

    def text(self, file: str) -> str | None:
        """Return the text of a source file; None if it is not at hand, is not Python, or was edited after the trace."""
        if file not in self._found:
            self._found[file] = self._read(file) if file.endswith(".py") else None
        return self._found[file]

    def path(self, file: str) -> Path | None:
        """Return where a source file is at hand, edited since or not; None if it is not, or is not Python."""
        if file not in self._at:
            self._at[file] = next(self._paths(file), None) if file.endswith(".py") else None
        return self._at[file]

    def _paths(self, file: str) -> Iterator[Path]:
        folders = [Path(), self._trace.parent]
        if len(Path(file).parts) > 1:
            folders += [self._project, self._project / "src"]
        for folder in folders:
            path = folder / file
            with suppress(OSError, ValueError):  # not readable, or no name that a file can have
                if _may_be_read(path) and path.is_file():
                    yield path

    def _read(self, file: str) -> str | None:
        for path in self._paths(file):
            with suppress(OSError, ValueError):  # not readable, or not text
                if not self.is_edited(path, file) and path.stat().st_size <= MAX_BYTES:
                    return path.read_text(encoding="utf-8-sig")
        return None

    @cached_property
    def _project(self) -> Path:
        return project_of(Path.cwd())

    def is_edited(self, path: Path, file: str) -> bool:
        """Return whether a file at a path is not as the trace's program had it; raises OSError if it is gone.

        Its recorded hash decides; without one, whether the file was written after the trace.
        """
        recorded = self._hashes.get(file)
        if recorded is not None and path.stat().st_size <= MAX_BYTES:
            return sha256(path.read_bytes()).hexdigest() != recorded
        return path.stat().st_mtime > self._recorded + EDITED_AFTER_S

    @cached_property
    def _recorded(self) -> float:
        try:
            return self._trace.stat().st_mtime
        except OSError:
            return 0.0


def _may_be_read(path: Path) -> bool:
    """Return whether a file is in the folder that the environment names, links followed, if it names one."""
    folder = os.environ.get(WITHIN)
    return not folder or path.resolve().is_relative_to(Path(folder).resolve())
