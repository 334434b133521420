"""Traces at URLs: opened and listed by fsspec, which is loaded only then."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, BinaryIO, cast

from pinprof.errors import TraceError
from pinprof.urls import has_secret_of, redacted

SILENCE_S = 60.0
"""Reading ends if a web server sends nothing for this time. aiohttp's own limit is five minutes for a whole file."""
LEAST_BYTES = 1 << 16
"""Reading also ends if a server sends fewer bytes than this in that time, about 1 KiB per second."""
WITH_EXTRA = ("s3", "s3a", "gs", "gcs", "http", "https")
"""Schemes whose packages come with pinprof[remote]."""
WEB = ("http://", "https://")

DENIED = (401, 403)
MISSING = (404, 410)
FAILED = 400
"""Statuses of HTTP; `FAILED` and all higher ones are errors."""
REASONS: dict[type[BaseException], str] = {
    PermissionError: "access is denied; give the credentials as its service wants them, or a signed URL",
    FileNotFoundError: "no such file",
    IsADirectoryError: "is a folder; name the trace files in it",
}

# fsspec and the packages behind it take a second to load, and most traces are files.
# ruff: noqa: PLC0415


class RemoteFile:
    """A file at a URL, read from its start to its end; every failure is a TraceError."""

    def __init__(self, url: str) -> None:
        self._url = url
        files, path = _file_system(url)
        # One request to a web server asks for the whole file: fsspec first asks for the size if none is given.
        self._is_web = url.startswith(WEB)
        with _translated(url):
            self._file = files.open(path, "rb", **({"block_size": 0, "size": 1} if self._is_web else {}))
        self._since, self._received = monotonic(), 0

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        with _translated(self._url):
            data = cast("bytes", self._file.read(size))
            if self._is_web:
                self._check_speed(data)
            return data

    def _check_speed(self, data: bytes) -> None:
        """Raise TooSlow if fewer than `LEAST_BYTES` came in `SILENCE_S`: a server may send single bytes."""
        self._received += len(data)
        if monotonic() - self._since > SILENCE_S:
            if data and self._received < LEAST_BYTES:
                raise TooSlow
            self._since, self._received = monotonic(), 0

    def close(self) -> None:
        """Give up the connection."""
        with _translated(self._url):
            self._file.close()


class TooSlow(Exception):  # noqa: N818  only `_trouble` sees it
    """A server sends almost nothing."""


