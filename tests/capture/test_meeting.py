"""Ranks that agree on a step, each at a pace of its own, through a store in memory."""

from random import Random
from typing import cast

import pytest
from torch._C._distributed_c10d import HashStore

from pinprof.capture.job import Rendezvous


def meet(ranks: int, random: Random, *, ready: list[int], ahead: int, ends: dict[int, int] | None = None) -> list[str]:
    """Return where each rank meets, and what it is told, of hosts that run up to `ahead` steps before the slowest.

    A rank asks from its place in `ready` on, looks at every place from there, and leaves at its place in `ends`.
    """
    store = HashStore()
    meetings = [Rendezvous(store, "begin", ranks) for _ in range(ranks)]
    places, decisions = [0] * ranks, [""] * ranks
    going = set(range(ranks))
    while going:
        slowest = min(places[rank] for rank in going)
        rank = random.choice([rank for rank in sorted(going) if places[rank] <= slowest + ahead])
        places[rank] += 1
        if places[rank] == (ends or {}).get(rank):
            meetings[rank].leave()
            going.remove(rank)
        elif places[rank] >= ready[rank]:
            text = meetings[rank].reached(places[rank], f"text of {rank}")
            if text is not None:
                decisions[rank] = f"{places[rank]}: {text}"
                going.remove(rank)
        assert slowest < 200
    return decisions


@pytest.mark.parametrize("seed", range(200))
def test_all_ranks_meet_at_the_same_place_however_far_they_are_apart(seed: int) -> None:
    random = Random(seed)
    ranks = random.randint(2, 5)
    ready = [random.randint(1, 60) for _ in range(ranks)]
    (met,) = set(meet(ranks, random, ready=ready, ahead=random.randint(0, 20)))
    place = int(met.partition(":")[0])
    assert max(ready) < place <= max(ready) + 21


@pytest.mark.parametrize("seed", range(50))
def test_a_rank_that_ends_early_lets_the_others_meet(seed: int) -> None:
    random = Random(seed)
    decisions = meet(3, random, ready=[10, 1000, 12], ahead=5, ends={1: 15})
    assert decisions[1] == ""
    assert decisions[0] == decisions[2] != ""


def test_ranks_that_are_lockstep_meet_right_after_the_last_has_asked() -> None:
    store = HashStore()
    first, second = (Rendezvous(store, "begin", 2) for _ in range(2))
    assert [first.reached(4, "a"), second.reached(4, "b")] == [None, None]
    assert [second.reached(5, "b"), first.reached(5, "a")] == ["b", "b"]


def test_who_insists_meets_at_the_next_place_and_a_late_rank_alone() -> None:
    store = HashStore()
    first, second, late = (Rendezvous(store, "begin", 3) for _ in range(3))
    assert [first.reached(4, "a"), second.reached(4, "b")] == [None, None]
    first.insist()
    assert [first.reached(5, "a"), second.reached(5, "b")] == ["a", "a"]
    assert first.missing() < 0
    assert [late.reached(place, "c") for place in (9, 10)] == [None, "c"]


def test_a_rank_that_asks_while_another_looks_is_still_waited_for() -> None:
    store = HashStore()
    ahead = Rendezvous(store, "begin", 2)

    class Interrupted:
        """A store where the rank ahead asks between two questions of the other."""

        compare_set = store.compare_set

        def add(self, key: str, number: int) -> int:
            if number == 0:
                ahead.reached(22, "ahead")
            return store.add(key, number)

    behind = Rendezvous(cast("HashStore", Interrupted()), "begin", 2)
    assert behind.reached(15, "behind") is None
    assert behind.reached(23, "behind") == "behind"
    assert ahead.reached(23, "ahead") == "behind"
