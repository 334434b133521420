"""Looks at a long training: how often they come, what they write, and that the program runs to its end."""

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from command_line import invoke
from fake_profiler import MS, TWO_OF_EACH, FakeClock, fake_recording

from pinprof.capture.window import lean
from pinprof.capture.window.trace_file import write_trace
from pinprof.program.hooks import faults
from pinprof.trace import read_trace

FIRST, LOOK = 8, 4
"""The steps of the first recording, and of each further look with the profiler's warm-up."""
EVERY = msgspec.structs.replace(TWO_OF_EACH, every=20)
Looks = list[tuple[str, int]]


def looks_at(folder: Path, steps: int, look_ms: float, do: Callable[[], None] = lambda: None) -> Looks:
    """Return the looks at a training with steps of 10 ms, by file and number of the step."""
    clock, looks = FakeClock(), Looks()

    def look(path: Path, place: int) -> None:
        looks.append((path.name, place))
        clock.time_ns += round(look_ms * MS)
        do()

    recording = fake_recording(folder, EVERY, clock)
    recording.on_recorded = look
    with recording:
        for _ in range(steps):
            clock.time_ns += 10 * MS
            recording.step()
    return looks


def test_a_look_comes_after_every_n_steps(tmp_path: Path) -> None:
    looks = looks_at(tmp_path, 60, look_ms=0)
    assert looks == [("out.json", FIRST), ("out.latest.json", FIRST + 24), ("out.latest.json", FIRST + 48)]
    stored = json.loads((tmp_path / "out.json").read_text())
    assert {"between", "recorded"} <= {window for window, _ in stored["pinprof_run"]["windows"]}


def test_looks_take_at_most_half_a_percent_of_the_time(tmp_path: Path) -> None:
    """A look of 5 ms may come once in a second, which is 100 steps."""
    places = [place for _, place in looks_at(tmp_path, 400, look_ms=5)]
    assert [later - earlier for earlier, later in pairwise(places)] == [100 + LOOK] * 3


@pytest.mark.parametrize(
    ("steps", "written"), [(90, ["out.json", "out.latest.json", "out.latest.json"]), (31, ["out.json"])]
)
def test_a_look_that_cannot_be_written_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, written: list[str]
) -> None:
    """Neither a training nor its end fails with it; 31 steps end within the look."""
    writes: list[OSError | None] = [OSError("no space left on device"), None, None, None]
    write_whole = write_trace

    def write(profiler: Any, path: Path) -> None:
        error = writes.pop(0) if path.name == "out.latest.json" else None
        if error is not None:
            raise error
        write_whole(profiler, path)

    sentences: list[str] = []
    expected = ["A later recording is left out: the recording could not be finished: no space left on device"]
    monkeypatch.setattr(lean, "write_trace", write)
    monkeypatch.setattr(faults, "output", sentences.append)
    monkeypatch.setattr(faults, "sentences", [])
    looks = looks_at(tmp_path, steps, look_ms=0)
    assert [name for name, _ in looks] == written
    assert (tmp_path / "out.json").is_file()
    assert sentences == (expected if len(written) > 1 else [])
    assert len(writes) < 4, "no look was written"


TRAINING = """
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(120):
    optimizer.zero_grad()
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
print("trained")
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_run_says_a_line_per_look_while_the_script_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pinprof.capture.window.lean.MAX_SHARE_OF_RECORDINGS", 1e3)  # whatever a look costs here
    (tmp_path / "train.py").write_text(TRAINING)
    result = invoke("run", "--every", "30", "--warmup", "9", "--steps", "2", "train.py")
    assert result.exit_code == 0, result.stderr
    places = [int(place) for place in re.findall(r"^Step (\d+): .* per step", result.stderr, re.MULTILINE)]
    assert len(places) >= 3
    assert "trained" in result.stdout
    trace = read_trace(tmp_path / "pinprof-train.latest.json.gz")
    assert trace.info.plain_step is not None


def test_every_is_refused_with_what_records_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAINING)
    assert "--every records again and again" in invoke("run", "--every", "10", "--repeat", "2", "train.py").stderr
