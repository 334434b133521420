"""What a rank does with what it hears of the others, and when it hears nothing any more."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from torch._C._distributed_c10d import HashStore, PrefixStore, Store, TCPStore

from pinprof.capture.job import (
    Agreement,
    Connect,
    Rank,
    agreement_of_process,
    path_of_rank,
    rank_of_process,
    store_of_job,
)


def ranks(count: int, connect: Connect) -> list[Agreement]:
    return [Agreement(Rank(rank, count), connect) for rank in range(count)]


def begun(
    agreement: Agreement, text: str, *, place: int = 0, max_steps: int = 5, max_seconds: float = 60
) -> tuple[int, str]:
    """Return at which place a rank begins that is past one and comes to the next by itself, and what it is told."""
    steps = agreement.begin(lambda: place, text, 2, max_steps, max_seconds)
    while True:
        place += 1
        try:
            next(steps)
        except StopIteration as end:
            return place, end.value


def ignored(_: str) -> None:
    """Show nothing."""


class Broken:
    """A store that does not answer any more after some answers."""

    def __init__(self, answers: int) -> None:
        self._store = HashStore()
        self._answers = answers

    def __getattr__(self, name: str) -> Callable[..., object]:
        self._answers -= 1
        if self._answers < 0:
            raise RuntimeError("Connection reset by peer\nand a stack")
        return cast("Callable[..., object]", getattr(self._store, name))


def test_a_rank_alone_begins_after_the_longest_warm_up_and_says_so() -> None:
    store = HashStore()
    first, second, third = ranks(3, lambda: store)
    assert begun(first, "20") == (7, "20")
    assert first.why_apart == "not all ranks were ready for the windows in time"
    assert begun(second, "30", place=3) == (7, "20")  # behind the first
    assert begun(third, "40", place=9) == (11, "40")  # before it
    assert first.why_apart == second.why_apart == third.why_apart


def test_a_rank_waits_for_seconds_only_if_its_steps_are_long() -> None:
    store = HashStore()
    (first, _) = ranks(2, lambda: store)
    assert begun(first, "20", max_steps=50, max_seconds=0) == (4, "20")


@pytest.mark.parametrize("answers", range(12))
def test_a_rank_that_loses_the_store_goes_on_alone(answers: int) -> None:
    store = cast("Store", Broken(answers))
    rank, other = ranks(2, lambda: store)
    place, text = begun(rank, "20")
    assert (place <= 7, text) == (True, "20")
    assert rank.why_apart == "the store of the job does not answer (Connection reset by peer)"
    assert rank.ends(9)
    assert rank.traces(60, ignored) == {}
    rank.leave(None)
    other.leave(None)


def test_without_a_store_a_rank_decides_by_itself() -> None:
    (alone,) = ranks(1, lambda: None)
    assert not alone.in_contact
    assert begun(alone, "20") == (1, "20")
    assert alone.ends(30)
    alone.leave(None)
    assert alone.traces(60, ignored) == {}
    assert "no store" in (alone.why_apart or "")


def test_a_rank_hears_where_the_others_have_written_and_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept_s: list[float] = []
    host_time = SimpleNamespace(monotonic=lambda: sum(slept_s), sleep=slept_s.append)
    monkeypatch.setattr("pinprof.capture.job.HOST_TIME", host_time)
    store = HashStore()
    first, second, third = ranks(3, lambda: store)
    trace = tmp_path / "out.rank0.json"
    trace.write_text("{}")
    first.leave(trace)
    second.leave(None)
    shown: list[str] = []
    written = first.traces(60, shown.append)
    assert sum(slept_s) == pytest.approx(60, abs=0.1)
    assert [written[0].path, written[0].is_here, written[1].path, written[1].is_here] == [str(trace), True, "", False]
    assert shown[0] == "waiting for the traces of all ranks (2 of 3 written)"
    third.leave(trace)
    trace.write_text("of another run")
    assert [trace.is_here for trace in first.traces(60, shown.append).values()] == [False, False, False]


def test_ranks_that_have_left_are_not_waited_for() -> None:
    store = HashStore()
    first, second = ranks(2, lambda: store)
    second.leave(None)
    assert begun(first, "20") == (2, "20")
    assert [first.ends(40), first.ends(41)] == [False, True]
    assert first.why_apart is None


def test_torchruns_store_is_used_on_a_connection_of_our_own_for_each_restart() -> None:
    agent = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=5))
    environment = {"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(agent.port)}
    first = store_of_job(environment)
    again = store_of_job(environment | {"TORCHELASTIC_RESTART_COUNT": "1"})
    assert isinstance(first, PrefixStore)
    assert isinstance(again, PrefixStore)
    first.set("key", "value")
    assert not again.check(["key"])
    assert agent.check(["pinprof/0/key"])
    assert store_of_job({}) is None
    assert store_of_job(environment | {"MASTER_PORT": "none"}) is None


def test_the_variables_of_launchers_tell_the_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert rank_of_process() is None
    assert agreement_of_process() is None
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    assert rank_of_process() == (1, 4)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert rank_of_process() == (0, 1)
    assert agreement_of_process() is None
    assert path_of_rank(Path("run/job.json.gz"), "*") == Path("run/job.rank*.json.gz")
