"""Runs and pairs: what is read from the files of a run, and how processes end."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from math import log
from pathlib import Path

import msgspec
import numpy as np
import pytest

from pinprof.ab.measure import Wishes, measure_versions
from pinprof.ab.plan import Plan
from pinprof.ab.sequential_test import Bounds
from pinprof.ab.times import Difference, OtherStepsError, Pair, TimedProcess, read_times, refuse_other_steps
from pinprof.ab.worker import ProgramVersion, Record, StepOptions, WorkerConfig
from pinprof.capture.options import RecordingOptions
from pinprof.errors import MeasureError
from pinprof.processes import running
from pinprof.trace.run_log import CHECKPOINT, EVALUATION, PLAIN, SETTLING, IrregularWork, RunLog


def run_log(
    windows: list[tuple[str, int]], steps: list[int], *work: IrregularWork, gpu: list[int] | None = None
) -> RunLog:
    nothing = (0,) * len(steps)
    return RunLog(0, tuple(windows), tuple(steps), nothing, nothing, tuple(gpu or nothing), 0, work=work)


def write_times(path: Path, log: RunLog, **more: object) -> None:
    path.write_text(json.dumps({"pinprof_run": asdict(log), "pinprof": {"marker": "optimizer", "gpu": None}, **more}))


def timed(*turns: list[float], warmup: int = 10) -> TimedProcess:
    return TimedProcess(tuple(map(np.array, turns)), warmup, "optimizer", None, (), 1, 0, None)


# ---------------------------------------------------------------- what a run has written


def test_turns_are_read_without_the_steps_that_settle(tmp_path: Path) -> None:
    windows = [("warm-up", 2), (SETTLING, 1), (PLAIN, 3), (SETTLING, 1), (PLAIN, 3)]
    write_times(tmp_path / "times.json", run_log(windows, [90, 90, 50, 1, 2, 3, 50, 4, 5, 6]))
    read = read_times(tmp_path)
    assert [turn.tolist() for turn in read.turns] == [[1, 2, 3], [4, 5, 6]]
    assert (read.usual_ns, read.mean_ns, read.warmup) == (3.5, 3.5, 3)


AFTER_ONE = [("warm-up", 1), (PLAIN, 4)]


@pytest.mark.parametrize(
    ("log", "more", "steps"),
    [  # the time of other programs on the CPU does not count, and that of its own workers does
        (run_log(AFTER_ONE, [9, 10, 30, 10, 10], gpu=[0, 0, 0, 0, 7]), {"delays_ns": [0, 20, 3, 3]}, [10, 10, 7, 7]),
        (run_log(AFTER_ONE, [9, 10, 30, 8, 8]), {"delays_ns": [0, 20], "children": 2}, [10, 30, 8, 8]),
        # steps with other work do not count, unless most have it
        (
            run_log([(PLAIN, 6)], [1, 90, 1, 1, 80, 1], IrregularWork(1, EVALUATION), IrregularWork(4, CHECKPOINT)),
            {},
            [1, 1, 1, 1],
        ),
        (run_log([(PLAIN, 3)], [7, 8, 9], *(IrregularWork(at, EVALUATION) for at in range(3))), {}, [7, 8, 9]),
        (run_log([(PLAIN, 3)], [1, 1, 1], gpu=[5, 0, 6]), {}, [5, 1, 6]),  # the times of the GPU come first
    ],
)
def test_the_steps_that_count_are_read(tmp_path: Path, log: RunLog, more: dict[str, object], steps: list[int]) -> None:
    write_times(tmp_path / "times.json", log, **more)
    assert read_times(tmp_path).steps.tolist() == steps
    works_ahead = any(log.gpu_ns)  # after a long step of a GPU comes a short one
    assert (read_times(tmp_path).by_clock == ()) == works_ahead


def test_the_time_by_the_clock_is_kept_beside(tmp_path: Path) -> None:
    write_times(tmp_path / "times.json", run_log([("warm-up", 1), (PLAIN, 2)], [9, 10, 30]), delays_ns=[0, 20])
    read = read_times(tmp_path)
    assert [turn.tolist() for turn in (*read.turns, *read.by_clock)] == [[10, 10], [10, 30]]


def test_the_slowest_rank_tells_the_step_of_a_job(tmp_path: Path) -> None:
    for rank, step in enumerate((5, 9)):
        write_times(tmp_path / f"times.rank{rank}.json", run_log([(PLAIN, 3)], [step] * 3), children=rank)
    read = read_times(tmp_path)
    assert (read.usual_ns, read.ranks, read.children) == (9, 2, 1)


def test_a_run_without_steps_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MeasureError, match="it made no steps"):
        read_times(tmp_path)


# ---------------------------------------------------------------- pairs and plans


def test_each_turn_is_compared_with_the_one_beside_it() -> None:
    """The machine becomes ten times as slow meanwhile; one turn is disturbed."""
    one, other = timed([10, 10, 99], [20, 20], [100, 100]), timed([11, 11, 11], [22, 22], [700, 700])
    assert Pair.of(0, [one, other]).usual.value == pytest.approx(log(1.1))


def test_steps_are_compared_with_their_like() -> None:
    """Each third step works ten times as long, in both versions."""
    one, other = timed([1, 2, 10], [1, 2, 10]), timed([1.1, 2.2, 11], [1.1, 2.2, 11])
    assert Pair.of(0, [one, other]).usual.value == pytest.approx(log(1.1))
    fewer = timed([1.1, 2.2, 11], [1.1, 2.2])
    assert Pair.of(0, [one, fewer]).usual.value == pytest.approx((log(1.1) + log(1.65 / 2)) / 2)


def test_steps_of_several_are_not_compared_with_steps_of_one() -> None:
    alone, adamw, every = (
        replace(timed([1, 1]), marker=marker)
        for marker in ("optimizer step (Adam)", "optimizer step (AdamW)", "every 2nd optimizer step (Adam)")
    )
    refuse_other_steps(("old", "new"), (alone, adamw))
    refuse_other_steps(("old", "new"), (every, every))
    with pytest.raises(MeasureError, match=r"of old is one optimizer .* of new one every 2nd .* --step-marker"):
        refuse_other_steps(("old", "new"), (alone, every))


def test_the_quickest_step_of_each_turn_counts_by_the_clock() -> None:
    one, other = (
        replace(timed([5, 9, 9], [5, 9, 9], [5, 9, 9]), by_clock=tuple(map(np.array, turns)))
        for turns in (([5.0, 50], [90, 5], [6, 70]), ([6.0, 9], [8, 6], [9, 9]))
    )
    pair = Pair.of(0, [one, other])
    assert pair.quickest is not None
    assert pair.quickest.value == pytest.approx(log(6 / 5))
    back = Pair.of(0, [other, one])
    assert back.quickest == Difference(-pair.quickest.value, pair.quickest.error)
    of_gpu = Pair.of(0, [timed([5.0, 50], [90, 5], [6, 70]), timed([6.0, 9], [8, 6], [9, 9])])
    assert of_gpu.quickest is not None
    assert of_gpu.quickest.value == pytest.approx(log(6 / 5))


def test_steps_that_wait_for_workers_are_compared_by_their_mean() -> None:
    """Two workers at 6 each: a batch at once, and one that takes all; less other work does not change their pace."""
    slow, quick = ([2.0, 4, 2, 4], [2.0, 4, 2, 4]), ([1.0, 5, 1, 5], [1.0, 5, 1, 5])
    one, other = (replace(timed(*turns), input_fraction=share) for turns, share in ((slow, 0.1), (quick, 0.4)))
    pair = Pair.of(0, [one, other])
    assert pair.by_mean
    assert (pair.usual.value, pair.quickest, pair.usual_ns) == (0, None, (3, 3))
    assert Pair.of(0, [replace(one, turns=one.turns[:1]), other]).usual.value == 0
    assert not Pair.of(0, [one, replace(other, input_fraction=0.1)]).by_mean


def test_runs_are_compared_by_their_usual_step_and_by_their_mean() -> None:
    pair = Pair.of(1, [timed([10, 10, 10, 10]), timed([10, 10, 10, 50])])
    assert (pair.usual.value, pair.mean.value) == (0, log(2))


def test_the_plan_gives_both_versions_the_same_steps() -> None:
    fast, slow = timed([1e6] * 300), timed([2e6] * 200, warmup=14)
    plan = Plan.of([fast, slow], 3.0, 5.0)
    assert (plan.warmup, plan.steps, plan.turn_steps, plan.settling, plan.turns) == (14, 300, 10, 1, 150)
    assert plan.start_together
    assert not Plan.of([replace(fast, gpu="H200"), slow], 3.0, 5.0).start_together


# ---------------------------------------------------------------- programs and processes


def test_programs_are_run_by_workers(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    task = Record(step_marker="auto", options=RecordingOptions())

    def last(*words: str) -> WorkerConfig:
        command = ProgramVersion("it", words, tmp_path).worker_command(task, tmp_path / "numbers.json")
        assert command[3] == "worker"
        return msgspec.json.decode(Path(command[4]).read_bytes(), type=WorkerConfig)

    output = str(tmp_path / "numbers.json")
    assert last("train.py", "--lr", "1") == WorkerConfig("train.py", ["--lr", "1"], False, task, output)
    assert last(sys.executable, "train.py") == WorkerConfig("train.py", [], False, task, output)
    assert last("-m", "package.train", "-x") == WorkerConfig("package.train", ["-x"], True, task, output)
    with pytest.raises(MeasureError, match=r"no script gone\.py"):
        last("gone.py")
    with pytest.raises(MeasureError, match="make: not a command of the Python that runs pinprof"):
        last("make")
    with pytest.raises(MeasureError, match="a program of -c cannot be measured; put it into a file"):
        last(sys.executable, "-c", "print(1)")


def test_a_command_that_cannot_run_is_told_before_the_other_version_runs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    messages: list[str] = []
    for words in (("gone.py",), ("make",)):
        programs = (ProgramVersion("good", ("train.py",), tmp_path), ProgramVersion("bad", words, tmp_path))
        with pytest.raises(MeasureError, match=r"bad: there is no script|make: not a command"):
            measure_versions(programs, Wishes(Bounds(seconds=1.0), seconds=0.1), say=messages.append)
    assert messages == []


def test_the_last_lines_are_those_that_say_something(tmp_path: Path) -> None:
    printed = "    return f(x)\\n           ~^^^\\n\\nValueError: no such thing ^^"
    with running([sys.executable, "-c", f'print("""{printed}""")'], tmp_path, {}) as process:
        assert process.wait(60) == 0
        assert process.last_lines() == "return f(x) | ValueError: no such thing ^^"


def test_a_process_ends_with_what_it_has_started(tmp_path: Path) -> None:
    child = (
        "import subprocess, sys, time; print(subprocess.Popen(['sleep', '60'], start_new_session=True).pid, flush=True)"
    )
    with running([sys.executable, "-c", f"{child}; time.sleep(60)"], tmp_path, {}) as process:
        end = time.monotonic() + 20
        while process.last_lines() == "it printed nothing" and time.monotonic() < end:
            time.sleep(0.01)
        grandchild = int(process.last_lines())
        assert process.wait(0.01) is None
    assert process.process.poll() is not None
    while state(grandchild) not in {"", "Z"}:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_stood_still_when_a_process_was_killed_goes_on(tmp_path: Path) -> None:
    child = (
        "import os, signal, subprocess; worker = subprocess.Popen(['sleep', '2']).pid; os.kill(worker, signal.SIGSTOP);"
        "print(worker, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    with running([sys.executable, "-c", child], tmp_path, {}) as process:
        assert process.wait(20) == -signal.SIGKILL
        worker = int(process.last_lines())
        assert state(worker) == "T"
    end = time.monotonic() + 20
    while state(worker) not in {"", "Z"}:
        assert time.monotonic() < end
        time.sleep(0.05)


def state(process: int) -> str:
    """Return the letter of the state of a process; empty where it is gone."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False)
    return listed.stdout.strip()[:1]


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        ("hello\\nError: no steps", "no steps"),  # pinprof's own
        (
            "Error: bad data\\nThe script failed with exit status 2.",
            "the program failed with exit status 2: Error: bad data",
        ),
        ("hello\\nno data", "the program failed with exit status 2: hello | no data"),
        ("", "the program failed with exit status 2: it printed nothing"),
    ],
)
def test_what_pinprof_refused_is_told_apart_from_a_program_that_failed(printed: str, why: str, tmp_path: Path) -> None:
    with running([sys.executable, "-c", f"print('{printed}')"], tmp_path, {}) as process:
        assert process.wait(30) == 0
        assert process.why_failed(2) == why


