"""Traces at URLs: in memory, and on a web server of the test's own that fails in every way it can."""

import gzip
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fsspec
import pytest

from pinprof.ground.errors import TraceError
from pinprof.trace import files, read_trace
from pinprof.trace.files import trace_files

SMALL = b'{"traceEvents": [{"ph": "X", "cat": "Trace", "name": "x", "ts": 1, "dur": 1}]}'
PACKED = gzip.compress(SMALL)
PAGE = "".join(f'<a href="{name}">' for name in ("../", "r10.json", "r2.json.gz", "below/", "x.html")).encode()


MOVED = {
    "moved.json": (301, "/r.json"),
    "loop.json": (302, "/loop.json?sig=secret"),
    "elsewhere.json": (302, "http://key:secret@127.0.0.1:9/a.json;t=secret?sig='secret#secret"),
}
"""Where the server sends on to."""


class Server(BaseHTTPRequestHandler):
    """Answers by the path that it is asked for; a number is the status."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].rpartition("/")[2]
        if path in MOVED:
            status, place = MOVED[path]
            self.answer(b"", {"Location": place}, status=status)
        elif path.partition(".")[0] in {"hang", "close", "chunks"}:
            getattr(self, path.partition(".")[0])()
        elif path.isdigit():
            self.answer(b"", status=int(path))
        elif self.path == "/run/":
            self.answer(PAGE, {"Content-Type": "text/html"})
        elif path == "get_only.json" and self.command == "HEAD":  # as an address that is signed for one method
            self.answer(b"", status=403)
        elif path == "encoded.json":
            self.answer(PACKED, {"Content-Encoding": "gzip"})
        elif path == "cut.json":
            self.answer(PACKED, {"Content-Length": str(len(PACKED) + 9)})
        elif path == "endless.json":
            self.answer(PACKED, {"Content-Length": None})
        elif path.startswith("r") or path == "get_only.json":
            self.answer(PACKED)
        else:
            self.answer(b"", status=404)

    def hang(self) -> None:
        """Send nothing."""
        time.sleep(3)

    def close(self) -> None:
        """Hang up."""
        self.connection.close()

    def chunks(self) -> None:
        """Send events without an end, in chunks."""
        self.protocol_version = "HTTP/1.1"
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events = (
            b'{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {}},\n' * 1000
        )
        with suppress(OSError):
            for number in range(1000):
                data = b'{"traceEvents": [\n' * (number == 0) + events
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    do_HEAD = do_GET  # noqa: N815  the name that the server looks for

    def answer(self, body: bytes, headers: dict[str, str | None] | None = None, status: int = 200) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | (headers or {})).items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the address of the server."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(files, "MAX_SILENCE_S", 0.5)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def memory() -> Iterator[Any]:
    """Return a file system that is empty but for what the test puts there."""
    files = fsspec.filesystem("memory")
    yield files
    files.rm("/", recursive=True)


def error_of(url: str) -> str:
    with pytest.raises(TraceError) as caught:
        list(map(read_trace, trace_files(url)))
    text = str(caught.value)
    assert "\n" not in text
    assert "secret" not in text
    return text


def test_a_url_is_read_under_its_name(memory: Any) -> None:
    memory.pipe("/run/t.json.gz", PACKED)
    assert read_trace("memory://run/t.json.gz").path == "memory://run/t.json.gz"


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("memory://run", ["r2.json.gz", "r10.json"]),
        ("memory://run/", ["r2.json.gz", "r10.json"]),
        ("memory://run/*", ["r2.json.gz", "r10.json"]),
        ("memory://run/**/*.json", ["below/r3.json", "r10.json"]),
        ("memory://run/below/../../run/r10.json", None),
        ("memory://run/a[1].json", ["a[1].json"]),
        ("simplecache::memory://run/r1*.json", ["r10.json"]),
    ],
)
def test_folders_and_patterns_are_those_of_the_file_system(memory: Any, url: str, found: list[str] | None) -> None:
    names = ["r10.json", "r2.json.gz", "x.html", "below/r3.json"] + (["a[1].json", "a1.json"] if "[" in url else [])
    for name in names:
        memory.pipe(f"/run/{name}", SMALL)
    before = url[: url.index("memory://")] + "memory://run/"
    assert trace_files(url) == ([url] if found is None else [before + name for name in found])


def test_a_listing_is_a_new_one_each_time(memory: Any) -> None:
    for count, name in enumerate(("a", "b"), start=1):
        memory.pipe(f"/run/{name}.json", SMALL)
        assert len(trace_files("memory://run")) == count


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("memory://none.json", "no such file"),
        ("memory://none", "no such file"),
        ("memory://none/", "no such file"),
        ("memory://run/*.nix", "matches no file"),
        ("memory://several", "in memory://several/a, memory://several/b; name one"),
        ("memory://texts", "traces end in"),
    ],
)
def test_what_is_not_there_is_refused(memory: Any, url: str, reason: str) -> None:
    for name in ("run/a.json", "several/a/t.json", "several/b/t.json", "texts/a.txt"):
        memory.pipe(f"/{name}", SMALL)
    assert error_of(url).startswith(f"{url}: ")
    assert reason in error_of(url)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["r.json", "encoded.json", "endless.json", "get_only.json", "r.json?signature=secret", "moved.json"]
)
def test_a_web_address_is_read_however_it_is_served(web: str, path: str) -> None:
    assert read_trace(f"{web}/{path}").path == f"{web}/{path}".replace("signature=secret", "***")


def test_a_folder_on_the_web_is_what_its_page_lists(web: str) -> None:
    assert trace_files(f"{web}/run/") == [f"{web}/run/r2.json.gz", f"{web}/run/r10.json"]
    assert trace_files(f"{web}/run/*.json") == [f"{web}/run/r10.json"]
    assert trace_files(f"{web}/run") == [f"{web}/run"]
    assert trace_files(f"{web}/none.json?sig=[*") == [f"{web}/none.json?sig=[*"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("404", "no such file"),
        ("410?sig=secret", "no such file"),
        ("401", "access is denied"),
        ("403?sig=secret", "access is denied"),
        ("500", "cannot be read (500 Internal Server Error)"),
        ("hang", "the server has sent nothing for 0.5 s; try again"),
        ("close", "cannot be read (Server disconnected)"),
        ("loop.json", "cannot be read ("),
        ("elsewhere.json", "cannot be read ("),
        ("404.json;t=secret#secret", "no such file"),
        ("cut.json?sig=secret", "cannot be read (Response payload is not completed"),
        ("none/", "no such file"),
        ("run/*.nix", "matches no file"),
    ],
)
def test_a_web_server_that_fails_is_one_line_without_secrets(web: str, path: str, reason: str) -> None:
    assert reason in error_of(f"{web}/{path}")
    assert reason in error_of(f"{web.replace('//', '//user:secret@')}/{path}")


def test_an_answer_without_an_end_is_read_up_to_a_limit(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_STREAM_BYTES", 1 << 22)
    assert "is longer than 0 GiB; save it to a file first" in error_of(f"{web}/chunks.json?sig=secret")


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/t.json", "http:///t.json", "http://[::1/t.json", "http://"])
def test_an_address_without_a_server_is_one_line(url: str) -> None:
    assert error_of(url).startswith(f"{url}: cannot be read (")


@pytest.mark.parametrize(
    ("url", "package"),
    [
        ("s3://bucket/t.json", "s3fs"),
        ("s3://key:secret@bucket/*.json", "s3fs"),
        ("gs://bucket/run/", "gcsfs"),
        ("https://host/t.json", "aiohttp"),
        ("simplecache::s3://bucket/t.json", "s3fs"),
    ],
)
def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch, url: str, package: str) -> None:
    for module in (package, "fsspec.implementations.http"):
        monkeypatch.setitem(sys.modules, module, None)
    for loaded in ("http", "https"):
        monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, loaded, raising=False)
    assert "needs a package that is not installed (" in error_of(url)
    assert error_of(url).endswith("pip install 'pinprof[remote]'")
