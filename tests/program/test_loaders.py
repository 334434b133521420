"""The DataLoaders that a program makes, as a recording stores them."""

import gc
import inspect
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from pinprof.capture.observe.journal import Journal, noticing_work
from pinprof.capture.window.recording import profile
from pinprof.program.frames import shown_file
from pinprof.program.loaders import LoaderLog, has_tensor, loader_log, noting_loaders
from pinprof.program.machine import Clock
from pinprof.trace import read_trace
from pinprof.trace.info import MadeLoader


class Endless(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            yield torch.ones(2)


class Own(DataLoader[Any]):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class Pair(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


DATA = TensorDataset(torch.zeros(8, 2), torch.zeros(8))


@pytest.fixture
def journal(no_recording: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Journal]:
    """A journal that alone notes: recordings that other tests abandoned may still note until they are collected."""
    for name, empty in vars(LoaderLog()).items():
        monkeypatch.setattr(loader_log, name, empty)
    monkeypatch.setattr(DataLoader, "__iter__", inspect.unwrap(DataLoader.__iter__))
    journal = Journal(Clock)
    with noticing_work(journal):
        yield journal


def only_loader(drawn: dict[int, int] | None = None) -> MadeLoader:
    (loader,) = loader_log.described(drawn or {}).loaders
    return loader


def test_a_loader_says_how_it_loads(journal: Journal) -> None:
    kept = DataLoader(DATA, batch_size=4, num_workers=2, persistent_workers=True)
    assert only_loader() == MadeLoader(2, persistent_workers=True, prefetch_factor=2)
    del kept


@pytest.mark.parametrize("kind", [DataLoader, Own], ids=lambda kind: kind.__name__)
def test_a_subclass_is_noted_once(journal: Journal, kind: type[DataLoader[Any]]) -> None:
    kept = kind(DATA)
    assert only_loader()
    del kept


def test_the_file_that_makes_a_loader_or_an_optimizer_has_its_hash(journal: Journal) -> None:
    expected = {shown_file(__file__): sha256(Path(__file__).read_bytes()).hexdigest()}
    DataLoader(DATA)
    assert loader_log.sources == expected
    loader_log.sources.clear()
    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(3))])  # it inherits its __init__, which calls another one
    assert loader_log.sources == expected


def test_what_nobody_holds_any_more_is_not_told(journal: Journal) -> None:
    kept = DataLoader(DATA)
    del kept
    gc.collect()
    assert loader_log.described({}).loaders == ()


def test_the_first_batch_tells_whether_a_loader_yields_tensors(journal: Journal) -> None:
    kept = DataLoader(DATA, batch_size=4)
    assert not only_loader().yields_tensors
    next(iter(kept))
    assert only_loader().yields_tensors


def test_only_what_the_recorded_steps_drew_counts(tmp_path: Path, no_recording: None) -> None:
    with profile(tmp_path / "a.json.gz", steps=2, warmup=1, plain_steps=0) as recording:
        kept, others = DataLoader(Endless(), batch_size=4), DataLoader(DATA)
        list(others)
        for _ in zip(range(8), kept, strict=False):
            recording.step()
    made = read_trace(tmp_path / "a.json.gz").info.made
    assert made
    assert [loader.drawn for loader in made.loaders][-2:] == [2, 0]
    assert [loader.drawn for loader in made.drawn] == [2]


def test_blocks_within_each_other_note_once(journal: Journal) -> None:
    with noting_loaders():
        kept = DataLoader(DATA)
    assert only_loader()
    del kept


def test_torch_is_as_before_afterwards(no_recording: None) -> None:
    before = DataLoader.__init__, torch.optim.Optimizer.__init__
    with noting_loaders():
        assert DataLoader.__init__ is not before[0]
    assert (DataLoader.__init__, torch.optim.Optimizer.__init__) == before


@pytest.mark.parametrize(
    ("batch", "has"),
    [
        (torch.zeros(2), True),
        ([torch.zeros(2), "name"], True),
        ((1, torch.zeros(2)), True),
        ({"x": [torch.zeros(2)]}, True),
        ("name", False),
        (Pair(torch.zeros(2), torch.zeros(2)), False),
        (torch.zeros(2).to_sparse(), False),
        (torch.nn.Parameter(torch.zeros(2)), False),
        ([torch.zeros(2)] * 100, False),
        ([[[[[torch.zeros(2)]]]]], False),
    ],
)
def test_a_batch_has_a_tensor_that_can_be_pinned(*, batch: object, has: bool) -> None:
    assert has_tensor(batch) is has