TRAIN = """
import os, sys, torch
if sys.argv[1] == "broken":
    raise RuntimeError("no such thing")
torch.set_num_threads(1)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    for _ in range(int(sys.argv[1])):
        torch.ones(200, 200) @ torch.ones(200, 200)
    optimizer.step()
"""


@pytest.mark.slow  # four processes that import torch
def test_two_versions_take_turns_and_the_slower_one_is_slower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    quick, slow = (ProgramVersion(name, ("train.py", name), tmp_path) for name in ("1", "30"))
    messages: list[str] = []
    made = measure_versions((quick, slow), Wishes(Bounds(seconds=1.0), seconds=0.1), say=messages.append)
    assert made.plan.takes_turns
    assert len(made.test.pairs) == 1
    assert made.test.judgement.ratio > 2
    assert all("not counted" in text for text in messages)
    assert made.first[0].imported == (str(tmp_path / "train.py"),)
    monkeypatch.setattr("pinprof.ab.measure.time_first", lambda *_: [made.first[0]])
    with pytest.raises(MeasureError, match=r"it imports .*train.py, which is not of this version"):
        measure_versions(
            (replace(quick, not_its_own=(f"{tmp_path}{os.sep}",)), slow), Wishes(Bounds(seconds=60), seconds=0.1)
        )


