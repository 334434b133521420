"""Writes files whole or not at all, and never over an input; devices and pipes get the bytes directly."""

import errno
import gzip
import os
import re
import secrets
import stat
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import combinations
from os import getpid
from pathlib import Path
from typing import BinaryIO, TypeAlias

from pinprof.ground.errors import PinprofError

STANDARD = "-"
"""Names standard output among outputs, and standard input among inputs."""
DESCRIPTOR_PATH = re.compile(r"/proc/\d+(/task/\d+)?/fd|/dev/fd")
"""Folders whose entries are open descriptors: their files are being written to, and must not be replaced."""
MAX_LINKS_FOLLOWED = 40
"""Linux follows at most this many links."""

OWN_TRACE, OWN_PAGE = re.compile(rb'\{"pinprof_|.*"pinprof": ?\{"pinprof_version"', re.DOTALL), b"<title>pinprof"
"""What stands near the begin of a trace that pinprof recorded, and of a page that it made."""
HEAD_BYTES = 65_536

FileIdentity: TypeAlias = tuple[int, int] | str


def shortest(path: str | Path) -> str:
    """Return the shorter name of a file: relative to the working directory, or absolute."""
    absolute = os.path.abspath(path)  # noqa: PTH100  without its links
    try:
        return min(os.path.relpath(absolute), absolute, key=len)
    except (OSError, ValueError):  # the working directory is gone, or it is on another drive
        return absolute


