"""Whole training scripts, unmodified: what pinprof says of them against what they show without it."""

import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pinprof.analyses.syncs.sites import Site, measure_syncs
from pinprof.trace import read_trace

TESTS = Path(__file__).parents[1]
PROGRAMS = ("resnet", "gpt", "detection", "trainer", "lightning_module", "custom")

IN_LIBRARIES = ("detection",)
"""Programs that wait in functions of libraries which they call."""
UNSEEN = {"event_synchronize", "device_synchronize", "device_free", "device_malloc", "host_alloc", "pageable_copy"}
"""Causes of waits that torch's sync debug mode does not tell."""

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Give what pinprof says of a trace that torch.profiler wrote, with stacks, and the program's source."""

    @cache
    def record(program: str) -> list[Site]:
        folder = tmp_path_factory.mktemp(program)
        script = folder / f"{program}.py"
        shutil.copyfile(TESTS / "programs" / script.name, script)
        answer(str(folder / "trace.json.gz"), str(script), "4")
        trace = read_trace(folder / "trace.json.gz")
        return [site for site in measure_syncs(trace).sites if site.is_wait]

    return record


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_foreign_trace_tells_the_functions_that_wait_and_no_wrong_line(foreign: Any, program: str) -> None:
    script = str(TESTS / "programs" / f"{program}.py")
    expected = {(function, line) for function, line in answer("lines", script, "10")["lines"]}
    sites = [site for site in foreign(program) if (site.file or "").endswith(f"{program}.py")]
    functions = {site.function for site in sites}
    shown = {(function, line) for function, line in expected if function in functions}
    lines = {(site.function, site.line) for site in sites if site.line is not None}
    of_mode = {(site.function, site.line) for site in sites if site.line is not None and site.cause not in UNSEEN}
    print(  # noqa: T201
        f"{program}: functions of {len(shown)} of {len(expected)} waits, {len(lines)} lines; missing {expected - shown}"
    )
    assert len(shown) >= 0.97 * len(expected)
    assert of_mode <= expected


def test_a_clean_program_has_no_hidden_wait(foreign: Any) -> None:
    assert [site for site in foreign("clean") if site.verdict != "benign"] == []


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
    reported = {(function, int(line)) for line, function in users}
    print(f"{program}: {len(expected & reported)} of {len(expected)} lines; missing {sorted(expected - reported)}")  # noqa: T201
    assert len(expected & reported) >= 0.98 * len(expected)


@pytest.mark.parametrize("program", IN_LIBRARIES)
def test_the_library_functions_of_torchs_sync_debug_mode_are_in_the_report(recorded: Any, program: str) -> None:
    script = str(TESTS / "programs" / f"{program}.py")
    expected = {tuple(place) for place in answer("lines", script, "10")["libraries"]}
    sites = [site for site in recorded(program)["syncs"]["sites"] if site["library"] and site["verdict"] != "profiler"]
    reported = {(site["library"]["file"], site["library"]["line"], site["library"]["function"]) for site in sites}
    certain = {place for place in reported if place[1] is not None}
    functions = {(file, function) for file, _, function in reported}
    missing = sorted(place for place in expected if (place[0], place[2]) not in functions)
    print(f"{program}: {len(expected & certain)} of {len(expected)} lines in libraries; functions missing {missing}")  # noqa: T201
    assert expected
    assert missing == []
    callers = [site["path"][0] for site in sites if site["file"]]
    assert {Path(caller.rsplit(":", 2)[0]).name for caller in callers} == {f"{program}.py"}
    named = [site["library"] for site in sites if site["library"]["line"] and site["cause"] not in UNSEEN]
    assert {(place["file"], place["line"], place["function"]) for place in named} <= expected