ROUNDS = "every 2nd optimizer step (Adam)"


@pytest.mark.parametrize(("unlike", "measured"), [((), 2), ((0,), 3), ((1,), 3), ((0, 1), 4), ((0, 1, 2), None)])
def test_a_pair_with_other_steps_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unlike: tuple[int, ...], measured: int | None
) -> None:
    """Two pairs are wanted; these measurements find steps that are not alike; a third in a row is the end."""
    made: list[int] = []

    def measure(_: object, first: int) -> Pair:
        made.append(first)
        if len(made) - 1 in unlike:
            raise OtherStepsError("a step of old is another one than of new")
        return Pair(first, (1e6, 1e6), (1e6, 1e6), Difference(0.0), Difference(0.0))

    (tmp_path / "train.py").write_text("")
    monkeypatch.setattr("pinprof.ab.measure.time_first", lambda *_: [timed([1e6] * 50)])
    monkeypatch.setattr("pinprof.ab.pairs.Pairs._measure", measure)
    monkeypatch.setattr("pinprof.ab.measure.run_test", lambda pair, *_, **__: [pair(0), pair(1)])
    programs = ProgramVersion("old", ("train.py",), tmp_path), ProgramVersion("new", ("train.py",), tmp_path)
    wishes = Wishes(Bounds(seconds=1.0), 0.1, "auto", StepOptions(), 1)
    if measured is None:
        with pytest.raises(MeasureError, match="another one"):
            measure_versions(programs, wishes)
    else:
        assert measure_versions(programs, wishes).plan.takes_turns
    assert len(made) == (measured or 3)


