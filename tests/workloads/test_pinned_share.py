"""The host works while a growing share of its memory is pinned: where it stops, and that all is given back."""

import gc
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from pinprof.bench.results import Figure
from pinprof.workloads import host_memory, pinned_share
from pinprof.workloads.pinned_share import CHUNK_BYTES, room, work_while_pinning
from pinprof.workloads.timing import Budget

GIB = 1 << 30
MEMORY = 40 * GIB
"""5 % of it are two chunks."""


class Pinned:
    """Gives chunks of almost no memory, and knows which of them are held."""

    def __init__(self, most: int = 1000) -> None:
        self.most = most
        self.held: list[weakref.ref[Tensor]] = []
        self.freed = 0

    def pin(self) -> Tensor:
        if len(self.held) >= self.most:
            raise RuntimeError("CUDA error: out of memory")
        chunk = torch.empty(1)
        self.held.append(weakref.ref(chunk))
        return chunk

    def free(self) -> None:
        gc.collect(1)  # all of it is young
        assert not [chunk for chunk in self.held if chunk() is not None]
        self.freed += 1


@pytest.fixture(autouse=True)
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COPIED_BYTES", "FRESH_BYTES", "READ_BYTES"):
        monkeypatch.setattr(pinned_share, name, 4096)
    monkeypatch.setattr(pinned_share, "WORK", Budget(least=1, most=1, seconds=0.0))


def shares(values: Iterator[Figure]) -> list[float]:
    return [figure.median for figure in values if figure.name == "pinned of the host's memory"]


def always(_more: int, _pinned: int) -> bool:
    return True


def no_time() -> float:
    return 0.0


@pytest.mark.parametrize(("share", "expected"), [(50, [5, 10, 15, 20, 30, 40, 50]), (10, [5, 10]), (4, [])])
def test_all_steps_up_to_the_share_are_taken(share: int, expected: list[float]) -> None:
    pinned = Pinned()
    values = list(work_while_pinning(pinned.pin, pinned.free, MEMORY, share, always, no_time))
    assert shares(iter(values)) == expected
    assert len(pinned.held) == 40 * (expected or [0])[-1] / 100
    sizes = {figure.size for figure in values if figure.name == "host copy"}
    assert sizes == {0, *(MEMORY * percent // 100 for percent in expected)}
    assert {figure.name for figure in values} >= {"host copy", "fresh memory", "file read again"}
    nothing = next(figure for figure in values if figure.name == "host copy" and figure.size == 0)
    assert nothing.runs == 2  # before, and after
    assert pinned.freed == 1


def test_where_there_is_no_room_it_ends() -> None:
    pinned = Pinned()
    values = work_while_pinning(pinned.pin, pinned.free, MEMORY, 50, lambda more, held: more + held <= 7 * GIB, no_time)
    assert shares(values) == [5, 10, 15]
    assert pinned.freed == 1


def test_where_there_is_no_time_for_a_step_it_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned_share, "PINNING_S", 9.0)
    pinned = Pinned()
    values = shares(work_while_pinning(pinned.pin, pinned.free, MEMORY, 50, always, lambda: 0.5 * len(pinned.held)))
    assert values == [5, 10, 15, 20, 30, 40]  # 16 chunks take 8 s, and the four of the next step 2
    assert len(pinned.held) == 16


def test_where_the_driver_refuses_it_ends() -> None:
    pinned = Pinned(most=5)
    assert shares(work_while_pinning(pinned.pin, pinned.free, MEMORY, 50, always, no_time)) == [5, 10]
    assert pinned.freed == 1


def test_all_is_given_back_if_the_work_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = Pinned()

    def fails(*_: object) -> list[float]:
        if pinned.held:
            raise OSError("no space left")
        return [1.0]

    monkeypatch.setattr(pinned_share, "repeated", fails)
    with pytest.raises(OSError, match="no space left"):
        list(work_while_pinning(pinned.pin, pinned.free, MEMORY, 50, always, no_time))
    assert pinned.freed == 1


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    def has(available: int, lockable: int) -> None:
        monkeypatch.setattr(host_memory, "available", lambda: available)
        monkeypatch.setattr(host_memory, "lockable", lambda: lockable)

    return has


def test_all_others_keep_a_quarter(host: Callable[[int, int], None]) -> None:
    host(12 * GIB, host_memory.WITHOUT_LIMIT)
    may = room(MEMORY, GIB)
    assert may(2 * GIB, 5 * GIB)
    assert not may(2 * GIB + 1, 5 * GIB)


@pytest.mark.parametrize(("pinned", "may_be"), [(3 * GIB, True), (4 * GIB, False)])
def test_what_may_be_locked_is_not_passed(host: Callable[[int, int], None], pinned: int, may_be: bool) -> None:
    host(MEMORY, 4 * GIB)
    assert room(MEMORY, GIB)(CHUNK_BYTES, pinned) is may_be


def test_unless_more_was_pinned_before(host: Callable[[int, int], None]) -> None:
    host(MEMORY, 1 << 16)
    assert room(MEMORY, GIB)(CHUNK_BYTES, 4 * GIB)
