"""How many turns the loops around a step have left: programs of a few lines that ask at one of their turns."""

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import indent
from types import SimpleNamespace
from typing import Any

import pytest

from pinprof.capture.observe.counted_loops import CountedLoops, turns_left


def asked(folder: Path, code: str, ask: Callable[[], object], **names: Any) -> None:
    """Run a program that calls `ask()`."""
    path = folder / "program.py"
    path.write_text(code)
    exec(compile(code, str(path), "exec"), {"ask": ask, **names})


def left_at_third(folder: Path, loop: str, **names: Any) -> int | None:
    """Return the turns that are left in the third turn of a loop, or of several, one in the other."""
    body = "ask()"
    for line in reversed(loop.split("; ")):
        body = f"{line}:\n{indent(body, '    ')}"
    seen: list[int | None] = []
    asked(folder, f"{body}\n", lambda: seen.append(turns_left(sys._getframe(1))), **names)
    return seen[2]


class Loud:
    """Fails where any of its code runs."""

    def __len__(self) -> int:
        raise AssertionError

    def __iter__(self) -> Any:
        return iter(range(10))

    @property
    def steps(self) -> int:
        raise AssertionError


ARGS = SimpleNamespace(steps=10, epochs=2, nested=SimpleNamespace(steps=10))


@pytest.mark.parametrize(
    ("loop", "left"),
    [
        ("for step in range(10)", 7),
        ("for step in range(5, 25, 2)", 7),
        ("for step in range(10, 0, -1)", None),
        ("for step in range(args.steps)", 7),
        ("for step in range(args.nested.steps)", 7),
        ("for step in range(args.steps * args.epochs)", 17),
        ("for step in range(len(batches))", 7),
        ("for step, batch in enumerate(batches)", 7),
        ("for step, batch in zip(range(10), loud)", 7),
        ("for step in tqdm(range(10))", 7),
        ("for step, batch in tqdm(enumerate(batches))", 7),
        ("for epoch in range(2); for step in range(10)", 17),
        ("for epoch in range(4); for step in range(2)", 5),
        ("for step in loud", None),
        ("for step, batch in enumerate(loud)", None),
        ("for epoch in loud; for step in range(10)", None),
        ("for step in batches", None),
        ("for step in range(int('10'))", None),
        ("for step in range(10, 9)[:0] or batches", None),
    ],
)
def test_the_turns_of_counted_loops_are_counted(tmp_path: Path, loop: str, left: int | None) -> None:
    names = {"args": ARGS, "batches": [1] * 10, "loud": Loud(), "tqdm": lambda turns: turns}
    assert left_at_third(tmp_path, loop, **names) == left


@pytest.mark.parametrize(
    ("head", "left"),
    [
        ("while step < 10", [9, 8, 7]),
        ("while step <= end", [10, 9, 8]),
        ("while True", [None] * 3),
        ("while step < int('10')", [None] * 3),
        ("for epoch in range(1):\n  while step < 10", [9, 8, 7]),
        ("for epoch in range(2):\n  while step < 10", [None] * 3),  # how often it turns again nobody knows
    ],
)
def test_a_loop_until_a_number_counts(tmp_path: Path, head: str, left: list[int | None]) -> None:
    seen: list[int | None] = []
    code = f"step = 0\n{head}:\n    ask()\n    step += 1\n    if step > 2: raise StopIteration\n"
    with pytest.raises(StopIteration):
        asked(tmp_path, code, lambda: seen.append(turns_left(sys._getframe(1))), end=10, loud=Loud())
    assert seen == left


def test_the_loops_of_all_functions_around_count(tmp_path: Path) -> None:
    code = (
        "def epoch(number):\n    for step in range(5):\n        ask()\n"
        "for number in range(3):\n    def train():\n        epoch(number)\n    train()\n"
    )
    seen: list[int | None] = []
    asked(tmp_path, code, lambda: seen.append(turns_left(sys._getframe(1))))
    assert seen == list(range(14, -1, -1))


def test_outside_of_loops_nothing_is_known(tmp_path: Path) -> None:
    seen: list[int | None] = []
    asked(tmp_path, "ask()\n", lambda: seen.append(turns_left(sys._getframe(1))))
    assert seen == [None]


@pytest.mark.parametrize(
    ("per_turn", "left"),
    [(1, [None, 8, 7, 6]), (5, [None, 40, 35, 30])],  # a turn is an epoch of five steps
)
def test_steps_are_counted_by_those_of_the_turns_before(tmp_path: Path, per_turn: int, left: list[int | None]) -> None:
    loops, seen, steps = CountedLoops(), [], iter(range(0, 100, per_turn))
    asked(tmp_path, "for step in range(10):\n    ask()\n", lambda: seen.append(loops.steps_left(next(steps))))
    assert seen[:4] == left


def test_until_a_turn_has_ended_nothing_is_known(tmp_path: Path) -> None:
    loops, seen = CountedLoops(), []
    code = "for epoch in range(3):\n    ask()\n    ask()\n"
    steps = iter(range(100))
    asked(tmp_path, code, lambda: seen.append(loops.steps_left(next(steps))))
    assert seen == [None, None, 2, 3, 0, 0]
