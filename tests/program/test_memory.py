"""What is recorded of pinned memory: torch's figures, and those of a machine made of files."""

import gc
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from pinprof.program.machine import host_memory, loaders_pin
from pinprof.trace.metadata.info import HostMemory

GIB = 1 << 30
MEMINFO = (
    "MemTotal:       67108864 kB\nMemFree:         1048576 kB\nMemAvailable:   33554432 kB\nHugePages_Total:       0\n"
)
STATS = {
    "allocated_bytes.current": 8 * GIB,
    "allocated_bytes.peak": 9 * GIB,
    "active_bytes.current": 5 * GIB,
    "active_bytes.peak": 6 * GIB,
}
OLD_STATS = {
    "reserved_bytes.current": 8 * GIB,
    "reserved_bytes.peak": 9 * GIB,
    "allocated_bytes.current": 5 * GIB,
    "allocated_bytes.peak": 6 * GIB,
}


class Machine:
    """A machine with 64 GiB, 32 of them free, and no limit unless one is set."""

    def __init__(self, folder: Path) -> None:
        self.meminfo, self.cgroup, self.limits = folder / "meminfo", folder / "cgroup", folder / "limits"
        self.meminfo.write_text(MEMINFO)
        self.cgroup.write_text("1:name=systemd:/other\n0::/job/step\n")
        (self.limits / "job" / "step").mkdir(parents=True)

    def limit(self, group: str, text: str) -> None:
        (self.limits / group / "memory.max").write_text(f"{text}\n")

    def memory(self) -> HostMemory | None:
        return host_memory(self.meminfo, self.cgroup, self.limits)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def counting(monkeypatch: pytest.MonkeyPatch, stats: Mapping[str, int]) -> None:
    monkeypatch.setattr(torch.cuda, "host_memory_stats", lambda: stats, raising=False)


@pytest.mark.parametrize("stats", [STATS, OLD_STATS], ids=["now", "in the first versions"])
def test_what_is_pinned_is_recorded_beside_what_there_is(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, stats: Mapping[str, int]
) -> None:
    counting(monkeypatch, stats)
    memory = machine.memory()
    assert memory == HostMemory(8 * GIB, 5 * GIB, 9 * GIB, 64 * GIB, 32 * GIB, None)


@pytest.mark.parametrize(("pinned", "is_possible"), [(32, True), (33, False)])  # 32 of 64 GiB are available
def test_more_than_the_machine_misses_cannot_be_pinned(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, pinned: int, is_possible: bool
) -> None:
    counting(monkeypatch, STATS | {"allocated_bytes.current": pinned * GIB})
    assert (machine.memory() is not None) == is_possible


@pytest.mark.parametrize(
    ("limits", "least"),
    [
        ({"job/step": "max", "job": "max"}, None),
        ({"job/step": str(20 * GIB), "job": "max"}, 20),
        ({"job/step": str(20 * GIB), "job": str(10 * GIB)}, 10),  # the outer one holds as well
        ({".": str(48 * GIB)}, 48),
        ({"job": str(1 << 62)}, None),
    ],
)
def test_the_limit_is_the_smallest_of_all_cgroups_around_the_process(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, limits: dict[str, str], least: int | None
) -> None:
    counting(monkeypatch, STATS)
    for group, text in limits.items():
        machine.limit(group, text)
    memory = machine.memory()
    assert memory
    assert memory.limit_bytes == (None if least is None else least * GIB)


def test_nothing_is_recorded_where_torch_does_not_count_or_the_machine_does_not_tell(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting(monkeypatch, {})  # as before CUDA is used
    assert machine.memory() is None
    monkeypatch.delattr(torch.cuda, "host_memory_stats")  # as in old versions
    assert machine.memory() is None
    counting(monkeypatch, STATS)
    machine.meminfo.write_text("MemTotal: 64 kB\n")
    assert machine.memory() is None
    machine.meminfo.unlink()  # as on other systems
    assert machine.memory() is None


@pytest.fixture
def no_loaders() -> Iterator[None]:
    gc.collect()
    assert loaders_pin() is None
    yield
    gc.collect()


@pytest.mark.slow
@pytest.mark.usefixtures("no_loaders")
def test_the_loaders_at_work_tell_whether_they_pin() -> None:
    loader = DataLoader(TensorDataset(torch.arange(4)))
    assert loaders_pin() is None  # nobody draws from it
    drawing = iter(loader)
    assert loaders_pin() is False
    drawing._pin_memory = True
    assert loaders_pin() is True
    other = iter(loader)
    assert loaders_pin() is None  # one does, one does not
    del drawing, other


@pytest.mark.gpu
def test_a_pinned_tensor_is_counted() -> None:
    gc.collect()  # of other tests
    torch.ones(1, device="cuda")  # torch counts from its first use of the GPU on
    first = torch.empty(1, dtype=torch.uint8, pin_memory=True)
    before = host_memory()
    pinned = torch.empty(3 << 20, dtype=torch.uint8, pin_memory=True)
    after = host_memory()
    assert before
    assert after
    assert 3 << 20 <= after.pinned_bytes - before.pinned_bytes <= 4 << 20  # up to the next power of two
    assert after.peak_bytes >= after.pinned_bytes >= (after.used_bytes or 0)
    assert after.total_bytes > after.available_bytes > 0
    del first, pinned


@pytest.mark.gpu
@pytest.mark.usefixtures("no_loaders")
def test_a_loader_that_pins_is_seen() -> None:
    drawing = iter(DataLoader(TensorDataset(torch.arange(4)), pin_memory=True))
    assert loaders_pin() is True
    del drawing
