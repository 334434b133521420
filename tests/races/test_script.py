import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from command_line import invoke
from fake_gpu import FakeGpu
from forked_driver import COMMAND, forked

from pinprof.races.guard import Guard, run_guarded

pytestmark = pytest.mark.slow  # each test is a process of its own

NOTHING = (
    "There was no asynchronous copy between pinned memory and a GPU to follow."
    if torch.cuda.is_available()
    else "torch sees no GPU, so there was no copy to follow."
)
RACE = """
import sys
import torch

def step(x):
    x.to("meta", non_blocking=True)
    x.zero_()

step(torch.ones(4))
print("finished", sys.argv[1:])
sys.exit(int(sys.argv[1]))
"""


def test_a_script_runs_to_its_end_and_its_races_are_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "race.py"
    script.write_text(RACE)
    guard = Guard("collect", gpu=FakeGpu())
    assert run_guarded(script, ["3", "--lr"], guard) == 3
    assert capsys.readouterr().out == "finished ['3', '--lr']\n"
    (violation,) = guard.violations
    assert (violation.copy.line, violation.access.line, violation.access.function) == (6, 7, "step")
    assert violation.access.file.endswith("race.py")
    assert not any("pinprof" in frame for frame in violation.access.stack)
    assert "x.zero_()" in str(guard)


def test_each_race_is_told_once_when_it_happens(tmp_path: Path) -> None:
    script, headlines = tmp_path / "race.py", list[str]()
    script.write_text(RACE.replace("step(torch.ones(4))", "for _ in range(3):\n    step(torch.ones(4))"))
    guard = Guard("collect", gpu=FakeGpu(), on_found=lambda violation: headlines.append(violation.headline))
    assert run_guarded(script, ["0"], guard) == 0
    path = guard.violations[0].access.file
    assert headlines == [
        f"PIN503: aten::zero_ writes at {path}:7 in step; nothing had waited for the copy at {path}:6 in step"
    ]


def test_a_script_that_fails_shows_its_own_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "fails.py"
    script.write_text("import torch\n\n1 / 0\n")
    assert run_guarded(script, [], Guard("collect", gpu=FakeGpu())) == 1
    shown = capsys.readouterr().err
    assert "ZeroDivisionError" in shown
    assert "pinprof" not in shown


def pinprof(*words: str, cwd: Path, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    source = f"import os; os.environ.update({dict(environment or {})!r}); {COMMAND}"
    return forked(source, ["run", *words], cwd, timeout=120)


def test_the_command_prints_the_report_and_exits_as_the_script_does(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys, torch\ntorch.ones(3).sum()\nsys.exit(int(sys.argv[1]))\n")
    done = pinprof("--guard", "train.py", "3", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout == f"{NOTHING}\n"
    assert done.stderr == "The script failed with exit status 3.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--guard", "nothing.py"], "nothing.py: no such script"),
        (["--guard", "--steps", "3", "train.py"], "--guard records nothing, so --steps does not apply"),
        (["--guard", "-o", "x.json", "train.py"], "--guard records nothing, so --output does not apply"),
    ],
)
def test_wrong_usage_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], error: str) -> None:
    monkeypatch.chdir(tmp_path)
    done = invoke("run", *words)
    assert (done.exit_code, done.stderr) == (2, f"Error: {error}\n")
