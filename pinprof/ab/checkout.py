"""Versions of a program in git: a revision in a worktree of its own, with a patch or not, removed afterwards."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pinprof.ab.program import Program
from pinprof.errors import MeasureError
from pinprof.git import GitError, git

MADE = {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", "build", "dist"}
"""Folders that no program reads and that belong to one version."""


@dataclass(frozen=True)
class Repository:
    """A git repository; `folder` is where the command is to run, at or below its `top`."""

    top: Path
    folder: Path

    @classmethod
    def around(cls, folder: Path) -> "Repository":
        """Return the repository of a folder. Raises MeasureError if there is none."""
        try:
            top = _git(folder, "rev-parse", "--show-toplevel")
        except MeasureError as error:
            raise MeasureError(
                f"{folder}: not in a git repository ({error}); compare two commands: --against 'python other.py'"
            ) from error
        return cls(Path(top), folder.resolve())

    def commit(self, revision: str) -> str:
        """Return the commit of a revision. Raises MeasureError if there is none."""
        try:
            return _git(self.top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except MeasureError as error:
            shallow = _git(self.top, "rev-parse", "--is-shallow-repository") == "true"
            way = "; this clone is shallow: fetch more of it (in actions/checkout: fetch-depth: 0)" if shallow else ""
            raise MeasureError(f"{revision}: git knows no such revision{way}") from error

    def short(self, commit: str) -> str:
        """Return the short form of a commit."""
        return _git(self.top, "rev-parse", "--short", commit)

    def subject(self, commit: str) -> str:
        """Return the first line of the message of a commit."""
        return _git(self.top, "show", "--no-patch", "--format=%s", commit)

    def between(self, good: str, bad: str) -> list[str]:
        """Return the commits after the good one up to the bad one, the oldest first."""
        return _git(self.top, "rev-list", "--reverse", "--first-parent", f"{good}..{bad}").split()

    def state(self) -> str:
        """Return the text of all changes of what git knows, to see whether it was changed; not what programs write."""
        return _git(self.top, "status", "--porcelain", "--untracked-files=no") + _git(self.top, "diff", "HEAD")

    def changed(self, commit: str) -> bool:
        """Return whether the working tree differs from a commit."""
        return bool(_git(self.top, "diff", "--name-only", commit) or self.untracked())

    def untracked(self) -> list[str]:
        """Return the files that git does not know and does not ignore."""
        return _lines(_git(self.top, "ls-files", "--others", "--exclude-standard", "--directory", "-z"))

    def ignored(self) -> list[str]:
        """Return the files and folders that git ignores, as data or results, without caches."""
        found = _lines(_git(self.top, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"))
        return [
            path for path in found if not MADE & set(Path(path).parts) and not path.endswith((".pyc", ".egg-info/"))
        ]

    def submodules(self) -> list[str]:
        """Return the folders of submodules."""
        rows = _git(self.top, "ls-files", "--stage", "-z").split("\0")
        return [row.partition("\t")[2] for row in rows if row.startswith("160000 ")]

    @contextmanager
    def checkout(self, commit: str, patch: Path | None = None) -> Iterator[Path]:
        """Give the block a folder with a commit, and the patch applied; it is removed however the block ends.

        What git does not have is linked from the working tree: ignored files (data, for one) and submodules.
        """
        outer = Path(tempfile.mkdtemp(prefix="pinprof-ab-"))
        place = outer / self.top.name
        try:
            _git(self.top, "worktree", "add", "--detach", "--force", str(place), commit, as_the_user=True)
            if patch is not None:
                apply_patch(place, patch)
            self._link(place)
            yield place
        finally:
            with suppress(MeasureError):
                _git(self.top, "worktree", "remove", "--force", "--force", str(place))
            shutil.rmtree(outer, ignore_errors=True)
            with suppress(MeasureError):
                _git(self.top, "worktree", "prune")

    def version(self, name: str, place: Path, words: Sequence[str], others: Sequence[Path] = ()) -> Program:
        """Return the version in a folder like this repository; it must not import code of the other versions."""
        away = {} if place == self.top else moved_path(self.top, place)
        folder = place / self.folder.relative_to(self.top)
        if not folder.is_dir():
            raise MeasureError(f"{name}: it has no folder {self.folder.relative_to(self.top)}")
        inside = {self.top / path for path in (*self.ignored(), *self.submodules())}
        wrong = tuple(f"{other}{os.sep}" for other in others if not any(link in place.parents for link in inside))
        return Program(name, tuple(words), folder, away, wrong)

    def _link(self, place: Path) -> None:
        for path in self.submodules():
            with suppress(OSError):
                (place / path).rmdir()
        for path in (*self.submodules(), *self.ignored()):
            here, there = self.top / path.rstrip("/"), place / path.rstrip("/")
            if here.exists() and not there.exists() and not here.is_relative_to(place.parent):
                with suppress(OSError):
                    there.parent.mkdir(parents=True, exist_ok=True)
                    there.symlink_to(here)


def apply_patch(folder: Path, patch: Path) -> None:
    """Apply a unified diff in a folder. Raises MeasureError if it does not fit."""
    try:
        _git(folder, "apply", "--whitespace=nowarn", str(patch.resolve()), as_the_user=True)
    except MeasureError as error:
        raise MeasureError(f"{patch}: the patch does not apply ({error})") from error


def moved_path(top: Path, place: Path) -> dict[str, str]:
    """Return the environment in which folders of the repository on PYTHONPATH are those of the other version."""
    path = os.environ.get("PYTHONPATH")
    if not path:
        return {}
    entries = [Path(entry) for entry in path.split(os.pathsep)]
    moved = [
        str(place / entry.resolve().relative_to(top))
        if entry.is_absolute() and entry.resolve().is_relative_to(top)
        else str(entry)
        for entry in entries
    ]
    return {"PYTHONPATH": os.pathsep.join(moved)}


def _lines(text: str) -> list[str]:
    return [path for path in text.split("\0") if path]


def _git(folder: Path, *words: str, as_the_user: bool = False) -> str:
    """Return what git prints. Raises MeasureError with its first line if it fails."""
    try:
        return git(folder, *words, as_the_user=as_the_user)
    except GitError as error:
        raise MeasureError(str(error)) from error
