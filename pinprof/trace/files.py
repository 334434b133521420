"""Opens traces in files, on standard input, and at URLs by fsspec; and finds the files of folders and patterns."""

import glob
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from pinprof.ground.errors import TraceError
from pinprof.ground.standard_streams import is_terminal
from pinprof.ground.units import listed
from pinprof.ground.urls import STANDARD_INPUT, has_secret_of, is_url, redacted, shown
from pinprof.trace.reader.not_a_trace import START_BYTES, check_start, refused_name
from pinprof.trace.reader.unpack import is_packed

TRACE_SUFFIXES = (".json", ".json.gz", ".json.zst")
MAX_STREAM_BYTES = 1 << 33
"""The most that is read of a pipe, a device or a web server, packed or not: a device may never end."""
MAX_FOLDER_DEPTH = 4
"""How many levels of folders below the given one are searched; TensorBoard's plugins/profile/RUN has three."""
MAX_NAMED_FOLDERS = 3  # folders that an error names; the rest is counted
MAX_SILENCE_S = 60.0
"""Reading ends if a web server sends nothing for this time. aiohttp's own limit is five minutes for a whole file."""
WEB_PREFIXES = ("http://", "https://")
DENIED_STATUSES, MISSING_STATUSES = (401, 403), (404, 410)  # statuses of HTTP
RANK_IN_NAME = tuple(re.compile(rf"(?<![a-z]){word}[-_.=]?(\d+)", re.IGNORECASE) for word in ("rank", "worker"))
"""How names of files and folders give the rank: `trace_rank3.json`, `rank-3/trace.json`; users of
tensorboard_trace_handler often call it `worker3`."""


class LocalFiles:
    """The files of this machine, by the names that the user gave: the same questions as to `RemoteFiles`."""

    def is_folder(self, path: str) -> bool:
        """Return whether this is a folder."""
        return os.path.isdir(path)  # noqa: PTH112  Path.is_dir raises for names that no file can have

    def exists(self, path: str) -> bool:
        """Return whether there is a file of exactly this name."""
        return os.path.lexists(path)

    def matching(self, pattern: str) -> list[str]:
        """Return the files that match a pattern; `**` is any number of folders; a name that exists is not a pattern."""
        folder = os.path.dirname(pattern)  # noqa: PTH120  Path would change the name
        while folder and not self.exists(folder):
            folder = os.path.dirname(folder)  # noqa: PTH120
        literal = glob.escape(folder) + pattern[len(folder) :]
        return list(filter(_is_file, glob.glob(literal, recursive=True)))  # noqa: PTH207

    def below(self, folder: str, depth: int) -> list[str]:
        """Return the files in a folder and `depth` levels below it, without hidden ones and links to folders."""
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            raise TraceError(f"cannot be read ({error.strerror})") from error
        visible = [entry for entry in entries if not entry.name.startswith(".")]
        paths = [entry.path for entry in visible if _is_file(entry.path)]
        for entry in visible if depth else ():
            if entry.is_dir(follow_symlinks=False) and os.access(entry.path, os.R_OK | os.X_OK):
                paths += self.below(entry.path, depth - 1)
        return paths


