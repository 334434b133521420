"""The small network that the workloads train, and sizes with which a step takes several milliseconds."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  torch's own name for it

Step = Callable[[], None]
"""One training step."""


class Build(Protocol):
    """Prepares a workload: a context manager that gives its step and releases what it holds at the end."""

    def __call__(self, device: torch.device, scale: float = 1.0) -> AbstractContextManager[Step]:
        """Return the workload on `device`, all sizes times `scale`."""


# At scale 1 a batch is 48 MiB of float32: about 1 ms from pinned memory at 55 GB/s, 5 to 6 ms from pageable memory at
# 9 GB/s. The network then takes 0.46 TFLOP a step, about 9 ms on an H200 in float32, in some fifty GPU events.
ROWS = 4096
FEATURES = 3072
CLASSES = 1024
MIN_SIZE = 8
LEARNING_RATE = 1e-3


@dataclass(frozen=True)
class ModelSizes:
    """How large a workload is: rows of a batch, features of a row, classes to tell apart."""

    rows: int
    features: int
    classes: int


def sizes(scale: float) -> ModelSizes:
    """Return the workloads' sizes times `scale`, none below 8."""
    rows, features, classes = (max(MIN_SIZE, round(size * scale)) for size in (ROWS, FEATURES, CLASSES))
    return ModelSizes(rows, features, classes)


@dataclass(frozen=True)
class Trainer:
    """A plain network with its optimizer and the targets of a batch, all on one device."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    target: Tensor

    def update(self, loss: Tensor) -> None:
        """Run backward and change the weights."""
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def train(self, batch: Tensor) -> Tensor:
        """Train on a batch that is on the device; return its loss, still there."""
        loss = F.cross_entropy(self.model(batch), self.target)
        self.update(loss)
        return loss.detach()


def trainer(device: torch.device, size: ModelSizes, *, hidden: int = 2) -> Trainer:
    """Return a fresh network for batches of this size; its optimizer is fused, so that a step has few events."""
    layers: list[nn.Module] = []
    for _ in range(hidden):
        layers += [nn.Linear(size.features, size.features), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(size.features, size.classes)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, fused=device.type == "cuda")
    return Trainer(model, optimizer, torch.randint(size.classes, (size.rows,), device=device))


def host_batches(size: ModelSizes, count: int = 2, *, pinned: bool = False) -> list[Tensor]:
    """Return different batches in host memory: at least two, so that no step can reuse the copy of the one before."""
    batches = [torch.randn(size.rows, size.features) for _ in range(count)]
    return [batch.pin_memory() for batch in batches] if pinned else batches


def device_batch(size: ModelSizes, device: torch.device) -> Tensor:
    """Return a batch that is on the device from the start."""
    return torch.randn(size.rows, size.features, device=device)


def forever(batches: list[Tensor]) -> Iterator[Tensor]:
    """Yield the batches in turn, without end."""
    while True:
        yield from batches


def model_sizes(chosen: Mapping[str, int]) -> ModelSizes:
    """Return the sizes of a network for batches of such rows and features."""
    return ModelSizes(chosen["rows"], chosen["features"], CLASSES)
