"""The host's memory as Linux reports it: how much there is, how much is available, and how much is locked."""

import ctypes
import mmap
import re
import resource
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

ROOT = Path("/")
KIB = 1024
WITHOUT_LIMIT = 1 << 60
"""A limit of this many bytes or more means none: version 1 of control groups writes a large number for "none"."""
AMOUNTS = {
    "VmLck": "proc/self/status",
    "VmPin": "proc/self/status",
    "Mlocked": "proc/meminfo",
    "Unevictable": "proc/meminfo",
}
"""The files in which Linux counts locked or pinned memory, of this process or of all, by the name of the counter."""
NEVER_SWAPPED = {"lo", "io", "pf"}
"""Flags of mappings that Linux never swaps: locked, memory of a device, pages without a `struct page`
(proc_pid_smaps(5), VmFlags)."""
MADV_PAGEOUT = 21
"""Asks Linux 5.4 and later to move pages out of memory, to swap if no file has their data (madvise(2))."""
RANGE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ")


def meminfo(root: Path = ROOT) -> Mapping[str, int]:
    """Return the amounts of /proc/meminfo in bytes; empty without such a file."""
    return amounts(_text(root / "proc/meminfo"))


def amounts(text: str) -> Mapping[str, int]:
    """Return the amounts of lines such as "MemTotal: 131072 kB" in bytes."""
    rows = (line.split() for line in text.splitlines())
    return {
        name.rstrip(":"): int(value) * KIB
        for name, value, *_ in (row for row in rows if len(row) == 3 and row[2] == "kB")  # noqa: PLR2004
        if value.isdecimal()
    }


def total(root: Path = ROOT) -> int:
    """Return how many bytes this process can have at most: the host's memory, or the limit of its control group."""
    return min((meminfo(root).get("MemTotal", 0), *(limit for limit, _ in _groups(root))))


def available(root: Path = ROOT) -> int:
    """Return how many bytes this process can allocate without swapping, by the host and the limit of its group."""
    of_groups = (limit - used for limit, used in _groups(root))
    return max(0, min((meminfo(root).get("MemAvailable", 0), *of_groups)))


def available_to_all(root: Path = ROOT) -> int:
    """Return how many bytes are available to all programs of the host together (MemAvailable)."""
    return meminfo(root).get("MemAvailable", 0)


def lockable() -> int:
    """Return how many bytes this process may lock (RLIMIT_MEMLOCK)."""
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return WITHOUT_LIMIT if limit == resource.RLIM_INFINITY else limit


def _groups(root: Path) -> Iterator[tuple[int, int]]:
    """Yield limit and use of memory, in bytes, of each control group of this process that has a limit.

    The use is without cached files, which the group can drop.
    """
    for group in _group_folders(root):
        for limit_file, used_file in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit, used = (_text(group / name).strip() for name in (limit_file, used_file))
            if limit.isdecimal() and used.isdecimal() and int(limit) < WITHOUT_LIMIT:
                cached = re.search(r"^(?:total_)?inactive_file (\d+)$", _text(group / "memory.stat"), re.MULTILINE)
                yield int(limit), int(used) - (int(cached[1]) if cached else 0)


def _group_folders(root: Path) -> Iterator[Path]:
    """Yield the folders of the process's control groups and of their parents, of both versions."""
    mounted = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers not in {"", "memory"}:
            continue
        top = mounted / controllers if controllers else mounted
        inner = top / path.lstrip("/")
        yield from (folder for folder in (inner, *inner.parents) if folder == top or top in folder.parents)


def locked(root: Path = ROOT) -> Mapping[str, int]:
    """Return how many bytes are locked or pinned, by each counter that this system has."""
    return {name: counts[name] for name, file in AMOUNTS.items() if name in (counts := amounts(_text(root / file)))}


def mapping_of(address: int, root: Path = ROOT) -> str:
    """Return the lines of /proc/self/smaps on the mapping with this address; empty if there are none."""
    lines: list[str] = []
    inside = False
    for line in _text(root / "proc/self/smaps").splitlines():
        if bounds := RANGE.match(line):
            inside = int(bounds[1], 16) <= address < int(bounds[2], 16)
        elif inside:
            lines.append(line)
    return "\n".join(lines)


def page_out(address: int, count: int) -> None:
    """Ask Linux to move the whole pages among `count` bytes out of memory. It need not, and does not if locked."""
    first, end = -(-address // mmap.PAGESIZE), (address + count) // mmap.PAGESIZE
    start, length = first * mmap.PAGESIZE, (end - first) * mmap.PAGESIZE
    ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), MADV_PAGEOUT)


def swapped_out(address: int, count: int, root: Path = ROOT, ask: Callable[[int, int], None] = page_out) -> int | None:
    """Ask Linux to swap out `count` bytes, and return how many more bytes of their mapping are in swap afterwards.

    None if swap has no room for twice as many, or if Linux does not report it.
    """
    before = amounts(mapping_of(address, root)).get("Swap")
    if before is None or meminfo(root).get("SwapFree", 0) < 2 * count:
        return None
    ask(address, count)
    return amounts(mapping_of(address, root)).get("Swap", before) - before


def flags(mapping: str) -> set[str]:
    """Return the flags of a mapping; empty if Linux does not report them."""
    match = re.search(r"^VmFlags:(.*)$", mapping, re.MULTILINE)
    return set(match[1].split()) if match else set()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
