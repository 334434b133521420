"""Standard streams after programs that do anything to them, each in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = """
import os, sys
from pinprof.ground.standard_streams import is_terminal, program_may_replace_streams, own_error

class Bare:  # as the logger of many a program, which has neither isatty nor fileno nor encoding
    def __init__(self, stream):
        self.stream = stream
    def write(self, text):
        self.stream.write(text)
    def flush(self):
        self.stream.flush()

with program_may_replace_streams():
    print("program")
    exec(sys.argv[1])
    own_error().write("of ours\\n")
    own_error().flush()
is_terminal(sys.stdout)
print("report")
sys.stderr.write("remark\\n")
"""
PROGRAMS = {
    "closes them": "sys.stdout.close(); sys.stderr.close()",
    "closes the descriptors": "sys.stdout.flush(); os.close(1); os.close(2)",
    "has none": "sys.stdout = sys.stderr = None",
    "removes them": "del sys.stdout, sys.stderr",
    "detaches them": "sys.stdout.detach(); sys.stderr.detach()",
    "replaces them": "sys.stdout, sys.stderr = Bare(sys.stdout), Bare(sys.stderr)",
    "replaces them by objects that can nothing": "sys.stdout = sys.stderr = object()",
    "redirects the descriptors": (
        "sys.stdout.flush(); f = os.open('own', os.O_WRONLY | os.O_CREAT); os.dup2(f, 1); os.dup2(f, 2)"
    ),
    "closes all others": "os.closerange(3, 4096)",
    "closes many": "os.closerange(3, 256); sys.stdout.close(); sys.stderr.close()",
    "wraps them": "import io; sys.stdout = io.TextIOWrapper(sys.stdout.buffer); sys.stdout.flush()",
}


def ran(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", DRIVER, program], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_what_is_ours_comes_where_the_streams_led_at_first(tmp_path: Path, program: str) -> None:
    done = ran(program, tmp_path)
    assert (done.stdout, done.stderr.startswith("of ours\nremark\n")) == ("program\nreport\n", True)
    own = tmp_path / "own"
    assert not own.exists() or own.read_text() == ""


def test_nothing_is_written_into_a_file_that_took_the_number_of_a_copy(tmp_path: Path) -> None:
    takes_all = (
        "sys.stdout.flush(); os.closerange(1, 4096)\n"
        "for number in range(1000): os.open('own', os.O_WRONLY | os.O_CREAT | os.O_APPEND)"
    )
    assert ran(takes_all, tmp_path).stdout == "program\n"
    assert (tmp_path / "own").read_text() == ""


def test_what_a_program_prints_at_its_exit_goes_to_its_own_streams(tmp_path: Path) -> None:
    source = (
        "import atexit, io\nsys.stdout = file = open('own', 'w')\n"
        "atexit.register(lambda: print('at exit'))\nprint('written')"
    )
    assert ran(source, tmp_path).stdout == "program\nreport\n"
    assert (tmp_path / "own").read_text() == "written\nat exit\n"


@pytest.mark.slow
def test_a_fork_holds_no_copy(tmp_path: Path) -> None:
    source = (
        "import time\nsys.stdout.flush()\nif os.fork() == 0:\n    os.close(1); os.close(2); time.sleep(90); os._exit(0)"
    )
    assert ran(source, tmp_path).stdout == "program\nreport\n"  # else it would only end with the fork
