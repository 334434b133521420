"""The prefetcher hands out every batch once, whatever it is made of; on a GPU with the values that it had."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

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


@pytest.mark.gpu
def test_values_are_right_behind_slow_kernels_and_with_reused_memory() -> None:
    host = [torch.full((1 << 20,), float(number)).pin_memory() for number in range(30)]
    sums = []
    for batch in Prefetcher(host, "cuda"):
        torch.cuda._sleep(1_000_000)  # type: ignore[no-untyped-call]  # the kernels that read it come late
        sums.append(batch.sum())
    assert [value.item() for value in sums] == [float(number) * (1 << 20) for number in range(30)]
