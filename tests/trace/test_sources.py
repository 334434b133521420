"""The source of a recorded program: found where it is, and never mistaken, waited for, or failed on."""

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from pinprof.trace.metadata.info import Made
from pinprof.trace.sources import EDITED_AFTER_S, MAX_BYTES, Sources

RECORDED = 1_700_000_000


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Return a folder with a trace."""
    folder = tmp_path / "traces"
    folder.mkdir()
    written(folder / "trace.json", "{}")
    return folder


def written(path: Path, text: str, *, after_s: float = 0) -> Path:
    """Write a file as if so long after the trace."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (RECORDED + after_s,) * 2)
    return path


def text(traces: Path, file: str) -> str | None:
    return Sources(str(traces / "trace.json")).text(file)


@pytest.mark.parametrize("file", ["train.py", "mypackage/models/net.py"])
def test_a_file_is_found_from_the_folder_of_the_trace_and_first_from_the_working_directory(
    here: Path, traces: Path, file: str
) -> None:
    written(traces / file, "there")
    assert text(traces, file) == "there"
    written(here / file, "here")
    assert text(traces, file) == "here"


@pytest.mark.parametrize("top", ["", "src"])
def test_a_package_is_found_from_the_top_of_the_project_too(here: Path, traces: Path, tmp_path: Path, top: str) -> None:
    (tmp_path / ".git").mkdir()
    written(tmp_path / top / "mypackage" / "net.py", "above")
    written(tmp_path / top / "train.py", "another program")
    assert text(traces, "mypackage/net.py") == "above"
    assert text(traces, "train.py") is None, "a script without a package may be another one"


def test_an_edited_file_in_the_working_directory_gives_way_to_one_that_was_not(here: Path, traces: Path) -> None:
    written(here / "train.py", "here", after_s=3600)
    written(traces / "train.py", "there")
    assert text(traces, "train.py") == "there"


@pytest.mark.parametrize(("content", "after_s", "expected"), [("ran", 1000, "ran"), ("other", 0, None)])
def test_the_recorded_hash_of_a_file_tells_more_than_its_time(
    here: Path, traces: Path, content: str, after_s: float, expected: str | None
) -> None:
    written(here / "train.py", content, after_s=after_s)
    made = Made(hashes={"train.py": sha256(b"ran").hexdigest()})
    assert Sources(str(traces / "trace.json"), made).text("train.py") == expected


def test_a_file_is_found_in_the_folders_that_the_program_imports_from(here: Path, traces: Path, tmp_path: Path) -> None:
    written(tmp_path / "examples" / "train.py", "imported")
    assert Sources(str(traces / "trace.json"), folders=[str(tmp_path / "examples")]).text("train.py") == "imported"


@pytest.mark.parametrize(("after_s", "found"), [(-1e6, True), (0, True), (EDITED_AFTER_S, True), (11, False)])
def test_a_file_that_is_newer_than_the_trace_is_not_the_one_that_ran(
    here: Path, traces: Path, after_s: float, found: bool
) -> None:
    written(here / "train.py", "text", after_s=after_s)
    assert text(traces, "train.py") == ("text" if found else None)


def test_without_the_trace_file_nothing_tells_which_source_ran(here: Path, traces: Path) -> None:
    written(here / "train.py", "text")
    (traces / "trace.json").unlink()
    assert text(traces, "train.py") is None


@pytest.mark.parametrize("file", ["train.pyc", "train", "train.py.json", "data.csv", "<string>", "<frozen os>", ""])
def test_only_python_files_are_read(here: Path, traces: Path, file: str) -> None:
    if file:
        written(here / file, "text")
    assert text(traces, file) is None


@pytest.mark.parametrize(
    "make",
    [lambda _: None, Path.mkdir, os.mkfifo, lambda path: path.symlink_to("train.py")],
    ids=["nothing", "a folder", "a pipe", "a link to itself"],
)
def test_what_is_no_file_is_none_and_not_waited_for(here: Path, traces: Path, make: Callable[[Path], None]) -> None:
    make(here / "train.py")
    if (here / "train.py").exists():
        os.utime(here / "train.py", (RECORDED, RECORDED))
    assert text(traces, "train.py") is None


@pytest.mark.parametrize(("size", "found"), [(MAX_BYTES, True), (MAX_BYTES + 1, False), (1 << 40, False)])
def test_a_huge_file_is_not_read(here: Path, traces: Path, size: int, found: bool) -> None:
    path = written(here / "train.py", "x = 1\n" * (min(size, MAX_BYTES) // 6) + "\n" * (min(size, MAX_BYTES) % 6))
    os.truncate(path, size)
    os.utime(path, (RECORDED, RECORDED))
    assert (text(traces, "train.py") is not None) == found


@pytest.mark.parametrize(
    "file",
    [
        *("../../x.py", "../" * 100 + "etc/x.py", "a\0b.py", "\0.py", "\ud800.py", "a" * 10_000 + ".py"),
        *("a/" * 5_000 + "x.py", "train.py/x.py", "~/x.py", "C:\\train.py", "/dev/fd/0/.py", "/proc/self/mem/x.py"),
        *("$(touch x).py", "a\nb.py", ".py"),
    ],
)
def test_a_hostile_name_is_none_and_no_error(here: Path, traces: Path, file: str) -> None:
    written(here / "train.py", "text")
    assert text(traces, file) is None


def test_a_file_is_read_once(here: Path, traces: Path) -> None:
    written(here / "train.py", "text")
    sources = Sources(str(traces / "trace.json"))
    assert sources.text("train.py") == "text"
    (here / "train.py").unlink()
    assert sources.text("train.py") == "text"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\r\nb\n", "a\nb\n"),
        (b"\xef\xbb\xbfx = 1\n", "x = 1\n"),
        *((data, None) for data in (b"\xff\xfe\x00", b"\x80abc", b"\xc3(")),
    ],
)
def test_the_text_is_the_same_whatever_wrote_it_and_none_where_it_is_no_text(
    here: Path, traces: Path, data: bytes, expected: str | None
) -> None:
    written(here / "train.py", "").write_bytes(data)
    os.utime(here / "train.py", (RECORDED, RECORDED))
    assert text(traces, "train.py") == expected


def test_a_file_is_at_hand_whether_or_not_it_was_edited(here: Path, traces: Path) -> None:
    sources = Sources(str(traces / "trace.json"))
    edited = written(here / "train.py", "new", after_s=EDITED_AFTER_S + 1)
    as_recorded = written(here / "net.py", "as recorded")
    assert (sources.path("train.py"), sources.path("net.py")) == (Path("train.py"), Path("net.py"))
    assert sources.is_edited(edited, edited.name)
    assert not sources.is_edited(as_recorded, as_recorded.name)
    assert sources.path("missing.py") is None
    assert sources.path("train.sh") is None
