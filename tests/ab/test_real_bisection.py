"""A real search: `pinprof bisect` over a git history of a program that runs, whose last revision is slow."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from warm_python import warm_python

ROOT = Path(__file__).parents[2]
ASKED = "--case small_ops:python --units 50000 --revisions 3 --slow 1 --broken 2 --no-causes"
SHORT = "--seconds 0.02 --turn-ms 3 --limit-s 60"


@pytest.mark.slow  # some fifty processes of torch
def test_the_slow_revision_is_found_and_one_that_does_not_run_is_left_out(tmp_path: Path) -> None:
    command = [warm_python(), str(ROOT / "scripts" / "exam_ab.py"), "bisect", str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([*command, *ASKED.split(), *SHORT.split()], check=True, timeout=600, env=environment)
    noted = json.loads((tmp_path / "out" / "history-cpu-small_ops-python.json").read_text())
    assert noted["found"] == noted["slow"], noted
    assert len(noted["tried"]) == 3
    assert [said for _, said, pairs in noted["tried"] if pairs is None and "half done" in said]
