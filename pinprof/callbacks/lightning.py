"""Records a training of PyTorch Lightning, through a callback."""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pinprof.callbacks.training import TrainingRecording

LIGHTNING_PACKAGES = ("lightning.pytorch", "pytorch_lightning")
"""The two packages of Lightning; a trainer of one takes callbacks of both."""


def _callback_class() -> Any:
    """Return Lightning's Callback, from the package that the program already uses, if any."""
    installed = [package for package in LIGHTNING_PACKAGES if find_spec(package.partition(".")[0])]
    if not installed:
        raise ImportError("PyTorch Lightning is not installed: pip install lightning, or pytorch-lightning")
    used = next((package for package in installed if package in sys.modules), installed[0])
    return import_module(used).Callback


Callback: Any = _callback_class()


class PinprofCallback(Callback):  # type: ignore[misc]  # its base depends on the installed package
    """Records the first training of a Trainer.

        trainer = Trainer(callbacks=[PinprofCallback("out.json.gz")])

    A step begins with the first batch after an optimizer step and ends where the next one begins: with gradient
    accumulation it has several batches, and it includes the fetch of the next batch. The `options` are those of
    `profile()`. After the recording the training goes on, or ends if `stop` is set; a training on several
    ranks cannot end that way. Each rank writes its own trace, such as out.rank3.json.gz.

    The trainer's loggers get the figures of the recorded steps, those of `Report.scalars()`, as soon as these are
    recorded; the training stands still until the trace is analysed.

    Raises CaptureError at the beginning of the training if the trace cannot be written. Later it never fails the
    training: after an early end or an error it keeps the complete steps, and says on standard error where they are.
    """

    def __init__(self, path: str | os.PathLike[str], *, stop: bool = False, **options: Any) -> None:
        super().__init__()
        self._training = TrainingRecording(path, stop=stop, options=options)
        self._optimizer_steps = -1

    def on_train_start(self, trainer: Any, *_: Any) -> None:
        """Prepare the recording."""

        def log(figures: dict[str, float]) -> None:
            for logger in trainer.loggers:
                logger.log_metrics(figures, trainer.global_step)

        self._training.begin(trainer.global_rank, trainer.world_size, log if trainer.loggers else None)

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        """End a step and begin the next, unless this batch only adds to the gradients of earlier batches."""
        if trainer.global_step == self._optimizer_steps:
            return
        self._optimizer_steps = trainer.global_step
        if self._training.boundary():
            trainer.should_stop = True

    def on_validation_start(self, *_: Any) -> None:
        """Note that validation runs."""
        self._training.validated()

    def on_train_end(self, *_: Any) -> None:
        """End the recording if it still runs."""
        self._training.end()

    def on_exception(self, *_: Any) -> None:
        """Keep what was recorded before the training failed or was interrupted."""
        self._training.keep()
