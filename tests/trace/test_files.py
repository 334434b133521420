"""Where traces are: what an argument stands for, and what is said when it stands for nothing."""

import io
import os
import socket
import sys
from pathlib import Path

import pytest

from pinprof.ground.errors import TraceError
from pinprof.trace import read_trace
from pinprof.trace.files import open_trace, trace_files

SMALL = b'{"traceEvents": [{"ph": "X", "cat": "Trace", "name": "x", "ts": 1, "dur": 1}]}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(SMALL)


def refusal(argument: str) -> str:
    with pytest.raises(TraceError) as caught:
        trace_files(argument)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{argument}: ")
    return text


@pytest.mark.parametrize("name", ["t.json", "none.json", "-", "a:b.json", "C:\\t.json", "", "\0", "x" * 5000, "\udcff"])
def test_a_name_stands_for_itself_whether_it_exists_or_not(folder: Path, name: str) -> None:
    put(folder, "t.json")
    assert trace_files(name) == [name]


def test_a_folder_stands_for_the_traces_at_its_top_in_natural_order(folder: Path) -> None:
    put(
        folder,
        *(f"run/{name}" for name in ("r10.json", "r2.json.gz", "R1.JSON.ZST", "x.txt", ".r3.json", "below/r4.json")),
    )
    assert trace_files("run") == ["run/R1.JSON.ZST", "run/r2.json.gz", "run/r10.json"]
    assert trace_files("run/") == trace_files("run")


def test_a_folder_without_traces_stands_for_those_in_the_only_folder_below_that_has_some(folder: Path) -> None:
    put(
        folder,
        "log/plugins/profile/run/b.pt.trace.json",
        "log/plugins/profile/run/a.pt.trace.json.gz",
        "log/events.out",
    )
    assert [Path(path).name for path in trace_files("log")] == ["a.pt.trace.json.gz", "b.pt.trace.json"]


def test_a_folder_of_several_runs_is_refused_with_their_names(folder: Path) -> None:
    put(folder, *(f"log/run{number}/t.json" for number in (10, 1, 2, 3, 4)))
    assert "in log/run1, log/run2, log/run3 and 2 more; name one" in refusal("log")


@pytest.mark.parametrize("names", [[], ["x.txt"], [".hidden/t.json"], ["1/2/3/4/5/t.json"]])
def test_a_folder_without_traces_is_refused_with_their_suffixes(folder: Path, names: list[str]) -> None:
    (folder / "run").mkdir()
    put(folder / "run", *names)
    assert "traces end in .json, .json.gz or .json.zst" in refusal("run")


def test_pipes_and_links_to_folders_are_no_traces_of_a_folder(folder: Path) -> None:
    (folder / "run").mkdir()
    os.mkfifo(folder / "run" / "pipe.json")
    (folder / "run" / "round.json").symlink_to(folder)
    refusal("run")
    put(folder, "elsewhere")
    (folder / "run" / "linked.json").symlink_to(folder / "elsewhere")
    assert trace_files("run") == ["run/linked.json"]


def test_links_that_lead_nowhere_or_round_are_traces_of_a_folder_that_cannot_be_read(folder: Path) -> None:
    (folder / "run").mkdir()
    (folder / "run" / "link.json").symlink_to("nowhere")
    (folder / "run" / "loop.json").symlink_to("loop.json")
    (folder / "run" / "link.txt").symlink_to("nowhere")
    assert trace_files("run") == ["run/link.json", "run/loop.json"]


def test_a_pattern_stands_for_the_traces_that_match_in_natural_order(folder: Path) -> None:
    put(folder, "run/r10.json", "run/r2.json.gz", "run/r1.html", "run/below/r3.json")
    assert trace_files("run/*") == ["run/r2.json.gz", "run/r10.json"]
    assert trace_files("run/r?.json*") == ["run/r2.json.gz"]
    assert trace_files(str(folder / "**" / "*.json")) == [
        str(folder / "run/below/r3.json"),
        str(folder / "run/r10.json"),
    ]
    assert trace_files("run/*.html") == ["run/r1.html"]


@pytest.mark.parametrize("pattern", ["*.json", "none/*.json", "[", "**", "run*", "\0*", "x" * 5000 + "*"])
def test_a_pattern_without_a_match_is_refused(folder: Path, pattern: str) -> None:
    (folder / "run").mkdir()
    assert "matches no file" in refusal(pattern)


# ---------------------------------------------------------------- opening


def opening(path: str) -> str:
    with pytest.raises(TraceError) as caught, open_trace(path):
        pass
    return str(caught.value)


def test_what_cannot_be_opened_says_why(folder: Path) -> None:
    assert opening("none.json") == "no such file"
    assert opening(str(folder)) == "is a folder; name the trace files in it"
    (folder / "file").write_text("")
    assert "cannot be read" in opening(str(folder / "file" / "trace.json"))
    assert "cannot be read (File name too long)" in opening("x" * 5000)
    assert "is not a valid file name" in opening("\0")
    (listener := socket.socket(socket.AF_UNIX)).bind("socket.json")
    assert "cannot be read" in opening("socket.json")
    listener.close()


def standard_input(data: bytes, *, terminal: bool = False) -> io.TextIOWrapper:
    class Input(io.BytesIO):
        def isatty(self) -> bool:
            return terminal

    return io.TextIOWrapper(Input(data))


def test_a_hyphen_is_standard_input_which_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", standard_input(SMALL))
    assert read_trace("-").path == "standard input"
    assert not sys.stdin.buffer.closed
    with pytest.raises(TraceError, match=r"^standard input: the file is empty"):
        read_trace("-")


def test_a_pipe_by_name_is_read_to_its_end() -> None:
    reader, writer = os.pipe()
    os.write(writer, SMALL)
    os.close(writer)
    assert read_trace(f"/dev/fd/{reader}").counts == {"Trace": 1}
    os.close(reader)
