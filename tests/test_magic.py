"""`%%pinprof`: a cell runs as it stands, and its steps are reported on."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pinprof.ground.errors import CaptureError
from pinprof.magic import report_of_cell

pytestmark = pytest.mark.slow

CELL = """
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for number in range({steps}):
    optimizer.zero_grad()
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
"""
SHELL = f"""
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
shell.run_line_magic("load_ext", "pinprof")
report = shell.run_cell_magic("pinprof", "", {CELL.format(steps=8000)!r})
print(shell.user_ns["number"], len(report.analysis.trace.steps), report.profile.path, report.step_ms > 0)
"""


def test_a_cell_of_ipython_is_reported_on_and_leaves_its_names(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[1]), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", SHELL], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.splitlines()[-1] == "7999 5 cell True", done.stderr


def run(cell: str, path: str = "") -> Any:
    names: dict[str, Any] = {}
    return report_of_cell(compile(cell, "cell", "exec"), names, path), names


def test_a_cell_with_too_few_steps_says_so() -> None:
    with pytest.raises(CaptureError, match="profile_step"):
        run("number = 1")
