"""Tells on which core a thread runs, and lets it go to another one.

A neighbour on the same hardware, or a hot core, makes one core slower than the next for seconds. Two processes that
take turns on different cores would differ by that.
"""

import os
from contextlib import suppress
from pathlib import Path

CORE_BYTES = 2
"""A core as it is told between processes."""
ANY_CORE = (0xFFFF).to_bytes(CORE_BYTES, "little")
PROCESSOR = 36
"""The field of a thread's `stat` that has its core, after its name (proc(5))."""


def own_core() -> bytes:
    """Return the core on which this thread runs; ANY_CORE where Linux is not."""
    with suppress(OSError, IndexError, ValueError, OverflowError):
        fields = Path("/proc/thread-self/stat").read_text().rpartition(")")[2].split()
        return int(fields[PROCESSOR]).to_bytes(CORE_BYTES, "little")
    return ANY_CORE


def go_to(core: bytes) -> None:
    """Let this thread go on there, if it may run there; the system may move it away again at any time."""
    if core == ANY_CORE or len(core) != CORE_BYTES:
        return
    with suppress(OSError, AttributeError):  # macOS has no such call
        allowed = os.sched_getaffinity(0)
        number = int.from_bytes(core, "little")
        if number in allowed:
            os.sched_setaffinity(0, {number})
            os.sched_setaffinity(0, allowed)
