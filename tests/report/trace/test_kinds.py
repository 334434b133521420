"""The work of a step by phase and by kind of kernel, and what the recorded steps do not show of the input."""

import pytest

from pinprof.analyses.by_name.kernels import KindTime
from pinprof.report.trace.sections.work import on_cores
from pinprof.trace.metadata.info import Made, MadeLoader, batches_held


def loader(workers: int, ready: int | None = None, drawn: int = 5) -> MadeLoader:
    return MadeLoader(workers, persistent_workers=False, drawn=drawn, prefetch_factor=ready)


@pytest.mark.parametrize(
    ("tensor_core_ns", "words"),
    [(None, ""), (0, "no tensor cores"), (500, "50 % on tensor cores"), (1000, "on tensor cores")],
)
def test_a_kind_says_how_much_of_it_runs_on_tensor_cores(tensor_core_ns: int | None, words: str) -> None:
    assert on_cores(KindTime("matrix products", 1, 1000, tensor_core_ns)) == words


@pytest.mark.parametrize(
    ("made", "held"),
    [
        *((None, None), (Made(), None), (Made((loader(0),)), None), (Made((loader(4),)), 8)),
        *((Made((loader(4, 3),)), 12), (Made((loader(4, drawn=0),)), None)),
    ],
)
def test_the_queues_hold_what_each_worker_has_ready(made: Made | None, held: int | None) -> None:
    assert batches_held(made) == held
