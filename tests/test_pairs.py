"""Every pair runs on both sides; what a fix saves is measured on a GPU and kept with the recordings."""

import math
from collections.abc import Iterator

import pytest
import torch
from quick import nightly_but

from scripts.pairs import NAMED_PAIRS, PAIRS

SMALL = 0.02
ALWAYS = {"everything_at_once", "emptied_cache_gpt", "lightning_item", "gan_meters"}
"""One of each kind of program; the others run each night."""

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
    assert all(math.isfinite(float(loss)) for loss in losses if isinstance(loss, torch.Tensor | float))
