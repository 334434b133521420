"""Pairs whose processes start at once: how many there may be, and that they are measured like others."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pinprof.ab import Bounds, ProgramVersion, Wishes, measure_versions
from pinprof.ab.pairs import Run, take_turns
from pinprof.ab.plan import Plan, TurnMode, fewer_turns, in_one_turn, pairs_at_once, turns_with_workers
from pinprof.ab.times import Pair, TimedProcess, read_times
from pinprof.ab.worker import StepOptions
from pinprof.errors import MeasureError
from pinprof.report.ab.text import how_measured

GIB = 2**30
FIRST = TimedProcess((np.array([2e6] * 200),), 10, "optimizer", "H200", (), 1, 0, 0.01)
PROGRAM = """
import sys, time, torch
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(400):
    time.sleep(float(sys.argv[1]))
    net(torch.ones(2)).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinprof.ab.plan.available_cores", lambda: 16)
    monkeypatch.setattr("pinprof.ab.plan.machine_memory", lambda: (2000 * GIB, 2000 * GIB))


@pytest.mark.parametrize(
    ("first", "pairs"),
    [
        (FIRST, 8),
        (replace(FIRST, gpu_memory=0.1), 3),
        (replace(FIRST, gpu_memory=0.5), 0),
        (replace(FIRST, gpu_memory=0.1, gpu_free=0.4), 1),  # another program holds the rest
        (replace(FIRST, children=8), 3),
        (replace(FIRST, ranks=2), 0),
        (replace(FIRST, gpu=None, gpu_memory=None), 8),
    ],
)
def test_as_many_start_as_have_room(machine: None, first: TimedProcess, pairs: int) -> None:
    assert pairs_at_once(8, [FIRST, first]) == pairs
    assert pairs_at_once(0, [FIRST, first]) == 0


def test_a_plan_asks_for_no_more_steps_than_are_known() -> None:
    plan = Plan.of([FIRST, FIRST], 3.0, 5.0)
    assert plan.turns * (plan.turn_steps + plan.settling) > plan.steps
    less = fewer_turns(plan)
    assert (less.turns, less.turn_steps) == (18, plan.turn_steps)
    assert in_one_turn(plan, 0).turn_steps == 200 - plan.settling


@pytest.mark.parametrize(
    ("steps", "workers", "turns", "counted", "settling"),
    [
        (200, 1, 6, 30, 3),  # as many as there are steps for, an even number
        (200, 4, 4, 41, 9),
        (200, 8, 2, 83, 17),
        (200, 12, 2, 75, 25),  # three times as many count
        (200, 16, 1, 167, 33),  # too few for two turns
        (199, 12, 1, 174, 25),
        (100, 16, 1, 100, 33),  # too few for one; the program may have more
    ],
)
def test_a_program_with_workers_takes_as_many_turns_as_its_steps_allow(
    steps: int, workers: int, turns: int, counted: int, settling: int
) -> None:
    plan = replace(Plan.of([FIRST, FIRST], 3.0, 5.0), steps=steps)
    made = turns_with_workers(plan, workers)
    assert (made.turns, made.turn_steps, made.settling) == (turns, counted, settling)
    assert made.turns * (made.turn_steps + made.settling) <= steps or steps == 100
    asked = turns_with_workers(plan, workers, 2)
    assert asked.turns == max(turns, 2)
    assert asked.turn_steps >= 3 * settling or turns > 1


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_pairs_ahead_tell_which_is_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinprof.ab.measure.pairs_at_once", lambda *_: 2)
    (tmp_path / "train.py").write_text(PROGRAM)
    slow, fast = (ProgramVersion(name, ("train.py", name), tmp_path) for name in ("0.004", "0.001"))
    made = measure_versions((slow, fast), Wishes(Bounds(0.02, 200.0, 0.6), 0.2, "steps", StepOptions(), 2))
    assert len(made.test.pairs) >= 2
    assert all(pair.usual.value < -0.3 for pair in made.test.pairs)
    assert made.test.judgement.verdict == "faster"


@pytest.mark.usefixtures("warm")
def test_a_program_that_fails_is_told_also_ahead(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise ValueError('no data')")
    one, other = (ProgramVersion(name, ("train.py", name), tmp_path) for name in "ab")
    with pytest.raises(MeasureError, match="no data"):
        measure_versions((one, other), Wishes(Bounds(0.02, 30.0), 0.2, "auto", StepOptions(), 2))


WITH_WORKER = """
import sys, time, torch
class Made(torch.utils.data.Dataset):
    def __len__(self): return 400
    def __getitem__(self, index):
        time.sleep(0.04)
        return torch.ones(2)
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for x in torch.utils.data.DataLoader(Made(), batch_size=None, num_workers=1):
    time.sleep(float(sys.argv[1]))
    net(x).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[TimedProcess]:
    """Let two pairs start at once, and return what all processes have timed."""
    timed: list[TimedProcess] = []

    def take(runs: Sequence[Run], plan: Plan, first: int) -> Pair:
        pair = take_turns(runs, plan, first)
        timed.extend(read_times(run.folder) for run in runs)
        return pair

    monkeypatch.setattr("pinprof.ab.measure.pairs_at_once", lambda *_: 2)
    monkeypatch.setattr("pinprof.ab.pairs.take_turns", take)
    return timed


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_turns_beside_a_worker_go_at_its_pace(tmp_path: Path, started: list[TimedProcess]) -> None:
    """The worker makes a batch in 40 ms: if it went on in the other's turn, there were ten steps of 31 ms in each.

    Other programs make steps longer, in one version more than in the other.
    """
    (tmp_path / "train.py").write_text(WITH_WORKER)
    slow, fast = (ProgramVersion(name, ("train.py", name), tmp_path) for name in ("0.03", "0.001"))
    made = measure_versions((slow, fast), Wishes(Bounds(seconds=0.5), 2.0, "auto", StepOptions(), 2))
    assert (made.plan.takes_turns, made.plan.why_runs, made.plan.settling) == (True, "", 3)
    assert made.plan.turns in {2, 4}
    assert [len(run.turns) for run in started] == [made.plan.turns] * len(started)
    assert {len(turn) for run in started for turn in run.turns} == {made.plan.turn_steps}
    for pair in made.test.pairs:
        assert min(pair.usual_ns) > 37e6
        assert abs(pair.usual.value) < 0.2
    words = how_measured(made)
    whole = made.plan.turn_steps + 3
    assert f"in {made.plan.turns} turns of {whole} steps; the first 3 of each turn, whose batches the" in words


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(("wanted", "why"), [("runs", ""), ("auto", "--seconds has too few steps for turns with them")])
def test_a_program_with_workers_and_few_steps_makes_them_in_one_turn(
    tmp_path: Path, started: list[TimedProcess], wanted: TurnMode, why: str
) -> None:
    (tmp_path / "train.py").write_text(WITH_WORKER)
    one, other = (ProgramVersion(name, ("train.py", "0"), tmp_path) for name in "ab")
    made = measure_versions((one, other), Wishes(Bounds(seconds=0.5), 0.4 if why else 2.0, wanted, StepOptions(), 2))
    assert not made.plan.takes_turns
    assert made.plan.why_runs.endswith(why)
    assert [len(run.turns) for run in started] == [1] * len(started)
    assert started
    assert f"run after run, {made.plan.turn_steps} steps each" in how_measured(made)
