"""Steps that make the host wait for the GPU, and two that do not."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  torch's own name for it

from pinprof.workloads.model import LEARNING_RATE, Step, device_batch, sizes, trainer

HOST_WORK_MS = 3.0
TINY_LAYERS = 50
TINY_WIDTH = 1024
WORKSPACE_ROWS = 65_536  # times 4 KiB: 256 MiB at scale 1


@contextmanager
def clean(device: torch.device, scale: float = 1.0) -> Iterator[Step]:
    """Train on data that is on the device already, and wait for nothing."""
    size = sizes(scale)
    training = trainer(device, size)
    batch = device_batch(size, device)

    def step() -> None:
        training.train(batch)

    yield step


@contextmanager
def loss_item(device: torch.device, scale: float = 1.0) -> Iterator[Step]:
    """Read the loss in every step, without other work for the host."""
    size = sizes(scale)
    training = trainer(device, size)
    batch = device_batch(size, device)
    losses: list[float] = []

    def step() -> None:
        loss = training.train(batch)
        losses.append(loss.item())

    yield step


@contextmanager
def loss_item_host_work(device: torch.device, scale: float = 1.0) -> Iterator[Step]:
    """Read the loss in every step, then work on the host for 3 ms that could have overlapped the GPU's work."""
    size = sizes(scale)
    training = trainer(device, size)
    batch = device_batch(size, device)
    losses: list[float] = []

    def step() -> None:
        loss = training.train(batch)
        losses.append(loss.item())
        work_on_host(HOST_WORK_MS * scale)

    yield step


def work_on_host(milliseconds: float) -> float:
    """Keep the host busy for this time, as decoding or augmenting a batch would; return what it computed."""
    numbers = np.linspace(0.0, 1.0, 20_000)
    total = 0.0
    end = time.perf_counter() + milliseconds / 1e3
    while time.perf_counter() < end:
        total += float(np.sin(numbers).sum())
    return total


@contextmanager
def mask_loss(device: torch.device, scale: float = 1.0) -> Iterator[Step]:
    """Take the loss over the labelled rows only, picked by a boolean mask."""
    size = sizes(scale)
    training = trainer(device, size)
    batch = device_batch(size, device)
    labelled = torch.rand(size.rows, device=device) < 0.5  # noqa: PLR2004  half of them

    def step() -> None:
        output = training.model(batch)
        training.update(F.cross_entropy(output[labelled], training.target[labelled]))

    yield step


@contextmanager
def empty_cache(device: torch.device, scale: float = 1.0) -> Iterator[Step]:
    """Free all cached device memory in every step, with a large workspace in it."""
    size = sizes(scale)
    training = trainer(device, size)
    batch = device_batch(size, device)

    def step() -> None:
        workspace = torch.empty(round(WORKSPACE_ROWS * scale), 1024, device=device)
        training.train(batch)
        del workspace
        torch.cuda.empty_cache()

    yield step


@contextmanager
def small_kernels(device: torch.device, scale: float = 1.0) -> Iterator[Step]:
    """Train a chain of tiny layers: the host launches them more slowly than the GPU runs them."""
    weights = [
        torch.randn(TINY_WIDTH, device=device, requires_grad=True) for _ in range(max(2, round(TINY_LAYERS * scale)))
    ]
    optimizer = torch.optim.SGD(weights, lr=LEARNING_RATE, fused=device.type == "cuda")
    batch = torch.randn(TINY_WIDTH, device=device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        chain(batch, weights).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    yield step


def chain(batch: Tensor, weights: list[Tensor]) -> Tensor:
    """Return one number computed from the batch by three tiny operations a layer."""
    hidden = batch
    for weight in weights:
        hidden = torch.tanh(hidden * weight + batch)
    return hidden.sum()
