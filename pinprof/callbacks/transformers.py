"""Records a training of the Trainer of Hugging Face's transformers, through a callback."""

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pinprof.callbacks.training import TrainingRecording

if find_spec("transformers") is None:
    raise ImportError("transformers is not installed: pip install 'transformers[torch]'")

TrainerCallback: Any = import_module("transformers").TrainerCallback


class PinprofCallback(TrainerCallback):  # type: ignore[misc]  # untyped, so that mypy works without transformers
    """Records the first training of a Trainer.

        trainer = Trainer(model, args, train_dataset=dataset, callbacks=[PinprofCallback("out.json.gz")])

    A step is an optimizer step with all the batches whose gradients it uses; it includes the fetch of the next step's
    batches. The `options` are those of `profile()`. After the recording the training goes on, or ends if `stop` is set
    (which several ranks cannot do together). Each of several ranks writes its own trace, such as out.rank3.json.gz.

    A callback does not reach the Trainer's log. `trainer.log(pinprof.load("out.json.gz").scalars())` after the training
    hands the figures to all that `report_to` names.

    Raises CaptureError at the beginning of the training if the trace cannot be written. Later it never fails the
    training: after an early end it keeps the complete steps, and says on standard error where they are. The Trainer
    does not report a failed training; then it keeps the steps when the program ends, or when you call `end()`.
    """

    def __init__(self, path: str | os.PathLike[str], *, stop: bool = False, **options: Any) -> None:
        self._training = TrainingRecording(path, stop=stop, options=options)

    def end(self) -> None:
        """Keep the recorded steps, without waiting for the program to end."""
        self._training.end()

    def on_train_begin(self, args: Any, *_: Any, **__: Any) -> None:
        """Prepare the recording."""
        self._training.begin(args.process_index, args.world_size)

    def on_step_begin(self, _args: Any, _state: Any, control: Any, **__: Any) -> None:
        """End a step and begin the next."""
        if self._training.boundary():
            control.should_training_stop = True

    def on_evaluate(self, *_: Any, **__: Any) -> None:
        """Note that validation ran."""
        self._training.validated()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """End the recording if it still runs."""
        self._training.end()
