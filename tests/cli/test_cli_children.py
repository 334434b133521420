"""Whom `pinprof run` reports on where the script has started other processes, and how it names their traces."""

from dataclasses import replace
from pathlib import Path

import pytest

from pinprof.capture.children.notes import ChildRun
from pinprof.capture.script import ScriptRun
from pinprof.cli.run_report import only_children_train
from pinprof.ground.outputs import shortest

OWN = ScriptRun(Path("own.json"), None, "batch", stopped=False, exit_status=0)
CHILD = ChildRun(Path("child0.json"), None, None, "optimizer step (SGD)", stopped=True, why=None)


@pytest.mark.parametrize(
    ("own_trains", "own_path", "child", "expected"),
    [
        (False, Path("own.json"), CHILD, True),
        (True, Path("own.json"), CHILD, False),
        (False, None, CHILD, True),
        (False, Path("own.json"), replace(CHILD, path=None), False),
        (False, Path("own.json"), replace(CHILD, trains=False), False),
    ],
)
def test_children_that_train_go_before_a_script_that_does_not(
    own_trains: bool, own_path: Path | None, child: ChildRun, expected: bool
) -> None:
    outcome = replace(OWN, path=own_path, trains=own_trains, children=(child,))
    assert only_children_train(outcome) == expected


def test_a_file_is_named_as_shortly_as_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert shortest(deep / "out.json") == "out.json"
    assert shortest(tmp_path / "a" / "b" / "out.json") == "../out.json"
    assert shortest("/o/out.json") == "/o/out.json"
    deep.rmdir()  # the working directory
    assert shortest("/o/out.json") == "/o/out.json"
