"""Traces at URLs: opened and listed by fsspec, which is loaded only then."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from pinprof.errors import TraceError
from pinprof.urls import has_secret_of, redacted

MAX_SILENCE_S = 60.0
"""Reading ends if a web server sends nothing for this time. aiohttp's own limit is five minutes for a whole file."""
WEB_PREFIXES = ("http://", "https://")
DENIED, MISSING = (401, 403), (404, 410)
"""Statuses of HTTP."""

# fsspec and the packages behind it take a second to load, and most traces are files.
# ruff: noqa: PLC0415


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
    """Return the file system behind a URL, and the path in it."""
    from fsspec.core import url_to_fs

    if not url.startswith(WEB_PREFIXES):
        return cast("tuple[Any, str]", url_to_fs(url))
    from aiohttp import ClientTimeout
    from fsspec.config import conf

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
    if isinstance(error, PermissionError) or status in DENIED:
        return "access is denied; give the credentials as its service wants them, or a signed URL"
    if isinstance(error, FileNotFoundError) or status in MISSING:
        return "no such file"
    if "Timeout" in type(error).__name__:  # before Python 3.11 that of asyncio is a class of its own
        return f"the server has sent nothing for {MAX_SILENCE_S:.3g} s; try again"
    what = f"{status} {getattr(error, 'message', '')}" if status else str(error)
    text = redacted(" ".join(what.split()))
    why = type(error).__name__ if not text or has_secret_of(text, url) else text
    if isinstance(error, ImportError):
        return f"needs a package that is not installed ({why}); for s3, gs and https: pip install 'pinprof[remote]'"
    return f"cannot be read ({why})"
