"""Changed files are written all together, or none of them."""

import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from secrets import token_hex

from pinprof.errors import PinprofError
from pinprof.fix.core.patch import Patches
from pinprof.git import GitError, git

BACKUP = ".orig"


class FixError(PinprofError):
    """The changes cannot be written."""


def write_patches(patches: Patches, *, backup: bool) -> list[Path]:
    """Write the changed files, all or none; return the backups. Raises FixError.

    Without `backup` each file is one that git has as it is; with it the file before stays beside it, as `FILE.orig`.
    """
    kept = _backups(patches) if backup else {}
    check_patches(patches, backup=backup)
    with ExitStack() as undo:
        old = {path: _beside(path, "old", undo) for path in patches.after}
        new = {path: _beside(path, "part", undo) for path in patches.after}
        try:
            for path, part in new.items():
                shutil.copy2(path, old[path])
                part.write_bytes(patches.after[path])
                shutil.copymode(path, part)
                _keep_owner(path, part)
            for path, copy in kept.items():
                shutil.copy2(path, copy)
            _replace(new, old)
        except BaseException as error:
            for copy in kept.values():
                copy.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise FixError(f"{error.filename}: cannot be written ({error.strerror}); nothing is") from error
            raise
    return list(kept.values())


def check_patches(patches: Patches, *, backup: bool) -> None:
    """Raise FixError where a change could not be taken back, or is for another file than the one that is there."""
    for copy in _backups(patches).values() if backup else ():
        if os.path.lexists(copy):
            raise FixError(f"{copy}: exists already; move it away, it may be the only copy of a program")
    if not backup:
        _check_clean(patches.after)
    for path, before in patches.before.items():
        _check_replaceable(path)
        if path.read_bytes() != before:
            raise FixError(f"{path}: was changed meanwhile; nothing was written")


def _backups(patches: Patches) -> dict[Path, Path]:
    return {path: path.with_name(path.name + BACKUP) for path in patches.after}


def _replace(new: Mapping[Path, Path], old: Mapping[Path, Path]) -> None:
    """Put new files in the places of all, or leave them all as they were."""
    done: list[Path] = []
    try:
        for path, part in new.items():
            done.append(path)
            part.replace(path)
    except BaseException:
        for path in done:
            with suppress(OSError):
                old[path].replace(path)
        raise


def _beside(path: Path, end: str, undo: ExitStack) -> Path:
    """Return the name of a hidden file beside another one, which is gone in the end."""
    made = path.with_name(f".{path.name}.{token_hex(4)}.{end}")
    undo.callback(made.unlink, missing_ok=True)
    return made


def _check_replaceable(path: Path) -> None:
    """Raise FixError for a file that is not to be written, or that is more than its name."""
    found = path.stat()
    if not (found.st_mode & stat.S_IWUSR and os.access(path, os.W_OK)):
        raise FixError(f"{path}: is read-only; make it writable (chmod u+w) if it may be changed")
    if found.st_nlink > 1:
        others = f"{found.st_nlink - 1} other name" + "s" * (found.st_nlink > 2)  # noqa: PLR2004  one and another
        raise FixError(
            f"{path}: has {others} (hard links), of a file that would stay as it is; copy it to one of its own"
        )


def _keep_owner(path: Path, part: Path) -> None:
    """Give a new file the owner of the one whose place it takes, where this user may: root may."""
    old, new = path.stat(), part.stat()
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        with suppress(OSError):
            os.chown(part, old.st_uid, old.st_gid)


def _check_clean(paths: Iterable[Path]) -> None:
    """Raise FixError for a file that git does not have as it is now."""
    for path in paths:
        tracked = _git(path, "ls-files", "--error-unmatch", "--", path.name)
        if tracked is None:
            raise FixError(f"{path}: is not under git, so you could not undo the change; add --backup")
        if _is_hidden(_git(path, "ls-files", "-v", "--", path.name) or ""):
            hidden = "git is told not to look for changes of it (skip-worktree or assume-unchanged)"
            raise FixError(f"{path}: {hidden}, so you could not undo this one; add --backup")
        if _git(path, "status", "--porcelain", "--", path.name) != "":
            raise FixError(f"{path}: has changes that are not committed; commit them, or add --backup")


def _is_hidden(listed: str) -> bool:
    """Return whether `git ls-files -v` marks a file as one whose changes git does not see: `S` or a small letter."""
    return any(line[:1] == "S" or line[:1].islower() for line in listed.splitlines())


def _git(path: Path, *words: str) -> str | None:
    """Return what git says in the folder of a file; None where it fails."""
    try:
        return git(path.parent, *words)
    except GitError:
        return None
