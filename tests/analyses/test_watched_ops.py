"""Which ops a call in Python may run where it waits."""

import pytest

from pinprof.analyses.syncs.lines.matching import may_run
from pinprof.trace.lines import SourceLine, WatchedWait


def wait(waited: str | None) -> WatchedWait:
    return WatchedWait(SourceLine("train.py", 7, "train"), waited, waited, "main", 1, (0,))


@pytest.mark.parametrize(
    ("waited", "op", "possible"),
    [
        ("item", "aten::item", True),
        ("float", "aten::item", True),
        ("bool", "aten::is_nonzero", True),
        ("[]", "aten::index", True),
        ("[]", "aten::to", True),
        ("masked_select", "aten::masked_select", True),
        ("_cuda_synchronize", "cudaDeviceSynchronize", True),
        ("item", "aten::nonzero", False),
        ("synchronize", "aten::item", False),
        ("run_backward", "aten::item", False),
        ("read_it", "aten::item", True),
        (None, "aten::item", True),
    ],
)
def test_a_call_is_of_the_ops_that_it_runs(waited: str | None, op: str, possible: bool) -> None:
    assert may_run(wait(waited), op) == possible
