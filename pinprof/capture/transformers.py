"""Recording a training of the Trainer of Hugging Face's transformers, by a callback."""

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pinprof.capture.training import TrainingRecording

if find_spec("transformers") is None:
    raise ImportError("transformers is not installed: pip install 'transformers[torch]'")
TrainerCallback: Any = import_module("transformers").TrainerCallback


class PinprofCallback(TrainerCallback):  # type: ignore[misc]  # untyped, so that types are checked without transformers too
    """Records the first training of a Trainer.

        trainer = Trainer(model, args, train_dataset=dataset, callbacks=[PinprofCallback("out.json.gz")])

    A step is an optimizer step, with all the batches whose gradients it takes, and the fetch of the batches of the next
    is in it. The `options` are those of `profile()`. Once the steps are recorded the training goes on, or ends if
    `stop` is set (which several ranks cannot do together). Each of several ranks writes its own trace, as
    out.rank3.json.gz.

    Raises CaptureError as the training begins if the trace cannot be written. After that it lets the training be; an
    early end keeps the complete steps, and where they are is said on standard error. The Trainer does not tell when a
    training fails: then they are kept when the program ends, or when you call `end()`.
    """

    def __init__(self, path: str | os.PathLike[str], *, stop: bool = False, **options: Any) -> None:
        self._training = TrainingRecording(path, stop=stop, options=options)

    def end(self) -> None:
        """Keep what was recorded, without waiting for the program to end."""
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
        """End the recording, if it still goes on."""
        self._training.end()
