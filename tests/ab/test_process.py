"""Programs that are measured run as in the user's terminal: of its size, and with nothing to read."""

import fcntl
import os
import pty
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pinprof.processes import running

ASKS = """
import os
print("terminal of", os.popen("stty size").read().strip() or "no size")
for _ in range(3):
    try:
        print("read", repr(input()))
    except EOFError:
        print("nothing to read")
"""
ROWS, COLUMNS = 31, 97


@contextmanager
def standard_input(descriptor: int) -> Iterator[None]:
    """Let the block have another standard input."""
    kept = os.dup(0)
    os.dup2(descriptor, 0)
    try:
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)


def printed(folder: Path) -> str:
    with running([sys.executable, "-c", ASKS], folder, {}) as process:
        assert process.wait(30) == 0, process.last_lines()
        return process.last_lines()


def test_a_program_sees_a_terminal_of_the_users_size_and_reads_nothing(tmp_path: Path) -> None:
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", ROWS, COLUMNS, 0, 0))
    os.write(controller, b"typed for the user's shell\n")
    with standard_input(terminal):
        output = printed(tmp_path)
    os.close(terminal)
    os.close(controller)
    assert output == f"terminal of {ROWS} {COLUMNS} | " + " | ".join(["nothing to read"] * 3)


def test_without_a_terminal_there_is_none(tmp_path: Path) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    with standard_input(nothing):
        output = printed(tmp_path)
    os.close(nothing)
    assert output == "terminal of no size | " + " | ".join(["nothing to read"] * 3)
