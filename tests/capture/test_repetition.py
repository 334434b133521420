"""A program that is recorded several times: which run is shown, what its trace says of the others, and what ends it."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from command_line import invoke
from forked_driver import COMMAND, forked
from recordings import ROOT
from script_runs import TRAIN
from warm_python import warm_python

from pinprof.capture import repetition
from pinprof.capture.children.notes import ChildRun
from pinprof.capture.options import RecordingOptions
from pinprof.capture.repetition import RepeatedRecording, WorkerTask, record_repeatedly
from pinprof.capture.script import ScriptRun
from pinprof.capture.window.trace_file import sections_of, store
from pinprof.trace.metadata.run_log import RUN_KEY, RunLog

MS = 1_000_000
TASK = WorkerTask(
    script="train.py",
    args=("--lr", "1"),
    module=False,
    step_marker="auto",
    keep_going=False,
    options=RecordingOptions(),
    output="out.json",
)


def recording(path: Path, step_ms: float) -> None:
    """Write a recording of this number of equal steps."""
    path.write_text('{"traceEvents": []}')
    nothing = (0,) * 20
    store(path, {RUN_KEY: RunLog(0, (("plain", 20),), (round(step_ms * MS),) * 20, nothing, nothing, nothing, 0)})


def task_of(command: Sequence[str]) -> WorkerTask:
    """Return the task that the command of a worker names."""
    assert command[-2] == "worker"
    return msgspec.json.decode(Path(command[-1]).read_bytes(), type=WorkerTask)


def program_of(monkeypatch: pytest.MonkeyPatch, *runs: tuple[float | None, int]) -> None:
    """Let each run have a step of the next of these ms, and end with a status; None: it records nothing."""
    coming = iter(runs)

    def ran(command: Sequence[str]) -> int:
        task = task_of(command)
        assert task == msgspec.structs.replace(TASK, output=task.output)
        step_ms, status = next(coming)
        if step_ms is not None:
            own, child = Path(task.output), Path(task.output).with_name("out.child0.json")
            recording(own, step_ms)
            recording(child, 10 * step_ms)
            outcome = ScriptRun(own, None, "step()", stopped=True, exit_status=status)
            outcome = replace(outcome, children=(ChildRun(child, None, None, "step()", stopped=True, why=None),))
            task.outcome.write_bytes(msgspec.json.encode(outcome, enc_hook=str))
        return status

    monkeypatch.setattr(repetition, "exit_status", ran)


def steps_in(path: Path) -> list[float]:
    """Return the steps of all runs that a trace names, in ms."""
    log = sections_of(path)[RUN_KEY]
    assert isinstance(log, dict)
    return [step_ns / MS for step_ns in log["runs_ns"]]


def repeat(folder: Path, times: int) -> tuple[RepeatedRecording, list[str]]:
    messages: list[str] = []
    task = msgspec.structs.replace(TASK, output=str(folder / "out.json"))
    return record_repeatedly(task, times, messages.append), messages


def test_the_run_in_the_middle_is_kept_with_the_steps_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program_of(monkeypatch, (3.0, 0), (5.0, 0), (4.0, 0))
    result, messages = repeat(tmp_path, 3)
    assert messages == ["Run 1 of 3", "Run 2 of 3", "Run 3 of 3"]
    assert (result.status, result.runs and result.runs.step_ns) == (0, (3 * MS, 5 * MS, 4 * MS))
    assert result.run is not None
    child = tmp_path / "out.child0.json"
    assert (result.run.path, result.run.children[0].path) == (tmp_path / "out.json", child)
    assert (steps_in(tmp_path / "out.json"), steps_in(child)) == ([3, 5, 4], [30, 50, 40])
    log = sections_of(tmp_path / "out.json")[RUN_KEY]
    assert isinstance(log, dict)
    assert log["step_ns"][0] == 4 * MS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.child0.json", "out.json"]


def test_a_run_that_fails_is_the_last_and_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program_of(monkeypatch, (3.0, 0), (9.0, 7))
    result, messages = repeat(tmp_path, 3)
    assert messages[1:] == ["Run 2 of 3", "Run 2 of 3 ended with exit status 7, and does not count"]
    assert (result.status, result.runs) == (7, None)
    assert steps_in(tmp_path / "out.json") == []


def test_of_a_program_that_leaves_at_once_there_is_its_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ran(command: Sequence[str]) -> int:
        recording(Path(task_of(command).output), 4.0)
        return 0

    monkeypatch.setattr(repetition, "exit_status", ran)
    result, _ = repeat(tmp_path, 2)
    assert result.status == 0
    assert steps_in(tmp_path / "out.json") == [4, 4]


@pytest.mark.parametrize(("step_ms", "is_kept"), [(3.0, True), (None, False)])
def test_of_a_first_run_that_fails_there_is_what_it_recorded(
    step_ms: float | None, is_kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program_of(monkeypatch, (step_ms, 7))
    result, messages = repeat(tmp_path, 2)
    assert messages == ["Run 1 of 2"]
    assert (result.run is not None, result.status) == (is_kept, 7)
    assert (tmp_path / "out.json").exists() == is_kept


IF_IT_RAN = "import os, signal, sys, time\nif os.path.exists('ran'):\n    {ends}\nopen('ran', 'w').close()\n"
FEW_STEPS = ("--warmup", "2")


@pytest.mark.slow
def test_runs_are_recorded_in_fresh_processes_and_the_stored_trace_tells_of_them(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN + "train(2000)\n")
    done = forked(COMMAND, ["run", "--repeat", "3", *FEW_STEPS, "train.py"], tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "in other runs); no GPU work was recorded" in done.stdout
    assert "Run 3 of 3\n" in done.stderr
    assert " with 95 % confidence\n" in done.stderr
    document = json.loads(invoke("report", tmp_path / "pinprof-train.json.gz", "--json", "-").stdout)
    steps = document["traces"][0]["steps"]
    runs = steps["runs"]
    assert len(runs["step_ms"]) == 3
    assert steps["regular"]["step_ms"] == sorted(runs["step_ms"])[1]
    assert runs["range_ms"][0] < steps["regular"]["step_ms"] < runs["range_ms"][1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ends", "status"), [("sys.exit('it ran before')", 1), ("os.killpg(0, signal.SIGINT); time.sleep(60)", 130)]
)
def test_after_a_failure_or_ctrl_c_in_the_second_run_there_is_the_report_of_the_first(
    ends: str, status: int, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(IF_IT_RAN.format(ends=ends) + TRAIN + "train(2000)\n")
    python = sys.executable if status == 130 else warm_python()  # a fork has left the group that Ctrl-C ends
    command = [python, "-m", "pinprof", "run", "--repeat", "3", *FEW_STEPS, "train.py"]
    where = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=where, start_new_session=True, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    assert f"Run 2 of 3 ended with exit status {status}, and does not count" in done.stderr
    assert "Run 3 of 3" not in done.stderr
    assert re.search(r"per step( \(.* in this run\))?; no GPU work\s+was recorded", done.stdout)
    assert (tmp_path / "pinprof-train.html").exists()


def test_a_rank_of_a_launcher_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    result = invoke("run", "--repeat", "2", "-o", f"{tmp_path}/", tmp_path / "train.py")
    assert result.exit_code == 2
    assert "let pinprof start it: pinprof run --repeat N -m torch" in result.stderr
