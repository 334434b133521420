"""Runs scripts in processes of their own that need not load torch: forks of one that has.

The process that forks is the state of `python -c DRIVER` after its imports: it has run nothing and started no thread.
"""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

ROOT = Path(__file__).parents[1]
COMMAND = "from pinprof.cli import main; main(prog_name='pinprof')"
"""What a fork runs to be the command pinprof."""
FORKING = """
import json, os, signal, sys
import torch._dynamo  # the first optimizer would load it
from pinprof.capture.script import run_script

signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
while True:
    request = sys.stdin.readline()
    if not request:
        sys.exit()
    child = os.fork()
    if child == 0:
        break
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

asked = json.loads(request)
os.chdir(asked["folder"])
for number, path in enumerate((os.devnull, asked["out"], asked["err"])):
    os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
sys.argv[1:] = asked["words"]
exec(asked["source"])
"""


class ForkedDriver:
    """A process that has loaded torch and pinprof, and forks to run what it is asked to."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", FORKING],
            env={"PYTHONPATH": str(ROOT), "PATH": "", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def run(self, source: str, words: Sequence[str], folder: Path, timeout: float) -> subprocess.CompletedProcess[str]:
        """Run this source with these words in a folder, and return how it ended and what it wrote."""
        assert self._process.stdin
        assert self._process.stdout
        with TemporaryDirectory() as temporary:
            out, err = Path(temporary) / "out", Path(temporary) / "err"
            asked = {"source": source, "words": words, "folder": str(folder), "out": str(out), "err": str(err)}
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            child = _number(self._process.stdout, 60)
            try:
                status = _number(self._process.stdout, timeout)
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                _number(self._process.stdout, timeout)
                raise
            return subprocess.CompletedProcess(words, status, out.read_text(), err.read_text())

    def end(self) -> None:
        """End the process that forks."""
        self._process.communicate()


@cache
def forked_driver() -> ForkedDriver:
    """Return the one process that forks for all tests of this process."""
    started = ForkedDriver()
    atexit.register(started.end)
    return started


def _number(stream: IO[bytes], timeout: float) -> int:
    if not select.select([stream], [], [], timeout)[0]:
        raise TimeoutError
    return int(stream.readline())
