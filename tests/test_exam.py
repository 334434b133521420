from pathlib import Path
from typing import Any

import pytest

from scripts.examination.processes import Hook, Place, run, run_hooked
from scripts.examination.program import Program
from scripts.examination.verdict import truth_of_run


@pytest.mark.slow
def test_a_program_is_ended_when_its_time_is_up_with_all_that_it_started(tmp_path: Path) -> None:
    place = Place(Program("sleeper", "", ("sleeper.py",)), tmp_path)
    (tmp_path / "sleeper.py").write_text(
        "import subprocess, sys\nprint('started', flush=True)\nsubprocess.run([sys.executable, '-c', 'input()'])\n"
        "import time; time.sleep(60)"
    )
    ended = run(place, place.command(), {}, 1.0, tmp_path / "log")
    assert ended.status is None
    assert "started" in ended.tail


WEIGHT = "import torch\nweight = torch.zeros(1, requires_grad=True)\noptimizer = torch.optim.SGD([weight])\n"


def note(folder: Path, code: str, mode: str, marker: str, calls: int = 1) -> Any:
    """Run a script of these lines until 8 steps are noted, `calls` of the marker each, and return the note."""
    place = Place(Program("script", "", ("script.py",), marker=marker, calls_per_step=calls), folder)
    (folder / "script.py").write_text(WEIGHT + code)
    ended, stamps = run_hooked(place, Hook(mode, 8, 0.0, 30.0), folder / "noted", 60.0)
    assert ended.status == 0, ended.tail
    return stamps


@pytest.mark.slow
def test_hooks_note_the_ends_of_steps_and_end_the_program(tmp_path: Path) -> None:
    code = "while True:\n    weight.sum().backward()\n    optimizer.step()\n"
    assert truth_of_run(note(tmp_path, code, "truth", "optimizer", 2))["steps"] == 6  # nine ends; two are skipped
