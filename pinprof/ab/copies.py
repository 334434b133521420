"""Copies of a program in folders of their own, in which it can run and change files; they are removed afterwards.

The copy of a repository reads the objects of the original (`objects/info/alternates`), and has everything else for
itself: HEAD, branches, tags, the stash, the index, and the configuration, without hooks. What a program commits or tags
there ends with the copy, and it can push nothing.
"""

import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pinprof.errors import MeasureError
from pinprof.git import REPOSITORY, GitError, git
from pinprof.temporary import temporary_folder

CACHES = {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox"}
"""Folders that no program reads."""
LINKED = {".venv", "venv", "node_modules", "site-packages"}
"""Folders that are not the program's own code."""
LARGEST_FILE = 64 * 2**20
"""A larger file is linked, unless it is code."""
LARGEST_FOLDER = 2**28
MOST_FILES = 2000
"""A folder with more, or with more bytes than `LARGEST_FOLDER`, is linked as data if neither code nor a
repository is in it."""
MOST_COPIED = 2**30
"""The most bytes that a copy has, apart from code; files beyond that are linked."""
MOST_ENTRIES = 100_000
"""A folder with more entries would take too long to copy."""
GIT_FOLDERS = ("info", "logs", "refs", "reftable", "rebase-apply", "rebase-merge", "sequencer")
"""Git's folders that are copied, apart from objects; others are of hooks, of submodules, and of tools such as LFS."""
OF_WORKTREE = {"commondir", "gitdir"}
"""Files that lead from the git directory of a worktree to that of its repository, and back."""
ALTERNATES = Path("objects", "info", "alternates")
PUSH_URL = re.compile(r"^(\s*(?:\[[^]]*\]\s*)?)pushurl\b", re.IGNORECASE | re.MULTILINE)
"""A setting that says where pushes go, in spite of `pushInsteadOf`; in a copy it gets a name that git does not know."""
IDENTITY = r"^(user|author|committer)\."
"""Settings that say who commits; `includeIf "gitdir:..."` may set them for the folder of the original only."""
IDENTITY_FILE = "pinprof-identity"
"""A file that the copy's configuration includes. In the configuration itself a name could stand twice."""
NO_PUSH = """#!/bin/sh
echo "this copy of a repository pushes nothing" >&2
exit 1
"""
SETTINGS = """
[core]
	bare = false
	worktree = ..
	hooksPath = {hooks}
	fsmonitor = false
	trustctime = false
	checkStat = minimal
[push]
	gpgSign = true
[commit]
	gpgSign = false
[tag]
	gpgSign = false
[gpg]
	format = openpgp
	program = {signer}
[gc]
	auto = 0
[maintenance]
	auto = false
[url {nowhere}]
	pushInsteadOf = ""
"""
"""Settings that are added to those of the original; of a name, the last setting counts.

A copied file has the size and the time of the original, so that git need not read it to see that it has not changed.
No hook of the user and no process in the background runs for a folder that is removed later. Three settings stop a
push: a hook, which `--no-verify` skips; an address, which the user's own `pushurl` and `pushInsteadOf` replace; and a
signature that no program can make.
"""


@dataclass
class _Copy:
    """A copy that is being made."""

    top: Path
    """The folder that is copied."""
    needed: frozenset[Path]
    """Files that must be copied, not linked, and so the folders that they are in."""
    outer: Path
    """The temporary folder for the copy: it may be within the folder that is copied."""
    bytes_left: int = MOST_COPIED
    links: list[Path] = field(default_factory=list)

    def folder(self, source: Path, target: Path) -> None:
        """Copy a folder; link the folders in it that hold only data."""
        target.mkdir()
        entries = list(os.scandir(source))
        if len(entries) > MOST_ENTRIES:
            raise MeasureError(f"{source}: has {len(entries)} entries next to the program; run it from another folder")
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name not in CACHES and Path(entry.path) != self.outer:
                with suppress(FileNotFoundError):  # it went away meanwhile
                    self._entry(Path(entry.path), target / entry.name)
        with suppress(OSError):
            shutil.copystat(source, target)

    def _entry(self, source: Path, target: Path) -> None:
        if source.name == REPOSITORY and git_directory(source):
            copy_git(source, target)
        elif self._stays_a_link(source):
            target.symlink_to(source.readlink())
        elif source.is_dir():
            is_outside = source.is_symlink() or (source / "pyvenv.cfg").exists()
            if not self._holds_needed(source) and (is_outside or source.name in LINKED or _is_data(source)):
                self._link(source, target)
            else:
                self.folder(source, target)
        elif source.is_file():
            self._file(source, target)

    def _file(self, source: Path, target: Path) -> None:
        size = source.stat().st_size
        is_code = source.suffix in {".py", ".pyi"} or source in self.needed
        if not is_code and size > min(LARGEST_FILE, self.bytes_left):
            self._link(source, target)
            return
        try:
            shutil.copy2(source, target)
        except PermissionError:
            self._link(source, target)
        self.bytes_left -= 0 if is_code else size

    def _stays_a_link(self, source: Path) -> bool:
        """Return whether this is a relative link within the folder: in the copy it leads to the copied file."""
        if not source.is_symlink() or source.readlink().is_absolute():
            return False
        return Path(os.path.normpath(source.parent / source.readlink())).is_relative_to(self.top)

    def _holds_needed(self, folder: Path) -> bool:
        return any(folder in file.parents for file in self.needed)

    def _link(self, source: Path, target: Path) -> None:
        target.symlink_to(source.resolve())
        self.links.append(source)


def _is_data(folder: Path) -> bool:
    """Return whether a folder has many files or bytes, and no code among those that are looked at."""
    files = total = 0
    for inside, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if name not in CACHES | LINKED]
        if any(name.endswith(".py") for name in names) or REPOSITORY in {*inner, *names}:
            return False
        files += len(names)
        for name in names[: MOST_FILES + 1]:
            with suppress(OSError):
                total += (Path(inside) / name).lstat().st_size
        if files > MOST_FILES:
            break
    return files > MOST_FILES or total > LARGEST_FOLDER


