"""Versions of a program in git: a revision in a folder of its own, with a patch or not, removed afterwards."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pinprof.ab.copies import CACHES, copy_folder, copy_git, copying, exclude, git_directory
from pinprof.ab.worker import ProgramVersion
from pinprof.errors import MeasureError
from pinprof.git import REPOSITORY, GitError, git
from pinprof.temporary import temporary_folder

BUILT = CACHES | {"build", "dist"}
"""Folders that belong to one version, and that the program does not read."""
CEILING = "GIT_CEILING_DIRECTORIES"


@dataclass(frozen=True)
class Repository:
    """A git repository; `folder` is where the command is to run, at or below its `top`."""

    top: Path
    folder: Path

    @classmethod
    def around(cls, folder: Path) -> "Repository":
        """Return the repository of a folder. Raises MeasureError if there is none."""
        try:
            top = git(folder, "rev-parse", "--show-toplevel")
        except GitError as error:
            raise MeasureError(
                f"{folder}: not in a git repository ({error}); compare two commands: --against 'python other.py'"
            ) from error
        return cls(Path(top), folder.resolve())

    def commit(self, revision: str) -> str:
        """Return the commit of a revision. Raises MeasureError if there is none."""
        try:
            return git(self.top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except GitError as error:
            shallow = git(self.top, "rev-parse", "--is-shallow-repository") == "true"
            way = "; this clone is shallow: fetch more of it (in actions/checkout: fetch-depth: 0)" if shallow else ""
            raise MeasureError(f"{revision}: git knows no such revision{way}") from error

    def short(self, commit: str) -> str:
        """Return the short form of a commit."""
        return git(self.top, "rev-parse", "--short", commit)

    def subject(self, commit: str) -> str:
        """Return the first line of the message of a commit."""
        return git(self.top, "show", "--no-patch", "--format=%s", commit)

    def between(self, good: str, bad: str) -> list[str]:
        """Return the commits after the good one up to the bad one, the oldest first."""
        return git(self.top, "rev-list", "--reverse", "--first-parent", f"{good}..{bad}").split()

    def state(self) -> str:
        """Return the commit and all changes of tracked files; files that programs write do not count."""
        return (
            self.commit("HEAD")
            + git(self.top, "status", "--porcelain", "--untracked-files=no")
            + git(self.top, "diff", "HEAD")
        )

    def changed(self, commit: str) -> bool:
        """Return whether the working tree differs from a commit."""
        return bool(git(self.top, "diff", "--name-only", commit) or self.untracked())

    def untracked(self) -> list[str]:
        """Return the files that git does not know and does not ignore."""
        return _paths(git(self.top, "ls-files", "--others", "--exclude-standard", "--directory", "-z"))

    def ignored(self) -> list[str]:
        """Return the files and folders that git ignores, as data or results, without caches."""
        paths = _paths(git(self.top, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"))
        return [
            path for path in paths if not BUILT & set(Path(path).parts) and not path.endswith((".pyc", ".egg-info/"))
        ]

    def submodules(self) -> list[str]:
        """Return the folders of submodules."""
        rows = git(self.top, "ls-files", "--stage", "-z").split("\0")
        return [row.partition("\t")[2] for row in rows if row.startswith("160000 ")]

    @contextmanager
    def checkout(self, commit: str, patch: Path | None = None) -> Iterator[Path]:
        """Give the block a folder with a commit, and the patch applied; it is removed however the block ends.

        It has a git directory of its own, so that nothing that the program does with git reaches the repository. Files
        that are not in git come from the working tree: ignored files, such as data, are linked; submodules and other
        repositories are copied.
        """
        with temporary_folder("ab") as outer:
            copy_top = outer / self.top.name
            with copying(self.top):
                copy_top.mkdir()
                copy_git(self.top / REPOSITORY, copy_top / REPOSITORY)
                (copy_top / REPOSITORY / "index").unlink(missing_ok=True)  # it is that of the working tree
                git(copy_top, "checkout", "--quiet", "--force", "--detach", commit, as_the_user=True)
                if patch is not None:
                    apply_patch(copy_top, patch)
                self._add_others(copy_top)
            yield copy_top

    def version(self, name: str, copy_top: Path, words: Sequence[str], others: Sequence[Path] = ()) -> ProgramVersion:
        """Return the version in a folder like this repository; it must not import code of the other versions."""
        environment = {} if copy_top == self.top else moved_environment(self.top, copy_top)
        folder = copy_top / self.folder.relative_to(self.top)
        if not folder.is_dir():
            raise MeasureError(f"{name}: it has no folder {self.folder.relative_to(self.top)}")
        inside = {self.top / path for path in (*self.ignored(), *self.submodules())}
        wrong = tuple(f"{other}{os.sep}" for other in others if not any(link in copy_top.parents for link in inside))
        return ProgramVersion(name, tuple(words), folder, environment, wrong)

    def _add_others(self, copy_top: Path) -> None:
        """Add to a version what is in the working tree and not in git."""
        for path in self.submodules():
            if (self.top / path).is_dir() and not any((copy_top / path).glob("*")):
                with suppress(OSError):
                    (copy_top / path).rmdir()
                (copy_top / path).parent.mkdir(parents=True, exist_ok=True)
                copy_folder(self.top / path, copy_top / path)
        links = []
        for path in self.ignored():
            original, copy = self.top / path.rstrip("/"), copy_top / path.rstrip("/")
            if original.exists() and not copy.exists() and not original.is_relative_to(copy_top.parent):
                with suppress(OSError):
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    if git_directory(original / REPOSITORY):
                        copy_folder(original, copy)
                    else:
                        copy.symlink_to(original)
                        links.append(copy.relative_to(copy_top))
        exclude(copy_top, links)


def apply_patch(folder: Path, patch: Path) -> None:
    """Apply a unified diff in a folder. Raises MeasureError if it does not fit."""
    try:
        git(folder, "apply", "--whitespace=nowarn", str(patch.resolve()), as_the_user=True)
    except GitError as error:
        raise MeasureError(f"{patch}: the patch does not apply ({error})") from error


def moved_environment(top: Path, copy_top: Path) -> dict[str, str]:
    """Return the environment of a version: folders of the repository on PYTHONPATH become the version's own.

    Git does not look for a repository above the version.
    """
    ceiling = os.pathsep.join(filter(None, (str(copy_top.parent), os.environ.get(CEILING))))
    return {CEILING: ceiling, **_moved_path(top, copy_top)}


def _moved_path(top: Path, copy_top: Path) -> dict[str, str]:
    path = os.environ.get("PYTHONPATH")
    if not path:
        return {}
    entries = [Path(entry) for entry in path.split(os.pathsep)]
    moved = [
        str(copy_top / entry.resolve().relative_to(top))
        if entry.is_absolute() and entry.resolve().is_relative_to(top)
        else str(entry)
        for entry in entries
    ]
    return {"PYTHONPATH": os.pathsep.join(moved)}


def _paths(text: str) -> list[str]:
    return [path for path in text.split("\0") if path]