@pytest.mark.parametrize(
    ("most_turns", "turns", "why"), [(200, 150, ""), (13, 13, ""), (5, 1, "taking turns failed: it ended")]
)
def test_a_program_with_few_steps_takes_fewer_turns_and_with_too_few_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_turns: int, turns: int, why: str
) -> None:
    def take_turns(_: object, plan: Plan, first: int) -> Pair:
        if plan.turns > most_turns:
            raise MeasureError("it ended")
        return Pair(first, (1e6, 1e6), (1e6, 1e6), Difference(0.0), Difference(0.0))

    (tmp_path / "train.py").write_text("")
    monkeypatch.setattr("pinprof.ab.measure.time_first", lambda *_: [timed([1e6] * 300)])
    monkeypatch.setattr("pinprof.ab.pairs.Pairs._start", lambda pairs: pairs._ready.append([]))
    monkeypatch.setattr("pinprof.ab.pairs.take_turns", take_turns)
    monkeypatch.setattr("pinprof.ab.pairs.one_after_the_other", lambda *_: None)
    monkeypatch.setattr("pinprof.ab.measure.run_test", lambda pair, *_, **__: [pair(0), pair(1)])
    programs = ProgramVersion("old", ("train.py",), tmp_path), ProgramVersion("new", ("train.py",), tmp_path)
    made = measure_versions(programs, Wishes(Bounds(seconds=1.0), 3.0, "auto", StepOptions(), 1))
    assert (made.plan.takes_turns, made.plan.turns, made.plan.why_runs) == (not why, turns, why)


def test_first_runs_with_other_steps_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def first(programs: list[ProgramVersion], *_: object) -> list[TimedProcess]:
        (program,) = programs
        asked.append(program.name)
        return [replace(timed([1e6] * 50), marker=ROUNDS if program.name == "new" else "optimizer step (Adam)")]

    (tmp_path / "train.py").write_text("")
    monkeypatch.setattr("pinprof.ab.measure.time_first", first)
    programs = ProgramVersion("old", ("train.py",), tmp_path), ProgramVersion("new", ("train.py",), tmp_path)
    with pytest.raises(MeasureError, match=f"of new one {re.escape(ROUNDS)}"):
        measure_versions(programs, Wishes(Bounds(seconds=1.0), 0.1, "steps", StepOptions(), 1))
    assert asked == ["old", "new"] * 3


@pytest.mark.usefixtures("warm")
def test_a_failure_is_told_with_the_last_lines(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    good, broken = (ProgramVersion(name, ("train.py", name), tmp_path) for name in ("1", "broken"))
    with pytest.raises(MeasureError, match=r"broken: the program failed with exit status 1: .*no such thing"):
        measure_versions((broken, good), Wishes(Bounds(seconds=60.0), seconds=0.1))
