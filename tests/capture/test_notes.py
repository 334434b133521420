"""What children leave for the process that reports."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from pinprof.capture.children.notes import ENDED_EARLY, ChildEnd, ChildRun, ChildStart, Notes
from pinprof.capture.job import Rank
from pinprof.program.hooks import faults


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    folder = tmp_path / "notes"
    folder.mkdir()
    return Notes(str(folder))


def started(notes: Notes, base: Path, rank: Rank | None) -> ChildStart:
    start = notes.start(base, rank)
    assert isinstance(start, ChildStart)
    return start


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def started_by(process: int, notes: Notes, base: Path, rank: Rank | None) -> None:
    """Let another process have started a trace."""
    start = started(notes, base, rank)
    (file,) = (file for file in notes.folder.glob("*.start") if start.path.encode() in file.read_bytes())
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(start, process=process)))


def test_a_long_wait_for_a_process_is_said_once(notes: Notes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, slept_s = list[str](), list[float]()
    monkeypatch.setattr(faults, "output", lines.append)
    monkeypatch.setattr(faults, "sentences", [])
    host_time = SimpleNamespace(monotonic=lambda: sum(slept_s), sleep=slept_s.append)
    monkeypatch.setattr("pinprof.capture.children.notes.HOST_TIME", host_time)
    started(notes, tmp_path / "out.json", None)
    notes.follow(os.getpid())
    notes.wait(4.0)
    assert lines == []
    assert sum(slept_s) == pytest.approx(4, abs=0.1)
    notes.wait(6.0)
    assert lines == ["pinprof waits for processes that the script has started, for 6 s at most"]


def test_ranks_come_in_order_before_children_which_are_numbered(notes: Notes, tmp_path: Path) -> None:
    base = tmp_path / "out.json.gz"
    for rank in (None, Rank(1, 2), None, Rank(0, 2)):
        started(notes, base, rank)
    notes.end(ChildEnd(recorded=True, marker="optimizer step (SGD)", stopped=True))
    assert [str(child.path and child.path.name) for child in notes.children()] == [
        "out.rank0.json.gz",
        "out.rank1.json.gz",
        "out.child0.json.gz",
        "out.child1.json.gz",
    ]
    assert notes.children()[0] == ChildRun(
        tmp_path / "out.rank0.json.gz", 0, 2, "optimizer step (SGD)", stopped=True, why=None
    )


def test_a_rank_whose_process_died_is_recorded_when_its_launcher_starts_it_again(notes: Notes, tmp_path: Path) -> None:
    base, rank = tmp_path / "out.json.gz", Rank(1, 2)
    started_by(ended_process(), notes, base, rank)
    assert isinstance(notes.start(base, rank), ChildStart)


def test_a_killed_child_has_the_trace_that_it_wrote_and_no_older_one(notes: Notes, tmp_path: Path) -> None:
    old, new = tmp_path / "out.rank0.json.gz", tmp_path / "out.rank1.json.gz"
    old.touch()
    os.utime(old, (0, 0))
    for rank in (0, 1):
        started_by(ended_process(), notes, tmp_path / "out.json.gz", Rank(rank, 2))
    new.touch()
    assert [(child.path, child.why) for child in notes.children()] == [(None, ENDED_EARLY), (new, ENDED_EARLY)]


def test_a_process_runs_until_it_has_ended_or_said_so(notes: Notes) -> None:
    for process in (os.getpid(), ended_process()):
        notes.follow(process)
    assert len(notes.processes) == 2
    assert notes.running == [os.getpid()]
    assert not notes.are_stopped
    notes.end(ChildEnd())
    assert notes.running == []
    assert not notes.are_stopped


def test_children_are_stopped_when_pinprof_stopped_one_and_none_runs(notes: Notes, tmp_path: Path) -> None:
    notes.follow(os.getpid())
    started(notes, tmp_path / "out.json", None)
    notes.end(ChildEnd(recorded=True, stopped=True))
    assert notes.are_stopped


def test_a_remark_is_said_once(notes: Notes) -> None:
    for text in ("b", "a", "b"):
        notes.remark(text)
    assert notes.remarks() == ["a", "b"]
