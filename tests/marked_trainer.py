"""A Trainer of transformers, in a module of its own because transformers takes seconds to import."""

from importlib import import_module
from typing import Any

import torch

from pinprof.callbacks.transformers import PinprofCallback

__all__ = ["MarkedTrainer", "PinprofCallback", "transformers"]

transformers: Any = import_module("transformers")


class MarkedTrainer(transformers.Trainer):  # type: ignore[misc]  # untyped: the library is not installed everywhere
    """Marks each batch in the trace; fails at the batch `fail_at`, counted from 0."""

    fail_at = -1
    batches = 0

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        if self.batches == self.fail_at:
            raise ZeroDivisionError
        self.batches += 1
        with torch.profiler.record_function("batch"):
            return super().training_step(*args, **kwargs)