class RemoteFile:
    """A file at a URL, read from its start to its end; every failure is a TraceError, without the URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        # One request to a web server asks for the whole file: fsspec first asks for the size if none is given.
        in_one_request = {"block_size": 0, "size": 1} if url.startswith(WEB_PREFIXES) else {}
        with _translated(url):
            files, path = _file_system(url)
            self._file = files.open(path, "rb", **in_one_request)

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        with _translated(self._url):
            return cast("bytes", self._file.read(size))

    def close(self) -> None:
        """Give up the connection."""
        with _translated(self._url):
            self._file.close()


class RemoteFiles:
    """The files and folders of the file system behind a URL, given and returned as URLs."""

    def __init__(self, url: str) -> None:
        self._url, self._is_web = url, url.startswith(WEB_PREFIXES)
        with _translated(url):
            self._files, root = _file_system(url)
            self._files.invalidate_cache()  # listings are kept, and a job may have written more since
        self._before, _, after = url.partition(root.rstrip("/")) if root.rstrip("/") else (url, "", "")
        self._after = "" if after == "/" else after

    def is_folder(self, url: str) -> bool:
        """Return whether this is a folder; on the web a folder is a URL that ends with a slash."""
        with _translated(self._url):
            return url.endswith("/") or (not self._is_web and bool(self._files.isdir(self._path(url))))

    def exists(self, url: str) -> bool:
        """Return whether there is a file of exactly this name."""
        with _translated(self._url):
            return bool(self._files.exists(self._path(url)))

    def matching(self, pattern: str) -> list[str]:
        """Return the files that match a pattern."""
        with _translated(self._url):
            return self._only_files(self._files.glob(self._path(pattern), detail=True).values())

    def below(self, folder: str, depth: int) -> list[str]:
        """Return the files in a folder and up to `depth` folders below it; on the web those that its page lists."""
        with _translated(self._url):
            if self._is_web or not depth:
                return self._only_files(self._files.ls(self._path(folder), detail=True))
            return self._only_files(self._files.find(self._path(folder), maxdepth=depth + 1, detail=True).values())

    def _path(self, url: str) -> str:
        return url if self._is_web else str(self._files._strip_protocol(url))  # noqa: SLF001  fsspec's own way

    def _only_files(self, entries: Any) -> list[str]:
        paths = [entry["name"] for entry in entries if entry["type"] == "file" and not entry["name"].endswith("/")]
        return paths if self._is_web else [f"{self._before}{path}{self._after}" for path in paths]


def _file_system(url: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs  # noqa: PLC0415  it and the packages behind it take a second to load

    if not url.startswith(WEB_PREFIXES):
        return cast("tuple[Any, str]", url_to_fs(url))
    from aiohttp import ClientTimeout  # noqa: PLC0415
    from fsspec.config import conf  # noqa: PLC0415

    configured = conf.get(url.partition(":")[0], {}).get("client_kwargs", {})
    timeout = ClientTimeout(total=None, sock_connect=MAX_SILENCE_S, sock_read=MAX_SILENCE_S)
    client = {"timeout": timeout, "trust_env": True, **configured}
    return cast("tuple[Any, str]", url_to_fs(url, client_kwargs=client))


@contextmanager
def _translated(url: str) -> Iterator[None]:
    """Turn any error of a file system into a TraceError, without its cause, which quotes the URL with its secrets."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  each file system has its own, down to those of its web client
        raise TraceError(_trouble(error, url)) from None


def _trouble(error: BaseException, url: str) -> str:
    """Return what went wrong, in words. fsspec raises FileNotFoundError for every failure of a web server."""
    while isinstance(error, FileNotFoundError) and error.__cause__ is not None and url.startswith(WEB_PREFIXES):
        error = error.__cause__
    status = getattr(error, "status", None)
    if isinstance(error, PermissionError) or status in DENIED_STATUSES:
        return "access is denied; give the credentials as its service wants them, or a signed URL"
    if isinstance(error, FileNotFoundError) or status in MISSING_STATUSES:
        return "no such file"
    if "Timeout" in type(error).__name__:  # before Python 3.11 that of asyncio is a class of its own
        return f"the server has sent nothing for {MAX_SILENCE_S:.3g} s; try again"
    what = f"{status} {getattr(error, 'message', '')}" if status else str(error)
    text = redacted(" ".join(what.split()))
    why = type(error).__name__ if not text or has_secret_of(text, url) else text
    if isinstance(error, ImportError):
        return f"needs a package that is not installed ({why}); for s3, gs and https: pip install 'pinprof[remote]'"
    return f"cannot be read ({why})"


@contextmanager
def open_trace(path: str) -> Iterator[BinaryIO]:
    """Yield the bytes of a file, a URL or standard input, once. Raises TraceError, without the name."""
    if path == STANDARD_INPUT:
        yield _bounded(_standard_input())
        return
    stream = cast("BinaryIO", RemoteFile(path)) if is_url(path) else _open_file(path)
    try:
        yield stream if is_url(path) and not path.startswith(WEB_PREFIXES) else _bounded(stream)
    finally:
        stream.close()


class _Bounded:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._bytes_left = stream, MAX_STREAM_BYTES

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        data = self._stream.read(size)
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise TraceError(
                f"is longer than {MAX_STREAM_BYTES >> 30} GiB; save it to a file first, which has no limit"
            )
        return data


def _bounded(stream: BinaryIO) -> BinaryIO:
    """Return a stream with a limit, unless it is a file, which has an end."""
    try:
        is_file = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, AttributeError):  # it has no number
        is_file = False
    return stream if is_file else cast("BinaryIO", _Bounded(stream))