class RemoteFiles:
    """The files and folders of the file system behind a URL, given and returned as URLs."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._files, root = _file_system(url)
        self._before, _, after = url.partition(root.rstrip("/")) if root.rstrip("/") else (url, "", "")
        self._after = "" if after == "/" else after
        self._is_web = url.startswith(WEB)
        self._files.invalidate_cache()  # listings are kept, and a job may have written more since

    def is_folder(self, url: str) -> bool:
        """Return whether this is a folder; on the web a folder is a URL that ends with a slash."""
        if self._is_web or url.endswith("/"):
            return url.endswith("/")
        with _translated(self._url):
            return bool(self._files.isdir(self._path(url)))

    def exists(self, url: str) -> bool:
        """Return whether there is a file of exactly this name."""
        with _translated(self._url):
            strictly = {"strict": True} if self._is_web else {}  # otherwise a silent server is asked again and again
            try:
                return bool(self._files.exists(self._path(url), **strictly))
            except FileNotFoundError:
                return False

    def matching(self, pattern: str) -> list[str]:
        """Return the files that match a pattern."""
        with _translated(self._url):
            return self._only_files(self._files.glob(self._path(pattern), detail=True))

    def below(self, folder: str, depth: int) -> list[str]:
        """Return the files in a folder and up to `depth` folders below it; on the web those that its page lists."""
        with _translated(self._url):
            path = self._path(folder)
            if self._is_web or not depth:
                entries = self._files.ls(path, detail=True)
                return self._only_files({entry["name"]: entry for entry in entries})
            return self._only_files(self._files.find(path, maxdepth=depth + 1, detail=True))

    def _path(self, url: str) -> str:
        return url if self._is_web else str(self._files._strip_protocol(url))  # noqa: SLF001  fsspec's own way

    def _only_files(self, entries: dict[str, dict[str, Any]]) -> list[str]:
        paths = [name for name, entry in entries.items() if entry["type"] == "file" and not name.endswith("/")]
        return paths if self._is_web else [f"{self._before}{path}{self._after}" for path in paths]


def _file_system(url: str) -> tuple[Any, str]:
    """Return the file system behind a URL, and the path in it."""
    schemes = [link.partition("://")[0] for link in url.split("::")]
    try:
        from fsspec.core import url_to_fs

        return cast("tuple[Any, str]", url_to_fs(url, **_web_options(url)))
    except ImportError as error:
        if set(schemes) & set(WITH_EXTRA):
            raise TraceError(f"{schemes[0]}:// needs packages of its own: pip install 'pinprof[remote]'") from error
        raise TraceError(f"{schemes[0]}:// needs a package that is not installed ({_one_line(error, url)})") from error
    except Exception as error:  # noqa: BLE001  each file system has its own
        if isinstance(error, ValueError) and "not known" in str(error):
            raise TraceError(
                f"{schemes[0]}:// is not a kind of URL that fsspec knows; s3://, gs:// and https:// are"
            ) from None
        raise TraceError(_trouble(error, url)) from None


def _web_options(url: str) -> dict[str, Any]:
    """Return options for a web server: the proxy of the environment, and a time limit."""
    if not url.startswith(WEB):
        return {}
    from aiohttp import ClientTimeout
    from fsspec.config import conf

    configured = conf.get(url.partition(":")[0], {}).get("client_kwargs", {})
    timeout = ClientTimeout(total=None, sock_connect=SILENCE_S, sock_read=SILENCE_S)
    return {"client_kwargs": {"timeout": timeout, "trust_env": True, **configured}}


@contextmanager
def _translated(url: str) -> Iterator[None]:
    """Turn any error of a file system into a TraceError, without its cause, which quotes the URL with its secrets."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  each file system has its own, down to those of its web client
        raise TraceError(_trouble(error, url)) from None


def _trouble(error: BaseException, url: str) -> str:
    """Return what went wrong, in words. fsspec raises FileNotFoundError for every failure of a web server."""
    from asyncio import TimeoutError as AsyncTimeout  # before Python 3.11 a class of its own

    while isinstance(error, FileNotFoundError) and _is_of_the_web(error.__cause__):
        error = cast("BaseException", error.__cause__)
    reason = _of_server(error) or next((why for kind, why in REASONS.items() if isinstance(error, kind)), None)
    if isinstance(error, TimeoutError | AsyncTimeout):
        reason = f"the server has sent nothing for {SILENCE_S:.3g} s; try again"
    elif isinstance(error, TooSlow):
        reason = f"the server has sent less than {LEAST_BYTES >> 10} KiB in {SILENCE_S:.3g} s; try again"
    status = getattr(error, "status", None)
    if reason is None and isinstance(status, int) and status >= FAILED:
        reason = f"the server answers {status} {_one_line(getattr(error, 'message', ''), url)}".rstrip()
    return reason or f"cannot be read ({_one_line(error, url) or type(error).__name__})"


def _of_server(error: BaseException) -> str | None:
    """Return the meaning of a web server's answer; None if it has no known meaning."""
    status = getattr(error, "status", None)
    if status is not None and type(error.__cause__).__module__ == "aiohttp.http_exceptions":
        return "what answers there is not a web server"  # the status is aiohttp's, not the server's
    if type(error).__name__ == "TooManyRedirects":
        return "the server redirects from one address to the next without an end"
    return REASONS[PermissionError] if status in DENIED else REASONS[FileNotFoundError] if status in MISSING else None


def _is_of_the_web(cause: BaseException | None) -> bool:
    return isinstance(cause, OSError | TimeoutError | ValueError) or type(cause).__module__.startswith("aiohttp")


def _one_line(error: object, url: str) -> str:
    """Return the text of an error; empty if it quotes a secret of the URL."""
    text = redacted(" ".join(str(error).split()))
    return "" if has_secret_of(text, url) else text


def open_url(url: str) -> BinaryIO:
    """Return the file at a URL; TraceError, without the URL, if it cannot be opened."""
    return cast("BinaryIO", RemoteFile(url))
