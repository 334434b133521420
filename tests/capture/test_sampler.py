"""The sampler, in a process of its own: the cases use the alarm signal, which the worker of pytest may use itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).with_name("sampler_cases.py")


@pytest.mark.slow
@pytest.mark.parametrize("chosen", ["not gpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_the_cases_pass(chosen: str) -> None:
    command = (sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", chosen, str(CASES))
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_XDIST_WORKER"}  # it is not a worker
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
