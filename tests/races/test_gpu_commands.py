"""`pinprof run --guard` and the fixture `pinprof_guard` on a GPU, each in a process of its own as users run them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

ROOT = Path(__file__).parents[2]
REFILL = """import torch


def test_refill(pinprof_guard=None):
    batch = torch.ones(1024, 1024, pin_memory=True)
    torch.cuda._sleep(100_000_000)
    on_gpu = batch.to("cuda", non_blocking=True)
    {wait}
    batch.zero_()
    return None if pinprof_guard else on_gpu.sum().item()


if __name__ == "__main__":
    print(test_refill())
"""
PLACES = ["at train.py:7 in test_refill", "at train.py:9 in test_refill"]


def shown(folder: Path, wait: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(REFILL.format(wait=wait))
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_script_with_a_race_is_told_with_both_lines(tmp_path: Path) -> None:
    done = shown(tmp_path, "pass", "pinprof", "run", "--guard", "train.py")
    assert done.returncode == 0, done.stderr
    assert "PIN503" in done.stdout
    assert done.stderr.startswith(
        "PIN503: aten::zero_ writes at train.py:9 in test_refill; nothing had waited for the copy"
    )
    assert all(place in done.stdout for place in PLACES), done.stdout


@pytest.mark.parametrize(("wait", "status"), [("pass", 1), ("torch.cuda.synchronize()", 0)])
def test_a_test_with_the_fixture_fails_by_its_race_alone(tmp_path: Path, wait: str, status: int) -> None:
    text = REFILL.replace("pinprof_guard=None", "pinprof_guard")
    (tmp_path / "test_train.py").write_text(text.format(wait=wait))
    done = shown(tmp_path, wait, "pytest", "-p", "pinprof.pytest_plugin", "-p", "no:cacheprovider", "test_train.py")
    assert done.returncode == status, done.stdout
    assert ("at test_train.py:9 in test_refill" in done.stdout) == bool(status), done.stdout
