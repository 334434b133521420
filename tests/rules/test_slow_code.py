"""PIN603 names the slow line of programs in which one was put: 24 places, recorded with stacks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from as_gpu_trace import as_gpu_trace
from slow_code import PROGRAMS, Program

from pinprof.analysis import analyse
from pinprof.rules.rule import Finding
from pinprof.trace import read_trace

ROOT = Path(__file__).parents[2]
ENOUGH = 0.9
"""Of the programs in which the line has to be named: on a busy machine, others may take a thread's CPU for longer."""


def python_code(folder: Path) -> Finding | None:
    """Return the finding of a program's recording, as that of a GPU."""
    document = as_gpu_trace(json.loads((folder / "trace.json").read_text()))
    (folder / "gpu.json").write_text(json.dumps(document))
    findings = analyse(read_trace(folder / "gpu.json")).findings
    return next((finding for finding in findings if finding.rule.id == "PIN603"), None)


def is_right(program: Program, folder: Path, finding: Finding) -> bool:
    """Return whether a finding is in the function of the slow line, and at it as far as it names a line."""
    at = finding.evidence
    if at.file is None or at.function is None or at.function.rpartition(".")[2] != program.function:
        return False
    lines = (folder / at.file).read_text().split("\n")
    return (at.line is None or "# slow" in lines[at.line - 1]) and program.library in at.text


@pytest.mark.slow
def test_the_slow_line_of_a_program_is_named(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tests" / "slow_code.py"), str(tmp_path)]
    subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, check=True)
    findings = {name: python_code(tmp_path / name) for name in PROGRAMS}
    placed = {name: finding for name, finding in findings.items() if finding and finding.evidence.file}
    right = [name for name, finding in placed.items() if is_right(PROGRAMS[name], tmp_path / name, finding)]
    missed = {name: finding and finding.evidence.text for name, finding in findings.items() if name not in right}
    assert len(placed) >= ENOUGH * len(PROGRAMS), missed
    assert len(right) >= ENOUGH * len(PROGRAMS), missed
