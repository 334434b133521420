"""Steps that make the host wait for the GPU, and two that do not."""

import time

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  torch's own name for it

from pinprof.workloads.model import LEARNING_RATE, Step, resident

HOST_WORK_MS = 3.0
TINY_LAYERS = 50
TINY_WIDTH = 1024
WORKSPACE_ROWS = 65_536  # times 4 KiB: 256 MiB at scale 1


def clean(device: torch.device, scale: float = 1.0) -> Step:
    """Train on data that is on the device already, and wait for nothing."""
    training, batch = resident(device, scale)
    return lambda: training.train(batch)


def loss_item(device: torch.device, scale: float = 1.0) -> Step:
    """Read the loss in every step, without other work for the host."""
    training, batch = resident(device, scale)
    losses: list[float] = []
    return lambda: losses.append(training.train(batch).item())


def loss_item_host_work(device: torch.device, scale: float = 1.0) -> Step:
    """Read the loss in every step, then work on the host for 3 ms that could have overlapped the GPU's work."""
    read_loss = loss_item(device, scale)

    def step() -> None:
        read_loss()
        work_on_host(HOST_WORK_MS * scale)

    return step


def work_on_host(milliseconds: float) -> float:
    """Keep the host busy for this time, as decoding or augmenting a batch would; return what it computed."""
    numbers = np.linspace(0.0, 1.0, 20_000)
    total = 0.0
    end = time.perf_counter() + milliseconds / 1e3
    while time.perf_counter() < end:
        total += float(np.sin(numbers).sum())
    return total


def mask_loss(device: torch.device, scale: float = 1.0) -> Step:
    """Take the loss over the labelled rows only, picked by a boolean mask."""
    training, batch = resident(device, scale)
    labelled = torch.rand(len(batch), device=device) < 0.5  # noqa: PLR2004  half of them
    return lambda: training.update(F.cross_entropy(training.model(batch)[labelled], training.target[labelled]))


def empty_cache(device: torch.device, scale: float = 1.0) -> Step:
    """Free all cached device memory in every step, with a large workspace in it."""
    training, batch = resident(device, scale)

    def step() -> None:
        workspace = torch.empty(round(WORKSPACE_ROWS * scale), 1024, device=device)
        training.train(batch)
        del workspace
        torch.cuda.empty_cache()

    return step


def small_kernels(device: torch.device, scale: float = 1.0) -> Step:
    """Train a chain of tiny layers: the host launches them more slowly than the GPU runs them."""
    layers = max(2, round(TINY_LAYERS * scale))
    weights = [torch.randn(TINY_WIDTH, device=device, requires_grad=True) for _ in range(layers)]
    optimizer = torch.optim.SGD(weights, lr=LEARNING_RATE, fused=device.type == "cuda")
    batch = torch.randn(TINY_WIDTH, device=device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        chain(batch, weights).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def chain(batch: Tensor, weights: list[Tensor]) -> Tensor:
    """Return one number computed from the batch by three tiny operations a layer."""
    hidden = batch
    for weight in weights:
        hidden = torch.tanh(hidden * weight + batch)
    return hidden.sum()
