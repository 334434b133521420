"""How many turns the loops around a step have left: programs of a few lines that ask at one of their turns."""

import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from pinprof.capture.observe import counted_loops
from pinprof.capture.observe.counted_loops import CountedLoops, turns_left


@pytest.fixture(autouse=True)
def runs_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this file run the programs, as pinprof does: what is around it is not theirs."""
    monkeypatch.setattr(counted_loops, "is_pinprofs", lambda file: file == __file__)


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


class Number(int):
    """A number that says nothing."""

    def __sub__(self, other: object) -> Any:
        raise AssertionError


class Batches(list[int]):
    """A list whose length nobody may ask."""

    def __len__(self) -> int:
        raise AssertionError


class Loud:
    """Fails where any of its code runs."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)

    def __len__(self) -> int:
        raise AssertionError

    def __iter__(self) -> Any:
        return iter(range(10))


class LoudHolder:
    """Fails where its attributes are asked for as a whole."""

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise AssertionError


ARGS = Namespace(steps=10, epochs=2, nested=Namespace(steps=10))


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
        ("for step in range(number)", None),
        ("for step, batch in enumerate(subclass)", None),
        ("for step, batch in enumerate(batches, start=50)", None),
        ("for _ in range(10)", 7),
        ("for _ in range(2); for _ in range(10)", None),
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
    names |= {"number": Number(10), "subclass": Batches(range(10))}
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


@pytest.mark.parametrize("reads", [True, False])
def test_the_loops_of_all_functions_around_count_where_they_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: bool
) -> None:
    monkeypatch.setattr(counted_loops, "READS_FUNCTIONS", reads)
    code = (
        "def epoch(number):\n    for step in range(5):\n        ask()\n"
        "for number in range(3):\n    def train():\n        epoch(number)\n    train()\n"
    )
    seen: list[int | None] = []
    asked(tmp_path, code, lambda: seen.append(turns_left(sys._getframe(1))))
    assert seen == (list(range(14, -1, -1)) if reads else [None] * 15)


@pytest.mark.parametrize("holder", [Loud, LoudHolder, int])
def test_no_code_of_an_object_runs(holder: type) -> None:
    assert counted_loops._held(holder()) == {}


def test_a_number_that_is_too_large_is_none_of_ours(tmp_path: Path) -> None:
    loops, seen = CountedLoops(), []
    code = f"for step in range({10**20}):\n    ask()\n    if step == 2: raise StopIteration\n"
    with pytest.raises(StopIteration):
        asked(tmp_path, code, lambda: seen.append(loops.steps_left(len(seen))))
    assert seen == [None] * 3


@pytest.mark.parametrize("file", ["<string>", "/opt/lib/python3.12/site-packages/engine.py"])
def test_where_other_code_calls_the_programs_functions_nothing_is_known(tmp_path: Path, file: str) -> None:
    seen: list[int | None] = []
    call = compile("for epoch in range(100):\n    train()\n    break\n", file, "exec")
    code = "def train():\n    ask()\nfor step in range(3):\n    exec(call, {'train': train})\n"
    asked(tmp_path, code, lambda: seen.append(turns_left(sys._getframe(1))), call=call)
    assert seen == [None] * 3


def test_what_locals_returned_stays_as_it_is(tmp_path: Path) -> None:
    seen: list[int | None] = []
    code = (
        "def main(n=3):\n    settings = locals()\n    for step in range(n):\n        batch = [step]\n        ask()\n"
        "    return settings\nkept = main()\nassert sorted(kept) == ['n'], kept\n"
    )
    asked(tmp_path, code, lambda: seen.append(turns_left(sys._getframe(1))))
    assert len(seen) == 3


def test_of_a_loop_behind_another_its_own_turns_count(tmp_path: Path) -> None:
    loops, seen = CountedLoops(), []
    code = "for step in range(4):\n    ask()\nfor turn in range(40):\n    ask()\n"
    asked(tmp_path, code, lambda: seen.append(loops.steps_left(len(seen))))
    assert seen[:8] == [None, 2, 1, 0, None, 38, 37, 36]


def test_a_file_that_python_warns_of_is_not_parsed_again(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("text = '\\d'\n")
    assert counted_loops._loops(str(path)) is None


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
