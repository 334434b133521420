"""The memory of a process and of all that it started, by /proc of Linux, for benchmarks."""

from collections.abc import Iterator
from contextlib import suppress
from mmap import PAGESIZE
from pathlib import Path


def resident(pid: int) -> list[int]:
    """Return the bytes that a process and each of its descendants hold, its own first; 0 where that is not known."""
    return list(map(_held, _tree(pid)))


def _tree(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))


def _held(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGESIZE
    return 0
