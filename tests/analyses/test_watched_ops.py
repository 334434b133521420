"""Which ops a call in Python may run where it waits."""

import pytest

from pinprof.analyses.syncs.lines.watched import is_known_to_run, may_run
from pinprof.trace.lines import SourceLine, WatchedWait


def wait(waited: str | None) -> WatchedWait:
    return WatchedWait(SourceLine("train.py", 7, "train"), waited, waited, "main", 1, (0,))


@pytest.mark.parametrize(
    ("waited", "op", "certain", "possible"),
    [
        ("item", "aten::item", True, True),
        ("float", "aten::item", True, True),
        ("bool", "aten::is_nonzero", True, True),
        ("[]", "aten::index", True, True),
        ("[]", "aten::to", True, True),
        ("masked_select", "aten::masked_select", True, True),
        ("_cuda_synchronize", "cudaDeviceSynchronize", True, True),
        ("item", "aten::nonzero", False, False),
        ("synchronize", "aten::item", False, False),
        ("run_backward", "aten::item", False, False),
        ("read_it", "aten::item", False, True),
        (None, "aten::item", False, True),
    ],
)
def test_a_call_is_of_the_ops_that_it_runs(waited: str | None, op: str, certain: bool, possible: bool) -> None:
    assert (is_known_to_run(wait(waited), op), may_run(wait(waited), op)) == (certain, possible)