@contextmanager
def copied(top: Path, needed: Iterable[Path], changed: Mapping[Path, bytes]) -> Iterator[Path]:
    """Give the block a copy of the folder `top`, in which some files have another content; it is removed afterwards.

    Code and small files are copied, because Python resolves links to scripts. Large files, and folders that hold only
    data, are linked: the program writes to the originals through these links.
    """
    with temporary_folder("try") as outer:
        copy_top = outer / (top.name or "program")
        with copying(top):
            copy = _Copy(top, frozenset((*needed, *changed)), outer)
            copy.folder(top, copy_top)
            exclude(copy_top, [link.relative_to(top) for link in copy.links if link.is_dir()])
            for file, content in changed.items():
                (copy_top / file.relative_to(top)).write_bytes(content)
        yield copy_top


@contextmanager
def copying(top: Path) -> Iterator[None]:
    """Raise an OSError of the block as MeasureError: the folder cannot be copied."""
    try:
        yield
    except OSError as error:
        raise MeasureError(f"{error.filename or top}: cannot be copied ({error.strerror})") from error


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder as `copied` does. Raises OSError."""
    _Copy(source, frozenset(), target.parent).folder(source, target)


def git_directory(entry: Path) -> Path | None:
    """Return the git directory that a `.git` is or names; None if it does neither."""
    folder = entry
    with suppress(OSError, ValueError):
        if entry.is_file():
            folder = entry.parent / entry.read_text().removeprefix("gitdir: ").rstrip("\n")
        if os.path.lexists(folder / "HEAD"):
            return folder.resolve()
    return None


def copy_git(entry: Path, target: Path) -> None:
    """Make a git directory for a copy of the repository whose `.git` is `entry`. Raises OSError."""
    own = git_directory(entry)
    assert own is not None, "a repository"
    common = own
    with suppress(FileNotFoundError):
        common = (own / (own / "commondir").read_text().rstrip("\n")).resolve()
    target.mkdir()
    for folder in dict.fromkeys((common, own)):  # a worktree has its own HEAD and index
        _copy_state(folder, target)
    _share_objects(common, target)
    (target / IDENTITY_FILE).write_text(_identity(entry.parent), errors="surrogateescape")
    _configure(target)


def exclude(repository: Path, paths: Iterable[Path]) -> None:
    """Let git ignore paths of a copy that are links there, and folders in the original. Raises OSError."""
    excluded = repository / REPOSITORY / "info" / "exclude"
    if git_directory(repository / REPOSITORY):
        excluded.parent.mkdir(exist_ok=True)
        with excluded.open("a") as file:
            file.writelines("\n/" + re.sub(r"([\\*?\[ ])", r"\\\1", path.as_posix()) + "\n" for path in paths)


def _copy_state(folder: Path, target: Path) -> None:
    for entry in os.scandir(folder):
        if entry.name in GIT_FOLDERS and entry.is_dir():
            shutil.copytree(
                entry.path,
                target / entry.name,
                ignore=shutil.ignore_patterns("*.lock"),
                copy_function=_copy,
                dirs_exist_ok=True,
            )
        elif entry.is_file() and entry.name not in OF_WORKTREE and not entry.name.endswith(".lock"):
            _copy(entry.path, target / entry.name)


def _copy(source: str, target: str | Path) -> None:
    with suppress(FileNotFoundError):  # git has packed or removed it meanwhile
        shutil.copy2(source, target)


def _share_objects(common: Path, target: Path) -> None:
    """Let git read the objects of a repository, and those that this borrows, perhaps by relative paths."""
    objects = (common / "objects").resolve()
    borrowed = [objects]
    with suppress(FileNotFoundError):
        lines = (common / ALTERNATES).read_text().splitlines()
        borrowed += [objects / line for line in lines if line and not line.startswith("#")]
    alternates = target / ALTERNATES
    alternates.parent.mkdir(parents=True)
    alternates.write_text("".join(f"{folder}\n" for folder in borrowed))


def _identity(folder: Path) -> str:
    """Return who commits in the repository of a folder, in the form of a file of git's configuration."""
    try:
        entries = git(folder, "config", "--null", "--get-regexp", IDENTITY).split("\0")
    except GitError:  # nobody is named, or git is not installed
        return ""
    settings = (entry.partition("\n") for entry in entries if "\n" in entry)
    sections = ((*key.rpartition("."), value) for key, _, value in settings)
    return "".join(f"[{section}]\n\t{name} = {_quoted(value)}\n" for section, _, name, value in sections)


def _quoted(text: object) -> str:
    """Return a text as a value in a file of git's configuration."""
    escaped = str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _configure(target: Path) -> None:
    """Let git in the copy work there, commit as in the original, and push nothing."""
    hook = target / "hooks" / "pre-push"
    hook.parent.mkdir()
    hook.write_text(NO_PUSH)
    hook.chmod(stat.S_IRWXU)
    settings = SETTINGS.format(
        hooks=_quoted(hook.parent), signer=_quoted(f"{hook.parent}/none"), nowhere=_quoted(f"{hook.parent}/nowhere/")
    )
    for file in (target / "config", target / "config.worktree"):
        if file.is_file():
            own = PUSH_URL.sub(r"\1notPushUrl", file.read_text(errors="surrogateescape"))
            file.write_text(f"[include]\n\tpath = {IDENTITY_FILE}\n{own}{settings}", errors="surrogateescape")
