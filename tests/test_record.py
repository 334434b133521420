"""Programs are recorded in processes of their own, next to the truth."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pinprof.trace import read_trace
from scripts.recordings import in_processes

ROOT = Path(__file__).parents[1]
of_forks = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@of_forks
def test_processes_run_at_once_and_return_in_order() -> None:
    assert in_processes([lambda: [1.0, 2.0], os.getppid], 60.0) == [[1.0, 2.0], os.getpid()]


@pytest.mark.slow
def test_both_sides_of_a_pair_are_timed_and_recorded(tmp_path: Path) -> None:
    words = ["pairs", str(tmp_path), "--only", "pin_only", "--device", "cpu", "--scale", "0.02"]
    subprocess.run([sys.executable, "-m", "scripts.record", *words], cwd=ROOT, check=True, capture_output=True)
    noted = json.loads((tmp_path / "pairs.json").read_text())
    assert noted["command"].endswith(f"scripts/record.py pairs {tmp_path.name} {' '.join(words[2:])}")
    assert noted["pairs"]["pin_only"]["scenario"] == {"pin": True}
    for side in ("before", "after"):
        assert len(noted["pairs"]["pin_only"][f"{side}_ms"]["windows"]) == 5
        assert len(read_trace(tmp_path / f"pin_only.{side}.json.gz").steps) == 6
