"""Programs are recorded in processes of their own, next to the truth."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pinprof.trace import read_trace
from scripts.record import KINDS, steps_in_words
from scripts.recordings import FailedError, in_processes, of_windows

ROOT = Path(__file__).parents[1]
of_forks = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def fail() -> None:
    raise ValueError("no\nnetwork")


@of_forks
def test_processes_run_at_once_and_return_in_order() -> None:
    assert in_processes([lambda: [1.0, 2.0], os.getppid], 60.0) == [[1.0, 2.0], os.getpid()]


@of_forks
@pytest.mark.parametrize(
    ("call", "seconds", "why"),
    [
        (fail, 60.0, "^ValueError: no$"),
        (lambda: os._exit(3), 60.0, "^exit status 3$"),
        (lambda: time.sleep(60), 0.2, "^not done in time$"),
    ],
    ids=["raises", "ends", "sleeps"],
)
def test_a_process_without_a_result_says_why(call: Callable[[], object], seconds: float, why: str) -> None:
    with pytest.raises(FailedError, match=why):
        in_processes([call], seconds)


def test_each_kind_has_programs_of_different_names() -> None:
    assert all(row.names and len(set(row.names)) == len(row.names) for row in KINDS.values())


def test_steps_are_told_before_and_after_or_alone() -> None:
    one = of_windows([2.0, 1.0, 3.0])
    assert one == {"median": 2.0, "min": 1.0, "max": 3.0, "windows": [2.0, 1.0, 3.0]}
    assert steps_in_words(one) == "2.000 (1.000 to 3.000)"
    assert steps_in_words({"before_ms": one, "after_ms": one}) == "2.000 (1.000 to 3.000) -> 2.000 (1.000 to 3.000)"
    assert steps_in_words(None) == "-"  # a step that compiles is not timed


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
