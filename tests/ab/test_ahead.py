"""Pairs whose processes start at once: how many there may be, and that they are measured like others."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pinprof.ab import Bounds, Program, Wishes, contest
from pinprof.ab.ahead import of_known_steps, one_turn_each, pairs_at_once
from pinprof.ab.measuring import Plan
from pinprof.ab.times import Timed
from pinprof.errors import MeasureError

GIB = 2**30
FIRST = Timed((np.array([2e6] * 200),), 10, "optimizer", "H200", (), 1, 0, 0.01)
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
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    monkeypatch.setattr("pinprof.ab.ahead._free_bytes", lambda: 2000 * GIB)


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
def test_as_many_start_as_have_room(machine: None, first: Timed, pairs: int) -> None:
    assert pairs_at_once(8, [FIRST, first]) == pairs
    assert pairs_at_once(0, [FIRST, first]) == 0


def test_a_plan_asks_for_no_more_steps_than_are_known() -> None:
    plan = Plan.of([FIRST, FIRST], 3.0, 5.0)
    assert plan.turns * (plan.turn_steps + plan.settling) > plan.steps
    less = of_known_steps(plan)
    assert (less.turns, less.turn_steps) == (8, plan.turn_steps)
    alone = one_turn_each(plan, children=4)
    assert (alone.turns, alone.turn_steps, alone.settling) == (1, 200, 9)


@pytest.mark.usefixtures("warm")
def test_pairs_ahead_tell_which_is_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinprof.ab.versions.pairs_at_once", lambda *_: 2)
    (tmp_path / "train.py").write_text(PROGRAM)
    slow, fast = (Program(name, ("train.py", name), tmp_path) for name in ("0.004", "0.001"))
    made = contest((slow, fast), Wishes(Bounds(0.02, 200.0, 0.6), 0.2, "steps", (), 2))
    assert len(made.duel.pairs) >= 2
    assert all(pair.usual.value < -0.3 for pair in made.duel.pairs)
    assert made.duel.judgement.verdict == "faster"


def test_a_program_that_fails_is_told_also_ahead(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise ValueError('no data')")
    one, other = (Program(name, ("train.py", name), tmp_path) for name in "ab")
    with pytest.raises(MeasureError, match="no data"):
        contest((one, other), Wishes(Bounds(0.02, 30.0), 0.2, "auto", (), 2))
