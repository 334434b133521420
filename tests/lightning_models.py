"""Models for PyTorch Lightning, in a module of their own because Lightning takes seconds to import."""

from importlib import import_module
from typing import Any

import torch
from torch import nn

from pinprof.callbacks.lightning import PinprofCallback

__all__ = ["CSVLogger", "Model", "PinprofCallback", "Trainer", "TwoOptimizers"]

lightning: Any = import_module("pytorch_lightning")
Trainer = lightning.Trainer
CSVLogger: Any = import_module("pytorch_lightning.loggers").CSVLogger


class Model(lightning.LightningModule):  # type: ignore[misc]  # untyped: the library is not installed everywhere
    """One layer; fails at the batch `fail_at`, counted from 0 over all epochs."""

    def __init__(self, fail_at: int = -1) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.fail_at = fail_at
        self.batches = 0

    def training_step(self, batch: list[torch.Tensor], _batch_idx: int) -> torch.Tensor | None:
        if self.batches == self.fail_at:
            raise ZeroDivisionError
        self.batches += 1
        with torch.profiler.record_function("batch"):
            return self.layer(batch[0]).sum()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.01)


class TwoOptimizers(Model):
    """Steps two optimizers per batch, by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: list[torch.Tensor], _batch_idx: int) -> None:
        for optimizer in self.optimizers():
            loss = super().training_step(batch, 0)
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(self.parameters(), 0.01) for _ in range(2)]
