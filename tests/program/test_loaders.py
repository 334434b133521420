"""The DataLoaders that a program makes, as a recording stores them."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from pinprof.capture.observe.journal import Journal, noticing_work
from pinprof.capture.window.recording import profile
from pinprof.program.loaders import BatchSource, has_tensor
from pinprof.program.machine import Clock
from pinprof.trace import read_trace
from pinprof.trace.metadata.info import MadeLoader


class Endless(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            yield torch.ones(2)


class Pair(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


DATA = TensorDataset(torch.zeros(8, 2), torch.zeros(8))


@pytest.fixture
def source(no_recording: None) -> Iterator[BatchSource]:
    journal = Journal(Clock)
    with noticing_work(journal):
        yield journal.batch_source


def test_a_loader_says_how_it_loads(source: BatchSource) -> None:
    loader = DataLoader(DATA, batch_size=4, num_workers=2, persistent_workers=True)
    for _ in range(2):
        assert len(list(loader)) == 2
    (made,) = source.described(Counter()).loaders
    assert made == MadeLoader(2, persistent_workers=True, drawn=6, prefetch_factor=2, yields_tensors=True)


def test_only_what_the_recorded_steps_drew_counts(tmp_path: Path, no_recording: None) -> None:
    with profile(tmp_path / "a.json.gz", steps=2, warmup=1, plain_steps=0) as recording:
        kept, others = DataLoader(Endless(), batch_size=4), DataLoader(DATA)
        list(others)
        for _ in zip(range(8), kept, strict=False):
            recording.step()
    made = read_trace(tmp_path / "a.json.gz").info.made
    assert made
    assert [loader.drawn for loader in made.loaders] == [0, 2]
    assert [loader.drawn for loader in made.drawn] == [2]


@pytest.mark.parametrize(
    ("batch", "has"),
    [
        *((torch.zeros(2), True), ([torch.zeros(2), "name"], True), ((1, torch.zeros(2)), True)),
        *(({"x": [torch.zeros(2)]}, True), ("name", False), (Pair(torch.zeros(2), torch.zeros(2)), False)),
        *((torch.zeros(2).to_sparse(), False), (torch.nn.Parameter(torch.zeros(2)), False)),
        *(([torch.zeros(2)] * 100, False), ([[[[[torch.zeros(2)]]]]], False)),
    ],
)
def test_a_batch_has_a_tensor_that_can_be_pinned(*, batch: object, has: bool) -> None:
    assert has_tensor(batch) is has
