"""Every pair runs on both sides; what a fix saves is measured on a GPU and kept with the recordings."""

import math
from collections.abc import Iterator

import pytest
import torch

from scripts.pairs import NAMED_PAIRS, PAIRS, RANK_PAIRS, Pair

SMALL = 0.02
KEYS = {"drop_syncs": "all", "pin": True, "non_blocking": True, "overlap_copies": True, "drop_allocs": True}

# Lightning and transformers warn of what is none of our business when they are imported.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.parametrize("fixed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("known", PAIRS, ids=lambda known: known.name)
def test_two_steps_on_the_cpu(known: Pair, fixed: bool) -> None:
    step = known.build(torch.device("cpu"), fixed, SMALL)
    losses = [step(), step()]
    assert all(loss is None or math.isfinite(float(loss)) for loss in losses)


@pytest.mark.parametrize("known", PAIRS, ids=lambda known: known.name)
def test_scenario_is_one_that_can_be_asked_for(known: Pair) -> None:
    assert known.scenario
    assert known.scenario.items() <= KEYS.items()


def test_names_are_unique_and_there_are_enough_of_both_sorts() -> None:
    assert len(NAMED_PAIRS) == len((*PAIRS, *RANK_PAIRS))
    looked_at = sum(known.looked_at for known in PAIRS)
    assert min(looked_at, len(PAIRS) - looked_at) >= len(PAIRS) // 3
