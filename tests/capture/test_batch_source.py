"""How many batches are left, and what the windows make of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from pinprof.capture.observe.journal import Journal, noticing_work
from pinprof.capture.window.recording import profile
from pinprof.program.machine import Clock


@pytest.fixture
def journal(no_recording: None) -> Iterator[Journal]:
    journal = Journal(Clock)
    with noticing_work(journal):
        yield journal


def batches(count: int, workers: int = 0) -> "DataLoader[tuple[torch.Tensor, ...]]":
    return DataLoader(TensorDataset(torch.zeros(count, 1)), batch_size=1, num_workers=workers)


def test_the_batches_of_the_first_epoch_are_counted_down(journal: Journal) -> None:
    left = []
    for _ in batches(4):
        left.append(journal.batch_source.left)
        journal.end_step("plain")
    assert left == [3, 2, 1, 0]


def test_steps_of_several_batches_are_fewer(journal: Journal) -> None:
    drawn = iter(batches(12))
    for _ in range(2):
        for _ in range(3):
            next(drawn)
        journal.end_step("plain")
    assert journal.steps_left == 2


def test_nobody_knows_how_many_epochs_follow_the_first(journal: Journal) -> None:
    loader = batches(2)
    assert len(list(loader)) == 2
    drawn = iter(loader)
    next(drawn)
    assert journal.batch_source.left is None


def test_the_batches_that_workers_begin_at_the_start_are_told_from_later_ones(journal: Journal) -> None:
    loader = DataLoader(TensorDataset(torch.zeros(12, 1)), batch_size=1, num_workers=2, prefetch_factor=2)
    filling = []
    for _ in range(2):
        for _ in loader:
            filling.append(journal.batch_source.is_filling)
            journal.end_step("plain")
    assert filling == 2 * [*[True] * 4, *[False] * 8]
    assert journal.log().filling == (0, 1, 2, 3, 12, 13, 14, 15)
    next(iter(batches(4)))
    assert not journal.batch_source.is_filling  # without workers, each batch is made when it is asked for


def test_a_short_epoch_is_recorded_instead_of_timed_to_its_end(tmp_path: Path) -> None:
    with profile(tmp_path / "trace.json", warmup=5, max_warmup=5, plain_seconds=1000.0, steps=4) as recording:
        for _ in batches(40):
            torch.ones(8).sum()
            recording.step()
    assert recording.recorded_steps == 4
    assert recording.plain is not None
    assert 15 <= recording.plain.steps <= 30  # of 40: 5 for the warm-up, 2 for the profiler's, 4 recorded, 3 to spare


def test_of_several_epochs_the_step_is_timed_as_asked_for(tmp_path: Path) -> None:
    loader = batches(20)
    with profile(
        tmp_path / "trace.json", warmup=25, max_warmup=25, plain_steps=40, plain_seconds=0.0, steps=4
    ) as recording:
        for _ in range(6):
            for _ in loader:
                torch.ones(8).sum()
                recording.step()
    assert recording.plain is not None
    assert recording.plain.steps == 40
