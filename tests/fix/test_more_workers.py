"""Workers for a DataLoader: whether it then yields the same, to the bit, and whether they pay."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fixing import LOADER, mended
from torch.utils.data import DataLoader, TensorDataset

from pinprof.fix import Chosen
from pinprof.trace.constructors import MadeLoader

ANY = Chosen(changes_numbers=True)
FIXED = replace(LOADER, num_workers=0, foreign=(), fixed=True, length=1000, begun=1)
PROGRAM = """\
import torch
from torch.utils.data import DataLoader
loader = DataLoader(data, shuffle=True)  #! loader
for i, (x, y) in enumerate(loader):  #! loop
    f(x)  #? PIN402
if __name__ == "__main__": pass
"""
MORE = "DataLoader(data, shuffle=True, num_workers=4)"
PERSISTENT = "DataLoader(data, shuffle=True, num_workers=4, persistent_workers=True)"


@pytest.mark.parametrize(
    ("loader", "makes", "chosen"),
    [
        (FIXED, MORE, Chosen()),
        (FIXED, PERSISTENT, ANY),
        (replace(FIXED, num_workers=2), MORE, Chosen()),  # they started with each epoch before, too
        (replace(FIXED, fixed=False), PERSISTENT, ANY),
    ],
)
def test_workers_that_yield_the_same_need_no_leave(
    tmp_path: Path, loader: MadeLoader, makes: str, chosen: Chosen
) -> None:
    outcome = mended(tmp_path, PROGRAM, loader=loader, chosen=chosen)
    assert makes in outcome.code, outcome.why
    (patch,) = outcome.patches.patches
    assert patch.change.numbers == ("equal" if makes == MORE else "different")
    assert patch.change.saving is not None
    assert not patch.change.part


@pytest.mark.parametrize(
    ("loader", "why"),
    [
        (replace(FIXED, fixed=False), "changes numbers"),
        (replace(FIXED, own_collate=True), "a function of the program's own makes its batches"),
        (replace(FIXED, length=600), "changes numbers"),  # of 1 ms each: less than twice what starting workers takes
        (replace(FIXED, length=None), "changes numbers"),
        (replace(FIXED, begun=500), "changes numbers"),  # each step begins an epoch
        (replace(FIXED, batch_size=None), "changes numbers"),
        (replace(FIXED, drawn=1), "changes numbers"),  # or makes a DataLoader
    ],
)
def test_workers_that_may_yield_something_else_or_cost_more_need_leave(
    tmp_path: Path, loader: MadeLoader, why: str
) -> None:
    outcome = mended(tmp_path, PROGRAM, loader=loader)
    assert outcome.is_unchanged, outcome.code
    assert why in outcome.why


def test_a_data_set_that_the_program_changes_is_not_read_by_new_workers(tmp_path: Path) -> None:
    outcome = mended(tmp_path, f"{PROGRAM}data.shrink()\n", loader=FIXED)
    assert outcome.is_unchanged
    assert "may change the data set while workers read it" in outcome.why


def train_with(workers: int) -> list[float]:
    """Return the losses of three epochs, of which the second ends early."""
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(32, 8), torch.randint(3, (32,)))
    model = torch.nn.Sequential(torch.nn.Linear(8, 3), torch.nn.Dropout(0.5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=workers)
    losses = []
    for epoch in range(3):
        for step, (x, y) in enumerate(loader):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
            if (epoch, step) == (1, 2):
                break
    return losses


def test_workers_that_start_with_each_epoch_leave_all_numbers_as_they_are() -> None:
    assert train_with(0) == train_with(2)
