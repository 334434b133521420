"""Runs scripts in processes of their own that need not load torch: forks of one that has."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from warm_python import ROOT, warm_python

COMMAND = "from pinprof.cli import main; main(prog_name='pinprof')"
"""What a fork runs to be the command pinprof."""


def forked(source: str, words: Sequence[str], folder: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run this source with these words in a folder, and return how it ended and what it wrote."""
    return subprocess.run(
        [warm_python(), "-W", "error", "-c", source, *words],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
