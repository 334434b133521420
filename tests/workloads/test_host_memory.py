"""What Linux says about the host's memory, by files written by hand."""

from pathlib import Path

import pytest
import torch

from pinprof.workloads import host_memory

GIB = 1 << 30


def files(root: Path, **texts: str) -> Path:
    """Write files, their paths with dots for slashes."""
    for name, text in texts.items():
        path = root / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = "MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\nMlocked:  4 kB\nHugePages_Total:       0\n"
HOST = {"proc__meminfo": MEMINFO, "proc__self__status": "Name:\tpython\nVmLck:\t       8 kB\nVmPin:\t       0 kB\n"}


def test_without_a_group_it_is_what_the_host_has(tmp_path: Path) -> None:
    root = files(tmp_path, **HOST)
    assert (host_memory.total(root), host_memory.available(root)) == (16 * GIB, 8 * GIB)
    assert host_memory.locked(root) == {"VmLck": 8192, "VmPin": 0, "Mlocked": 4096}


def test_where_linux_tells_nothing_there_is_nothing(tmp_path: Path) -> None:
    assert (host_memory.total(tmp_path), host_memory.available(tmp_path), host_memory.locked(tmp_path)) == (0, 0, {})
    assert host_memory.mapping_of(4096, tmp_path) == ""


def smaps(root: Path, swap_kib: int) -> None:
    """Write the mapping of the addresses 4096 to 12288, with this many KiB in swap."""
    files(root, proc__self__smaps=f"1000-3000 rw-p 00000000 00:00 0\nSize: 8 kB\nSwap: {swap_kib} kB\n")


@pytest.mark.parametrize(("free_kib", "swapped"), [(16, 8192), (15, None)])
def test_it_is_told_what_is_swapped_out_if_there_is_room(tmp_path: Path, free_kib: int, swapped: int | None) -> None:
    files(tmp_path, proc__meminfo=f"SwapFree: {free_kib} kB\n")
    smaps(tmp_path, 0)
    assert host_memory.swapped_out(4096, 8192, tmp_path, ask=lambda _address, _count: smaps(tmp_path, 8)) == swapped


def test_what_was_in_swap_before_is_not_counted(tmp_path: Path) -> None:
    files(tmp_path, proc__meminfo="SwapFree: 1000 kB\n")
    smaps(tmp_path, 4)
    assert host_memory.swapped_out(4096, 8192, tmp_path, ask=lambda _address, _count: None) == 0


def test_a_tensor_keeps_its_values_when_it_is_paged_out() -> None:
    values = torch.arange(5000)
    host_memory.page_out(values.data_ptr(), values.nbytes)
    assert values.equal(torch.arange(5000))


@pytest.mark.parametrize(
    ("limit", "used", "total", "available"),
    [
        (4 * GIB, 1 * GIB, 4 * GIB, 3.5 * GIB),  # half a GiB of what is used are files that can be forgotten
        (32 * GIB, 1 * GIB, 16 * GIB, 8 * GIB),
        ("max", 1 * GIB, 16 * GIB, 8 * GIB),
        (2 * GIB, 3 * GIB, 2 * GIB, 0),
    ],
)
def test_a_group_may_have_less(tmp_path: Path, limit: object, used: int, total: float, available: float) -> None:
    group = {
        "proc__self__cgroup": "0::/user/job\n",
        "sys__fs__cgroup__user__memory_DOT_max": f"{limit}\n",
        "sys__fs__cgroup__user__memory_DOT_current": f"{used}\n",
        "sys__fs__cgroup__user__memory_DOT_stat": f"anon 5\ninactive_file {GIB // 2}\n",
        "sys__fs__cgroup__user__job__memory_DOT_max": "max\n",
    }
    root = files(tmp_path, **HOST, **group)
    assert (host_memory.total(root), host_memory.available(root)) == (total, available)


def test_so_may_one_of_version_1(tmp_path: Path) -> None:
    group = {
        "proc__self__cgroup": "4:memory:/job\n3:cpu:/job\n",
        "sys__fs__cgroup__memory__job__memory_DOT_limit_in_bytes": f"{4 * GIB}\n",
        "sys__fs__cgroup__memory__job__memory_DOT_usage_in_bytes": f"{GIB}\n",
        "sys__fs__cgroup__memory__memory_DOT_limit_in_bytes": "9223372036854771712\n",
        "sys__fs__cgroup__memory__memory_DOT_usage_in_bytes": f"{GIB}\n",
    }
    root = files(tmp_path, **HOST, **group)
    assert (host_memory.total(root), host_memory.available(root)) == (4 * GIB, 3 * GIB)


SMAPS = """\
1000-2000 rw-p 00000000 00:00 0
Locked:                4 kB
VmFlags: rd wr mr mw me ac lo
2000-4000 rw-s 00000000 00:05 7      /dev/nvidiactl
Locked:                0 kB
VmFlags: rd wr sh mr mw me ms pf io dd
"""


@pytest.mark.parametrize(
    ("address", "locked", "flag"), [(0x1000, 4096, "lo"), (0x1FFF, 4096, "lo"), (0x2000, 0, "io"), (0x4000, None, None)]
)
def test_a_mapping_is_found_by_an_address_in_it(
    tmp_path: Path, address: int, locked: int | None, flag: str | None
) -> None:
    mapping = host_memory.mapping_of(address, files(tmp_path, proc__self__smaps=SMAPS))
    assert host_memory.amounts(mapping).get("Locked") == locked
    assert host_memory.flags(mapping) & host_memory.NEVER_SWAPPED >= ({flag} if flag else set())
    assert bool(host_memory.flags(mapping)) is (flag is not None)


def test_memory_that_may_be_swapped_has_none_of_these_flags(tmp_path: Path) -> None:
    smaps = "1000-2000 rw-p 00000000 00:00 0\nVmFlags: rd wr mr mw me ac sd dd hg\n"
    mapping = host_memory.mapping_of(0x1000, files(tmp_path, proc__self__smaps=smaps))
    assert not host_memory.flags(mapping) & host_memory.NEVER_SWAPPED
