"""The host's memory as Linux tells of it: how much there is, how much may be taken, and what of it is locked."""

import ctypes
import mmap
import re
import resource
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

ROOT = Path("/")
KIB = 1024
WITHOUT_LIMIT = 1 << 60
"""From so many bytes on a limit is none: version 1 of control groups writes a number for "no limit"."""
AMOUNTS = {
    "VmLck": "proc/self/status",
    "VmPin": "proc/self/status",
    "Mlocked": "proc/meminfo",
    "Unevictable": "proc/meminfo",
}
"""Where Linux tells how much memory of this process, or of all, is locked or pinned."""
NEVER_SWAPPED = {"lo", "io", "pf"}
"""Flags of a mapping that is not swapped: locked; memory of a device; pages that the memory management does not manage
(proc_pid_smaps(5), VmFlags)."""
MADV_PAGEOUT = 21
"""Asks Linux 5.4 and later to take pages out of memory, to swap if nothing else holds their data (madvise(2))."""
RANGE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ")


def meminfo(root: Path = ROOT) -> Mapping[str, int]:
    """Return the amounts of /proc/meminfo in bytes; nothing where there is none."""
    return amounts(_text(root / "proc/meminfo"))


def amounts(text: str) -> Mapping[str, int]:
    """Return the amounts of lines such as "MemTotal: 131072 kB" in bytes."""
    cells = (line.split() for line in text.splitlines())
    return {
        name.rstrip(":"): int(value) * KIB
        for name, value, *_ in (each for each in cells if len(each) == 3 and each[2] == "kB")  # noqa: PLR2004
        if value.isdecimal()
    }


def total(root: Path = ROOT) -> int:
    """Return how many bytes of memory this process could have at most: those of the host, or its group's limit."""
    return min((meminfo(root).get("MemTotal", 0), *(limit for limit, _ in _groups(root))))


def available(root: Path = ROOT) -> int:
    """Return how many bytes can be had without taking them from another program, by the host and the group's limit."""
    of_groups = (limit - used for limit, used in _groups(root))
    return max(0, min((meminfo(root).get("MemAvailable", 0), *of_groups)))


def available_to_all(root: Path = ROOT) -> int:
    """Return how many bytes the whole host can still give to programs (MemAvailable)."""
    return meminfo(root).get("MemAvailable", 0)


def lockable() -> int:
    """Return how many bytes this process may lock (RLIMIT_MEMLOCK)."""
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return WITHOUT_LIMIT if limit == resource.RLIM_INFINITY else limit


def _groups(root: Path) -> Iterator[tuple[int, int]]:
    """Yield limit and use of memory, in bytes, of each control group that this process is in and that has a limit.

    What is used is without the files that the group has read and can forget.
    """
    for group in _group_folders(root):
        for limit_file, used_file in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit, used = (_text(group / name).strip() for name in (limit_file, used_file))
            if limit.isdecimal() and used.isdecimal() and int(limit) < WITHOUT_LIMIT:
                forgettable = re.search(r"^(?:total_)?inactive_file (\d+)$", _text(group / "memory.stat"), re.MULTILINE)
                yield int(limit), int(used) - (int(forgettable[1]) if forgettable else 0)


def _group_folders(root: Path) -> Iterator[Path]:
    """Yield the folders of the process's control groups and of those they are in, of both versions."""
    mounted = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers not in {"", "memory"}:
            continue
        top = mounted / controllers if controllers else mounted
        inner = top / path.lstrip("/")
        yield from (folder for folder in (inner, *inner.parents) if folder == top or top in folder.parents)


def locked(root: Path = ROOT) -> Mapping[str, int]:
    """Return how many bytes are locked or pinned, by each witness that this system has."""
    return {name: found[name] for name, file in AMOUNTS.items() if name in (found := amounts(_text(root / file)))}


def mapping_of(address: int, root: Path = ROOT) -> str:
    """Return what /proc/self/smaps tells of the mapping with this address; empty where it tells nothing."""
    lines: list[str] = []
    inside = False
    for line in _text(root / "proc/self/smaps").splitlines():
        if bounds := RANGE.match(line):
            inside = int(bounds[1], 16) <= address < int(bounds[2], 16)
        elif inside:
            lines.append(line)
    return "\n".join(lines)


def page_out(address: int, count: int) -> None:
    """Ask Linux to take the whole pages of so many bytes out of memory. It need not; of locked pages it does not."""
    first, end = -(-address // mmap.PAGESIZE), (address + count) // mmap.PAGESIZE
    start, length = first * mmap.PAGESIZE, (end - first) * mmap.PAGESIZE
    ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), MADV_PAGEOUT)


def swapped_out(address: int, count: int, root: Path = ROOT, ask: Callable[[int, int], None] = page_out) -> int | None:
    """Ask Linux to swap so many bytes out, and return how many more of their mapping are in swap then.

    None where swap has no room for twice as many, or where Linux does not tell.
    """
    before = amounts(mapping_of(address, root)).get("Swap")
    if before is None or meminfo(root).get("SwapFree", 0) < 2 * count:
        return None
    ask(address, count)
    return amounts(mapping_of(address, root)).get("Swap", before) - before


def flags(mapping: str) -> set[str]:
    """Return the flags of a mapping; none where they are not told."""
    found = re.search(r"^VmFlags:(.*)$", mapping, re.MULTILINE)
    return set(found[1].split()) if found else set()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
