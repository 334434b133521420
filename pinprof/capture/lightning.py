"""Recording a training of PyTorch Lightning, by a callback."""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pinprof.capture.training import TrainingRecording

PACKAGES = ("lightning.pytorch", "pytorch_lightning")
"""The two names under which Lightning is published; the trainers of each take the callbacks of either."""


def _callback_class() -> Any:
    """Return Lightning's Callback, of the package that the program uses already if it uses one."""
    installed = [package for package in PACKAGES if find_spec(package.partition(".")[0])]
    if not installed:
        raise ImportError("PyTorch Lightning is not installed: pip install lightning, or pytorch-lightning")
    used = next((package for package in installed if package in sys.modules), installed[0])
    return import_module(used).Callback


Callback: Any = _callback_class()


class PinprofCallback(Callback):  # type: ignore[misc]  # a class of whichever is installed
    """Records the first training of a Trainer.

        trainer = Trainer(callbacks=[PinprofCallback("out.json.gz")])

    A step begins with the first batch after an optimizer step and ends where the next one begins: with gradient
    accumulation it has several batches, and the fetch of the next batch is in it. The `options` are those of
    `profile()`. Once the steps are recorded the training goes on, or ends if `stop` is set (which several ranks cannot
    do together). Each of several ranks writes its own trace, as out.rank3.json.gz.

    Raises CaptureError as the training begins if the trace cannot be written. After that it lets the training be: an
    early end or an error keeps the complete steps, and where they are is said on standard error.
    """

    def __init__(self, path: str | os.PathLike[str], *, stop: bool = False, **options: Any) -> None:
        super().__init__()
        self._training = TrainingRecording(path, stop=stop, options=options)
        self._optimizer_steps = -1

    def on_train_start(self, trainer: Any, *_: Any) -> None:
        """Prepare the recording."""
        self._training.begin(trainer.global_rank, trainer.world_size)

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        """End a step and begin the next, unless this batch only adds to the gradients of the ones before."""
        if trainer.global_step == self._optimizer_steps:
            return
        self._optimizer_steps = trainer.global_step
        if self._training.boundary():
            trainer.should_stop = True

    def on_validation_start(self, *_: Any) -> None:
        """Note that validation runs."""
        self._training.validated()

    def on_train_end(self, *_: Any) -> None:
        """End the recording, if it still goes on."""
        self._training.end()

    def on_exception(self, *_: Any) -> None:
        """Keep what was recorded before the training failed or was interrupted."""
        self._training.end()
