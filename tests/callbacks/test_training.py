"""What the callbacks share, driven by hand: boundaries as a framework would give them."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from trace_steps import steps_of

from pinprof.callbacks.training import TrainingRecording
from pinprof.capture.job import path_of_rank

SHORT: dict[str, Any] = {"warmup": 1, "plain_steps": 0, "steps": 2}  # with the profiler's warm-up: 5 steps


def train(training: TrainingRecording, steps: int) -> list[bool]:
    """Return what each boundary answered; the last step has no boundary after it."""
    answers = []
    for _ in range(steps):
        answers.append(training.boundary())
        with torch.profiler.record_function("batch"):
            torch.ones(2) + 1
    return answers


@pytest.mark.slow
def test_training_goes_on_after_the_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    training = TrainingRecording(path, stop=False, options=SHORT)
    training.begin(0, 1)
    assert not any(train(training, 10))
    sentence = f"pinprof: recorded 2 steps; next: pinprof report {path}\n"
    assert capsys.readouterr().err == sentence
    training.end()
    assert capsys.readouterr().err == ""
    assert list(steps_of(path, "batch").values()) == [1, 1]


def test_training_is_stopped_at_the_boundary_that_ends_the_recording(tmp_path: Path) -> None:
    training = TrainingRecording(tmp_path / "out.json", stop=True, options=SHORT)
    training.begin(0, 1)
    assert train(training, 7) == [False] * 5 + [True, False]


def test_early_end_keeps_the_complete_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training = TrainingRecording(tmp_path / "out.json", stop=False, options=SHORT)
    training.begin(0, 1)
    train(training, 5)
    training.end()
    assert "recorded 1 step;" in capsys.readouterr().err
    assert (tmp_path / "out.json").exists()


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_too_short_a_training_is_said_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], steps: int
) -> None:
    training = TrainingRecording(tmp_path / "out.json", stop=False, options=SHORT)
    training.begin(0, 1)
    train(training, steps)
    training.end()
    assert f"ended after {max(steps - 1, 0)} steps, before one was recorded" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


@pytest.mark.slow
def test_a_recording_that_fails_lets_the_training_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    training = TrainingRecording(folder / "out.json", stop=False, options=SHORT)
    training.begin(0, 1)
    folder.rmdir()
    assert not any(train(training, 10))
    training.end()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pinprof: the recording could not be finished: ")


@pytest.mark.slow
def test_the_first_rank_logs_the_figures_of_what_is_recorded(tmp_path: Path) -> None:
    logged: list[dict[str, float]] = []
    for rank in (0, 1):
        training = TrainingRecording(tmp_path / "out.json", stop=False, options=SHORT)
        training.begin(rank, 2, logged.append)
        train(training, 7)
    assert [set(figures) >= {"pinprof/steps/traced_ms"} for figures in logged] == [True]


def test_nothing_is_analysed_as_the_program_ends(tmp_path: Path) -> None:
    training = TrainingRecording(tmp_path / "out.json", stop=False, options=SHORT)
    training.begin(0, 1, lambda _: pytest.fail("it was logged"))
    train(training, 5)
    training.keep()
    training.end()
    assert (tmp_path / "out.json").exists()


@pytest.mark.slow
def test_validation_within_the_recording_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for validated in (False, True):
        training = TrainingRecording(tmp_path / f"{validated}.json", stop=False, options=SHORT)
        training.begin(0, 1)
        training.validated()  # before the first step: in none
        train(training, 3)
        if validated:
            training.validated()
        train(training, 3)
        training.validated()  # after the recording
        assert ("validation ran between timed or recorded steps" in capsys.readouterr().err) is validated


def test_each_rank_writes_its_own_trace(tmp_path: Path) -> None:
    assert path_of_rank(Path("a/out.json.gz"), 3) == Path("a/out.rank3.json.gz")
    training = TrainingRecording(tmp_path / "out.json", stop=False, options=SHORT)
    training.begin(1, 2)
    train(training, 6)
    assert [path.name for path in tmp_path.iterdir()] == ["out.rank1.json"]


FAILING = """
from pinprof.capture.job import path_of_rank
from pinprof.callbacks.training import TrainingRecording
training = TrainingRecording("out.json", stop=False, options={"warmup": 1, "plain_steps": 0, "steps": 2})
training.begin(0, 1)
for _ in range(5):
    training.boundary()
raise ZeroDivisionError
"""


@pytest.mark.slow
def test_a_framework_that_does_not_tell_of_a_failure_loses_nothing(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r})\n{FAILING}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "ZeroDivisionError" in ended.stderr
    assert "pinprof: recorded 1 step;" in ended.stderr
    assert (tmp_path / "out.json").exists()


@pytest.mark.parametrize(("module", "install"), [("lightning", "lightning, or"), ("transformers", "transformers")])
def test_a_missing_library_is_one_line_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, module: str, install: str
) -> None:
    monkeypatch.delitem(sys.modules, f"pinprof.callbacks.{module}", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ImportError, match=f"is not installed: pip install '?{install}"):
        import_module(f"pinprof.callbacks.{module}")