@contextmanager
def readable_twice(path: str) -> Iterator[str]:
    """Yield the name of a file with these bytes, a copy of a URL or standard input. Raises TraceError with the name."""
    if path != STANDARD_INPUT and not is_url(path):
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="pinprof-") as copy:
        try:
            with open_trace(path) as stream:
                start = b""
                while len(start) < START_BYTES and (more := stream.read(START_BYTES - len(start))):
                    start += more
                if not is_packed(start):  # before the disk is full of what is not a trace
                    check_start(start)
                copy.write(start)
                shutil.copyfileobj(stream, copy)
            copy.flush()
        except (TraceError, OSError) as error:
            why = error if isinstance(error, TraceError) else f"cannot be read ({error.strerror or error})"
            raise TraceError(f"{shown(path)}: {why}") from error
        yield copy.name


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise TraceError("there is none; pipe a trace into pinprof, or name its file")
    if is_terminal(sys.stdin):
        raise TraceError("is a terminal; pipe a trace into pinprof, or name its file")
    return sys.stdin.buffer


def _open_file(path: str) -> BinaryIO:
    try:
        stream = open(path, "rb")  # noqa: PTH123, SIM115  what the caller closes; Path would change the name
    except FileNotFoundError:
        raise TraceError("no such file") from None
    except IsADirectoryError:
        raise TraceError("is a folder; name the trace files in it") from None
    except OSError as error:
        raise TraceError(f"cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise TraceError(f"is not a valid file name ({error})") from None
    if why := refused_name(path):
        stream.close()
        raise TraceError(why)
    return stream


def trace_files(argument: str) -> list[str]:
    """Return the files that an argument stands for, rank2 before rank10: itself, those in a folder, those of a pattern.

    A name that exists is not a pattern. If a folder has no trace, but exactly one folder below it has some, these are
    returned. A file is a trace by its name (`TRACE_SUFFIXES`), unless the pattern matches no such name; a file that is
    named by itself need not exist.

    Raises TraceError, with the argument, if the file does not exist, or several folders may be meant.
    """
    if argument == STANDARD_INPUT or (is_url(argument) and _is_trace(argument) and not _is_pattern(argument)):
        return [argument]  # without a request to the server for each URL
    try:
        return sorted(_expanded(argument), key=natural)
    except TraceError as error:
        raise TraceError(f"{shown(argument)}: {error}") from error


def _expanded(argument: str) -> list[str]:
    files = RemoteFiles(argument) if is_url(argument) else LocalFiles()
    if files.is_folder(argument):
        return _in_folder(files, argument)
    if not _is_pattern(argument) or files.exists(argument):
        return [argument]
    matching = files.matching(argument)
    if not matching:
        raise TraceError("matches no file; a pattern for the files in a folder ends in /*.json.gz or the like")
    return [path for path in matching if _is_trace(path)] or matching


def natural(path: str) -> tuple[list[str | int], str]:
    """Return a key that sorts numbers in names as numbers."""
    texts = re.split(r"(\d+)", path)
    return [int(text) if position % 2 else text for position, text in enumerate(texts)], path


def rank_in_name(path: str) -> int | None:
    """Return the number of the rank in the names of a file and its folders, None if there is none."""
    ranks = (numbers[-1] for pattern in RANK_IN_NAME if (numbers := pattern.findall(path)))
    return next(map(int, ranks), None)


def _is_file(path: str) -> bool:
    """Return whether it is a file or a broken link, which is refused by name; pipes are only read by name."""
    return os.path.isfile(path) or (os.path.islink(path) and not os.path.exists(path))  # noqa: PTH110, PTH113, PTH114


def _is_pattern(path: str) -> bool:
    if path.startswith(WEB_PREFIXES):
        return re.search(r"[*\[]", path.partition("?")[0]) is not None
    return glob.has_magic(path)


def _is_trace(path: str) -> bool:
    return path.lower().endswith(TRACE_SUFFIXES)


def _in_folder(files: LocalFiles | RemoteFiles, folder: str) -> list[str]:
    """Return the traces in a folder; if there are none, those of the only folder below it that has some."""
    for depth in (0, MAX_FOLDER_DEPTH):
        traces = [path for path in files.below(folder, depth) if _is_trace(path)]
        folders = sorted({path.rpartition("/")[0] for path in traces}, key=natural)
        if len(folders) > 1:
            named = listed([shown(folder) for folder in folders], MAX_NAMED_FOLDERS)
            raise TraceError(f"no trace in this folder itself, but in {named}; name one of them")
        if traces:
            return traces
    raise TraceError(f"no trace in this folder; traces end in {', '.join(TRACE_SUFFIXES[:-1])} or {TRACE_SUFFIXES[-1]}")
