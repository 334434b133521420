"""Finds how much memory the program has pinned, and whether its DataLoaders pin."""

import gc
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter

from pinprof.trace.tables import HostMemory

MACHINE, CGROUP, LIMITS = Path("/proc/meminfo"), Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
ENTRY = re.compile(r"^(MemTotal|MemAvailable):\s*(\d+) kB$", re.MULTILINE)
KIB = 1024
"""The unit of /proc/meminfo, which calls it kB."""
PINNED_AND_USED = (("allocated_bytes", "active_bytes"), ("reserved_bytes", "allocated_bytes"))
"""torch's names of the pinned bytes and of those in use: the current names, then those of the first versions that
counted them (the second name tells which)."""


def loaders_pin() -> bool | None:
    """Return whether the active DataLoaders have `pin_memory=True`; None without one, or if they differ.

    It looks at all objects, so call it outside of profiling.
    """
    things = [thing for thing in gc.get_objects() if issubclass(type(thing), _BaseDataLoaderIter)]
    pin = {bool(thing._pin_memory) for thing in things}  # noqa: SLF001  only iterators show which DataLoaders are active
    return pin.pop() if len(pin) == 1 else None


def host_memory(machine: Path = MACHINE, cgroup: Path = CGROUP, limits: Path = LIMITS) -> HostMemory | None:
    """Return how much memory is pinned now, and how much the machine has.

    None if torch does not count (an old version, or a program without a GPU), if the system does not tell, or if both
    contradict each other. Torch 2.11 counts what is in use up, but not down, where a pinned tensor is freed
    (github.com/pytorch/pytorch/pull/183067): what is in use is left out where it is more than all that is pinned.
    """
    stats = _allocator_stats()
    kinds = next((kinds for kinds in PINNED_AND_USED if all(f"{kind}.current" in stats for kind in kinds)), None)
    if kinds is None:
        return None
    pinned, used = kinds
    try:
        total, available = _memory_of_machine(machine)
    except (OSError, KeyError):
        return None
    limit = min(_limits(cgroup, limits), default=total)
    pinned_now, in_use = stats[f"{pinned}.current"], stats[f"{used}.current"]
    with suppress(ValueError):
        return HostMemory(
            pinned_now,
            in_use if in_use <= pinned_now else None,
            stats[f"{pinned}.peak"],
            total,
            available,
            limit if limit < total else None,
        )
    return None


def _allocator_stats() -> Mapping[str, int]:
    """Return the counts of torch's allocator of pinned memory; empty if it has none yet."""
    ask = getattr(torch.cuda, "host_memory_stats", dict)
    with suppress(RuntimeError, AttributeError):
        return dict(ask())
    return {}


def _memory_of_machine(machine: Path) -> tuple[int, int]:
    """Return the total and the available memory of the machine. Raises OSError or KeyError."""
    told = dict(ENTRY.findall(machine.read_text()))
    return int(told["MemTotal"]) * KIB, int(told["MemAvailable"]) * KIB


def _limits(cgroup: Path, limits: Path) -> Iterator[int]:
    """Yield the memory limits of this process's cgroup and its parents (version 2)."""
    with suppress(OSError, StopIteration):
        entry = next(line for line in cgroup.read_text().splitlines() if line.startswith("0::"))
        own = limits / entry.removeprefix("0::").strip("/")
        for folder in (own, *own.parents):
            with suppress(OSError, ValueError):  # no such file in the root cgroup; "max" means no limit
                yield int((folder / "memory.max").read_text())
            if folder == limits:
                break
