"""Every pair runs on both sides; what a fix saves is measured on a GPU and kept with the recordings."""

import math
from collections.abc import Iterator

import pytest
import torch
from quick import nightly_but

from scripts.pairs import NAMED_PAIRS, PAIRS, RANK_PAIRS

SMALL = 0.02
ALWAYS = {"everything_at_once", "emptied_cache_gpt", "lightning_item", "gan_meters"}
"""One of each kind of program; the others run each night."""
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
@pytest.mark.parametrize("name", nightly_but(ALWAYS, [(known.name,) for known in PAIRS]))
def test_two_steps_on_the_cpu(name: str, fixed: bool) -> None:
    step = NAMED_PAIRS[name].build(torch.device("cpu"), fixed, SMALL)
    losses = [step(), step()]
    assert all(loss is None or math.isfinite(float(loss)) for loss in losses)


def test_pairs_have_names_of_their_own_scenarios_that_exist_and_are_of_both_sorts() -> None:
    assert len(NAMED_PAIRS) == len((*PAIRS, *RANK_PAIRS))
    assert all(known.scenario and known.scenario.items() <= KEYS.items() for known in PAIRS)
    looked_at = sum(known.looked_at for known in PAIRS)
    assert min(looked_at, len(PAIRS) - looked_at) >= len(PAIRS) // 3