def is_own(path: str | Path) -> bool:
    """Return whether the content of a file says that pinprof recorded it as a trace, or made it as a page."""
    try:
        with gzip.open(path) if Path(path).suffix == ".gz" else open(path, "rb") as file:  # noqa: PTH123  as `gzip.open`
            head = file.read(HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return False
    return OWN_TRACE.match(head) is not None or (head.startswith(b"<!DOCTYPE html>") and OWN_PAGE in head)


def check_outputs(
    outputs: Sequence[str],
    inputs: Iterable[str] = (),
    *,
    force: bool,
    way: str = "overwrite it with --force",
    replaces_own: bool = False,
) -> None:
    """Raise PinprofError for the first output that cannot be written, is an input, or exists already.

    `way` says to the user how to overwrite a file. With `replaces_own` a file that pinprof made is overwritten.
    """
    for one, other in combinations(outputs, 2):
        if one == other or _identity(one, 1) == _identity(other, 1):
            raise PinprofError(f"{_display_name(one)}: names two outputs; give each its own name")
    read = {_identity(path, 0) for path in inputs} if outputs else set()
    for path in outputs:
        if path != STANDARD:
            _check_place(path)
        if _identity(path, 1) in read and not _passes_on(path):
            raise PinprofError(f"{_display_name(path)}: is also an input; choose another name")
        is_there = path != STANDARD and os.path.exists(path)  # noqa: PTH110  never raises
        if is_there and not is_stream(Path(path)) and not force and not (replaces_own and is_own(path)):
            raise PinprofError(f"{path}: exists already; choose another name, or {way}")


def _display_name(path: str) -> str:
    return "standard output" if path == STANDARD else path


def _identity(path: str, standard: int) -> FileIdentity:
    """Return what identifies a file, whatever links lead to it; `-` is this open descriptor."""
    try:
        status = os.fstat(standard) if path == STANDARD else os.stat(path)  # noqa: PTH116  Path is slow
    except (OSError, ValueError):
        return os.path.realpath(path)
    return status.st_dev, status.st_ino


def _passes_on(path: str) -> bool:
    """Return whether this is a device or a pipe: writing to it does not change what is read."""
    try:
        status = os.fstat(1) if path == STANDARD else os.stat(path)  # noqa: PTH116  Path is slow
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(status.st_mode)


def _check_place(path: str) -> None:
    if not path:
        raise PinprofError("an output has no name; name a file, or omit its option")
    # The functions of os.path answer where those of Path raise, for names that no file can have.
    folder = Path(os.path.realpath(path) if os.path.islink(path) else path).parent  # noqa: PTH114
    if not os.path.isdir(folder.absolute()):  # noqa: PTH112
        is_file = os.path.exists(folder)  # noqa: PTH110
        raise PinprofError(
            f"{path}: {f'{folder} is a file' if is_file else f'there is no folder {folder}; make it first'}"
        )
    if os.path.isdir(path):  # noqa: PTH112
        raise PinprofError(f"{path}: is a folder; name a file in it")
    if not os.access(folder, os.W_OK) and not is_stream(Path(path)):
        raise PinprofError(f"{path}: you may not write into the folder {folder.absolute()}; name a file elsewhere")


def write_whole(path: Path, text: str) -> None:
    """Write a text to a file, and replace an existing one. Raises PinprofError if that fails."""
    try:
        with opened(path) as file:
            file.write(text.encode())
    except OSError as exc:
        raise PinprofError(f"{path}: cannot be written ({exc.strerror or exc})") from exc


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Give a stream to `path`: a new file that replaces it at the end of the block, or the device or pipe itself.

    Raises OSError if that is not possible.
    """
    if is_stream(path):
        with _stream(path) as file:
            yield file
    else:
        with unfinished(path) as temporary, temporary.open("wb") as file:
            yield file


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """Give a path near the file `path` to write to; at the end of the block the new file replaces it.

    A link stays, and its target is replaced; the new file keeps the mode and the owner of the old one. Raises OSError
    if that is not possible, or if `path` is not a regular file.
    """
    target = Path(os.path.realpath(path))
    before = _status(path)
    if before is not None and (is_stream(path) or not stat.S_ISREG(before.st_mode)):
        raise OSError(errno.EINVAL, "not a regular file")
    with hidden_folder(target.parent) as folder:
        temporary = folder / target.name
        yield temporary
        if before is not None:
            _keep(before, temporary)
        temporary.replace(target)


@contextmanager
def hidden_folder(parent: Path) -> Iterator[Path]:
    """Give a new folder, and remove it at the end of the block; its name contains the process, in case it stays.

    The name is known before the folder exists, so that no signal can come between its creation and its removal.
    """
    folder = parent / f".pinprof-{getpid()}-{secrets.token_hex(8)}"
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        try:
            _remove(folder)
        except BaseException:  # a signal during the removal
            _remove(folder)
            raise


def _remove(folder: Path) -> None:
    """Remove a folder of files; `shutil.rmtree` can turn a signal into another error."""
    with suppress(OSError):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def is_stream(path: Path) -> bool:
    """Return whether the path names a device, a pipe or an open descriptor, which pass bytes on."""
    if _descriptor(path) is not None:
        return True
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _stream(path: Path) -> BinaryIO:
    descriptor = _descriptor(path)
    if descriptor is not None and str(descriptor).startswith(("/dev/fd/", os.path.realpath("/proc/self") + "/")):
        # Opening it again would truncate a file, and write from its start.
        return os.fdopen(os.dup(int(descriptor.name)), "wb")
    return os.fdopen(os.open(path, os.O_WRONLY), "wb")


def _descriptor(path: Path) -> Path | None:
    """Return the open descriptor that a path links to, as /dev/stdout does; None for other paths."""
    for _ in range(MAX_LINKS_FOLLOWED):
        entry = Path(os.path.realpath(path.parent)) / path.name
        if entry.name.isdecimal() and DESCRIPTOR_PATH.fullmatch(str(entry.parent)):
            return entry
        if not os.path.islink(entry):  # noqa: PTH114  never raises
            return None
        path = entry.parent / os.readlink(entry)  # noqa: PTH115
    return None


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _keep(before: os.stat_result, new: Path) -> None:
    """Give a new file the owner and the mode of the old one, as far as the system allows."""
    for owner in (before.st_uid, -1):
        with suppress(OSError, AttributeError):  # the latter on Windows
            os.chown(new, owner, before.st_gid)
            break
    with suppress(OSError):
        new.chmod(before.st_mode & 0o777)
