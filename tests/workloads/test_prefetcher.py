"""The prefetcher hands out every batch once, whatever it is made of; on a GPU with the values that it had."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from pinprof.workloads.prefetcher import Prefetcher

DEVICES = [torch.device("cpu"), pytest.param(torch.device("cuda"), marks=pytest.mark.gpu)]
on_each_device = pytest.mark.parametrize("device", DEVICES, ids=str)


class Pair(NamedTuple):
    images: Tensor
    labels: Tensor


@on_each_device
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_every_batch_once_and_in_order(device: torch.device, count: int) -> None:
    batches = [torch.full((3,), float(number)) for number in range(count)]
    assert [batch.tolist() for batch in Prefetcher(batches, device)] == [[float(number)] * 3 for number in range(count)]


@on_each_device
def test_a_loader_may_be_run_through_again(device: torch.device) -> None:
    prefetcher = Prefetcher(DataLoader(TensorDataset(torch.arange(6)), batch_size=2), device)
    assert [len(list(prefetcher)) for _ in range(2)] == [3, 3]


@on_each_device
def test_nested_containers_keep_their_kind(device: torch.device) -> None:
    one, two = torch.ones(2), torch.zeros(2)
    (batch,) = Prefetcher([{"pair": Pair(one, two), "list": [one, "name"], "tuple": (two, 3), "none": None}], device)
    made: Any = batch
    assert isinstance(made["pair"], Pair)
    assert made["pair"].images.device.type == device.type
    assert made["list"][1] == "name"
    assert type(made["list"]) is list
    assert made["tuple"][1] == 3
    assert type(made["tuple"]) is tuple
    assert made["none"] is None


def test_only_one_batch_is_drawn_ahead() -> None:
    drawn = []

    def endless() -> Iterator[Tensor]:
        while True:
            drawn.append(torch.ones(1))
            yield drawn[-1]

    batches = iter(Prefetcher(endless(), "cpu"))
    next(batches)
    assert len(drawn) == 2


@pytest.mark.gpu
def test_values_are_right_behind_slow_kernels_and_with_reused_memory() -> None:
    host = [torch.full((1 << 20,), float(number)).pin_memory() for number in range(30)]
    sums = []
    for batch in Prefetcher(host, "cuda"):
        torch.cuda._sleep(1_000_000)  # type: ignore[no-untyped-call]  # the kernels that read it come late
        sums.append(batch.sum())
    assert [value.item() for value in sums] == [float(number) * (1 << 20) for number in range(30)]
