"""A short run of the fuzzer; `python tests/fuzz_reader.py -max_total_time=3600` is a long one."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNS = 100


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11) or sys.platform != "linux", reason="atheris has no wheels for it")
def test_mutated_traces_are_reported_on_or_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "fuzz_reader.py"), f"-runs={RUNS}", "-print_final_stats=1"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    runs = next(line for line in done.stderr.splitlines() if "number_of_executed_units" in line)
    assert int(runs.split(":")[-1]) >= RUNS
