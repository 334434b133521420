"""What a program makes, and where, as a recording stores it."""

import gc
import inspect
from collections.abc import Iterator
from hashlib import sha256
from multiprocessing import get_all_start_methods, get_start_method
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from pinprof.capture.observe.journal import Journal, noticing_work
from pinprof.capture.window.recording import profile
from pinprof.program.constructors import constructors, described, noting_constructors
from pinprof.program.machine import Clock
from pinprof.trace import read_trace
from pinprof.trace.constructors import MadeLoader, MadeOptimizer


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
    monkeypatch.setattr(DataLoader, "__iter__", inspect.unwrap(DataLoader.__iter__))
    journal = Journal(Clock)
    with noticing_work(journal):
        yield journal


def line() -> int:
    frame = inspect.currentframe()
    assert frame
    assert frame.f_back
    return frame.f_back.f_lineno


def loader_at(number: int) -> MadeLoader:
    (loader,) = (loader for loader in constructors.described({}).loaders if loader.line == number)
    return loader


def optimizer_at(number: int) -> MadeOptimizer:
    (optimizer,) = (optimizer for optimizer in constructors.described({}).optimizers if optimizer.line == number)
    return optimizer


def test_a_loader_has_the_line_where_its_call_begins(journal: Journal) -> None:
    number = line() + 1
    kept = DataLoader(DATA, batch_size=4, num_workers=0)
    loader = loader_at(number)
    assert kept
    assert loader.file.endswith("test_constructors.py")
    assert loader.function == "test_a_loader_has_the_line_where_its_call_begins"
    assert loader.direct
    assert constructors.sources[loader.file] == sha256(Path(__file__).read_bytes()).hexdigest()
    assert loader.dataset == "torch.utils.data.dataset.TensorDataset"
    assert (loader.batch_size, loader.num_workers, loader.pin_memory, loader.iterable) == (4, 0, False, False)
    assert (loader.foreign, loader.fixed, loader.length, loader.begun) == ((), True, 2, 0)


def test_how_processes_start_is_told_and_not_settled(journal: Journal) -> None:
    before = get_start_method(allow_none=True)
    assert constructors.described({}).starts_by in get_all_start_methods()
    assert get_start_method(allow_none=True) == before  # asking otherwise would set it for good


def test_a_subclass_is_made_where_its_own_call_is(journal: Journal) -> None:
    kept, number = Own(DATA, collate_fn=list), line()
    loader = loader_at(number)
    assert kept
    assert loader.kind.endswith("Own")
    assert loader.own_collate


def test_what_nobody_holds_any_more_is_not_told(journal: Journal) -> None:
    kept, number = DataLoader(DATA), line()
    del kept
    gc.collect()
    assert not [loader for loader in constructors.described({}).loaders if loader.line == number]


def test_the_loops_and_the_batches_of_a_loader_are_told(journal: Journal) -> None:
    kept, number = DataLoader(DATA, batch_size=4), line()
    for _ in kept:
        pass
    looped = line() - 2
    assert [place.line for place in loader_at(number).loops] == [looped]
    assert loader_at(number).batch == ["tensor", "tensor"]
    assert loader_at(number).begun == 1
    next(iter(kept))
    assert loader_at(number).begun == 2


def test_only_what_the_recorded_steps_drew_counts(tmp_path: Path) -> None:
    with profile(tmp_path / "a.json.gz", steps=2, warmup=1, plain_steps=0) as recording:
        kept, others, number = DataLoader(Endless(), batch_size=4), DataLoader(DATA), line()
        list(others)
        for _ in zip(range(8), kept, strict=False):
            recording.step()
    info = read_trace(tmp_path / "a.json.gz").info
    assert info.made
    here = [loader for loader in info.made.loaders if loader.line == number]
    assert [(loader.iterable, loader.drawn) for loader in here] == [(True, 2), (False, 0)]
    assert info.made.drawn == tuple(here[:1])


def test_an_optimizer_says_what_it_was_given(journal: Journal) -> None:
    weight = torch.nn.Parameter(torch.zeros(3))
    kept, number = torch.optim.SGD([weight], lr=0.1, momentum=0.9, foreach=False), line()
    optimizer = optimizer_at(number)
    assert kept
    assert optimizer.kind == "torch.optim.sgd.SGD"
    options = (optimizer.foreach, optimizer.fused, optimizer.momentum, optimizer.differentiable)
    assert options == (False, None, True, False)
    assert not optimizer.plain_on_gpu


def test_an_optimizer_that_inherits_its_init_is_found_through_both(journal: Journal) -> None:
    kept, number = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(3))]), line()
    assert kept
    assert optimizer_at(number).kind == "torch.optim.adamw.AdamW"


def test_blocks_within_each_other_note_once(journal: Journal) -> None:
    with noting_constructors():
        kept, number = DataLoader(DATA), line()
    assert kept
    assert loader_at(number)


def test_torch_is_as_before_afterwards(no_recording: None) -> None:
    before = DataLoader.__init__, DataLoader.__iter__
    with noting_constructors():
        assert DataLoader.__init__ is not before[0]
    assert (DataLoader.__init__, DataLoader.__iter__) == before


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        (torch.zeros(2), "tensor"),
        ([torch.zeros(2), "name"], ["tensor", "str"]),
        ((torch.zeros(2), 1), {"tuple": ["tensor", "int"]}),
        ({"x": [torch.zeros(2)]}, {"dict": {"x": ["tensor"]}}),
        (Pair(torch.zeros(2), torch.zeros(2)), "Pair"),
        (torch.zeros(2).to_sparse(), "cpu Tensor"),
        (torch.nn.Parameter(torch.zeros(2)), "cpu Parameter"),
        ({1: torch.zeros(2)}, "dict"),
        ([0] * 100, "list"),
    ],
)
def test_batches_are_described(batch: object, told: object) -> None:
    assert described(batch) == told
