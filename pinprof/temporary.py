"""Temporary folders that are removed even if their process is killed: the next process of pinprof removes them."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from pinprof.errors import PinprofError

PREFIX = "pinprof-"
LOCK = ".pinprof-lock"
"""A file in each folder that its process keeps locked. The kernel releases the lock when the process ends in any way; a
process number would mislead where containers share a folder for temporary files."""


@contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """Give the block a folder `pinprof-NAME-...`, without links in its path; it is removed afterwards.

    Raises PinprofError if none can be made.
    """
    try:
        _remove_dead()
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{name}-")).resolve()
    except OSError as error:
        raise PinprofError(f"no temporary folder can be made ({error.strerror}); TMPDIR names another place") from error
    try:
        with _locked(folder):
            yield folder
    finally:
        _remove(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. Its file is renamed once it is held: otherwise another process could lock it first."""
    part = folder / f"{LOCK}.part"
    with part.open("wb") as lock:
        with suppress(OSError):  # some file systems have no locks: such a folder stays, if its maker is killed
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.rename(folder / LOCK)
        yield


@cache
def _remove_dead() -> None:
    """Remove the folders of this user's ended processes; once in a process."""
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError):  # another process removes it, too
            if lock.lstat().st_uid == os.getuid() and _is_free(lock):
                _remove(lock.parent)


def _is_free(lock: Path) -> bool:
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _remove(folder: Path) -> None:
    """Remove a folder, its lock last: if this process is killed meanwhile, the next one goes on."""
    for inner in folder.glob("*"):
        if inner.is_dir() and not inner.is_symlink():
            shutil.rmtree(inner, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
