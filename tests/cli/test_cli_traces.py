"""Where commands take traces from: pipes, folders, patterns, URLs; and that no secret of a URL is said."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from click.testing import Result
from command_line import invoke, is_one_line_error
from trace_builder import TraceBuilder

from pinprof.trace.files import RemoteFiles

LIMIT = ("--max-step-ms", "99")
EACH = (["report"], ["check", *LIMIT, "--some-ranks"], ["whatif"], ["timeline", "-o", "-"])
"""Commands that take one trace and print."""


def paths_of(result: Result) -> list[str]:
    return [trace["path"] for trace in json.loads(result.stdout)["traces"]]


def written(rank: int) -> bytes:
    builder = TraceBuilder()
    builder.metadata["distributedInfo"] = {"rank": rank, "world_size": 2}
    for start in builder.steps(4):
        builder.kernel(start + 100, 300, launch=start + 50)
    return gzip.compress(json.dumps(builder.document()).encode())


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder, in that of work, with the traces of a job and other files."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    for rank in (0, 1):
        (folder / f"rank{rank * 10}.json.gz").write_bytes(written(rank))
    (folder / "report.html").write_text("<html>")
    return folder


@pytest.fixture
def bucket(run: Path) -> Iterator[Any]:
    """Return a file system that is not a folder of this machine, with the same."""
    files = fsspec.filesystem("memory")
    for path in run.iterdir():
        files.pipe(f"/run/{path.name}", path.read_bytes())
    yield files
    files.rm("/", recursive=True)


@pytest.mark.parametrize(
    "words", [*EACH, ["export", "-o", "-"], *([name, "run/rank10.json.gz"] for name in ("verify", "compare"))]
)
def test_every_command_reads_from_a_pipe(run: Path, words: list[str]) -> None:
    result = invoke(*words, "-", given=written(0))
    assert result.exit_code == 0
    assert "standard input" in result.stdout or words[0] in {"whatif", "export"}


@pytest.mark.parametrize("given", [b"", b"<html>", gzip.compress(b"{}", mtime=0)[:-3]])
def test_a_pipe_that_brings_no_trace_is_one_line(given: bytes) -> None:
    result = invoke("report", "-", given=given)
    assert is_one_line_error(result)
    assert result.stderr.startswith("Error: standard input: ")


@pytest.mark.parametrize("words", [["report"], ["check", *LIMIT], ["whatif"], ["verify"], ["compare"]])
def test_standard_input_is_not_read_twice(words: list[str]) -> None:
    result = invoke(*words, "-", "-", given=written(0))
    assert is_one_line_error(result)
    assert "can be read once" in result.stderr


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        *((["report", "--json", "-"], name) for name in ("run", "run/", "run/*", "r*n/*.gz", "memory://run/*.gz")),
        (["check", *LIMIT], "run/rank*"),
        (["whatif", "--json", "-"], "memory://run"),
    ],
)
def test_folders_and_patterns_are_all_their_traces_in_order(bucket: Any, words: list[str], argument: str) -> None:
    result = invoke(*words, argument)
    assert result.exit_code == 0
    assert result.stdout.index("run/rank0.json.gz") < result.stdout.index("run/rank10.json.gz")
    assert "Skipped" not in result.stderr


@pytest.mark.parametrize(
    "words",
    [*EACH, ["report", "--html", "page.html"], *([name, "run/rank0.json.gz"] for name in ("compare", "verify"))],
)
def test_a_remote_folder_is_listed_once(bucket: Any, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []

    class Counted(RemoteFiles):
        def __init__(self, url: str) -> None:
            listed.append(url)
            super().__init__(url)

    monkeypatch.setattr("pinprof.trace.files.RemoteFiles", Counted)
    bucket.rm("/run/rank10.json.gz")
    assert invoke(*words, "memory://run").exit_code == 0
    assert listed == ["memory://run"]


def test_what_is_no_trace_among_them_is_skipped_with_a_word(bucket: Any) -> None:
    bucket.pipe("/run/notes.json", b"{}")
    result = invoke("report", "memory://run", "--json", "-")
    assert paths_of(result) == ["memory://run/rank0.json.gz", "memory://run/rank10.json.gz"]
    assert result.stderr.startswith("Skipped: memory://run/notes.json: ")


@pytest.mark.parametrize(
    "words", [["timeline", "-o", "-"], ["verify", "run/rank0.json.gz"], ["compare", "run/rank0.json.gz"]]
)
def test_what_is_about_one_trace_takes_a_folder_of_one_and_no_more(run: Path, words: list[str]) -> None:
    result = invoke(*words, "run")
    assert is_one_line_error(result)
    assert "name it, e.g. run/rank0.json.gz" in result.stderr
    (run / "rank0.json.gz").rename("run/../rank0.json.gz")
    assert invoke(*[word.replace("run/rank0", "rank0") for word in words], "run").exit_code == 0


@pytest.mark.parametrize("argument", ["none*.json", "memory://run/none*", "memory://none/", "zorg://x/t.json", "s3://"])
def test_what_stands_for_nothing_is_one_line(bucket: Any, argument: str) -> None:
    for words in (*EACH, ["verify", argument], ["compare", argument]):
        result = invoke(*words, argument)
        assert is_one_line_error(result)
        assert argument in result.stderr


URLS = [
    "zorg://user:secret@host/t.json",
    "http://127.0.0.1:9/t.json?sig=secret",
    "http://127.0.0.1:9/t.json?a=1;sig='secret\"secret",
    "http://127.0.0.1:9/t.json;sig=secret#secret",
    "http://user:a'secret@127.0.0.1:9/t.json",
]


@pytest.mark.parametrize(
    ("words", "url"),
    [
        *((["report"], url) for url in URLS),
        *((words, URLS[1]) for words in (*EACH[1:], ["verify", "x"], ["compare", "x"])),
    ],
)
def test_no_error_says_the_secrets_of_a_url(words: list[str], url: str) -> None:
    result = invoke(*words, url)
    assert is_one_line_error(result)
    assert "secret" not in result.output


def test_neither_fsspec_nor_zstd_is_loaded_before_it_is_needed() -> None:
    loaded = "{'fsspec', 'aiohttp', 'backports.zstd'} & {*sys.modules}"
    code = f"import sys, pinprof.cli, pinprof.trace.files; print({loaded})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
