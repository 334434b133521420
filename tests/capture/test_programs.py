"""Whole training scripts, unmodified: what pinprof says of them against what they show without it."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
PROGRAMS = ("gan", "resnet", "gpt", "detection", "trainer", "lightning_module")

pytestmark = pytest.mark.gpu


def answer(*words: str) -> dict[str, Any]:
    """Return what the script shows by itself; it may print anything before."""
    done = subprocess.run(
        [sys.executable, str(TESTS / "independent.py"), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"step_ms"')]
    result: dict[str, Any] = json.loads(lines[-1])
    return result


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    @cache
    def record(program: str) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp(program)
        script = str(TESTS / "programs" / f"{program}.py")
        command = [sys.executable, "-m", "pinprof", "run", "-o", str(folder / "out.json.gz"), script]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        assert done.returncode == 0, done.stderr[-3000:]
        command = [sys.executable, "-m", "pinprof", "report", str(folder / "out.json.gz"), "--json", "-"]
        report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        result: dict[str, Any] = report["traces"][0]
        return result

    return record


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_stored_step_is_that_of_the_program_without_pinprof(recorded: Any, program: str) -> None:
    script = str(TESTS / "programs" / f"{program}.py")
    times = sorted(answer("time", script, "60")["step_ms"] for _ in range(3))
    step = recorded(program)["steps"]
    assert step["step_source"] == "measured"
    spread = max(times) - min(times)
    print(f"{program}: stored {step['step_ms']:.3f} ms, alone {times}, traced {step['traced_ms']:.3f} ms")  # noqa: T201
    assert min(times) - spread - 0.1 * times[1] <= step["step_ms"] <= max(times) + spread + 0.1 * times[1]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_lines_of_torchs_sync_debug_mode_are_in_the_report(recorded: Any, program: str) -> None:
    script = str(TESTS / "programs" / f"{program}.py")
    expected = {(function, line) for function, line in answer("lines", script, "10")["lines"]}
    sites = recorded(program)["syncs"]["sites"]
    users = {
        tuple(entry.rsplit(":", 2)[1:])
        for site in sites
        if site["line"]
        for entry in site["stack"]
        if f"{program}.py:" in entry
    }
    found = {(function, int(line)) for line, function in users}
    print(f"{program}: {len(expected & found)} of {len(expected)} lines; missing {sorted(expected - found)}")  # noqa: T201
    assert len(expected & found) >= 0.98 * len(expected)
