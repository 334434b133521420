"""The calls of a language model that answers requests, one per token of an answer."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class ModelCalls:
    """The calls in order, those of the thread that makes most."""

    start_ns: npt.NDArray[np.int64]
    end_ns: npt.NDArray[np.int64]
    """The end of what shows the call, not of the call."""
    decodes: npt.NDArray[np.bool_]
    """Whether a call makes one further token per request; otherwise it takes in prompts."""
    requests: npt.NDArray[np.int64]
    """-1 where unknown."""
    tokens: npt.NDArray[np.int64]
    """Tokens that all requests put in; -1 where unknown."""

    def __len__(self) -> int:
        return len(self.start_ns)


def no_model_calls() -> ModelCalls:
    """Return what a trace has of a program that does not run a language model, or trains one."""
    numbers = np.zeros(0, np.int64)
    return ModelCalls(numbers, numbers, np.zeros(0, bool), numbers, numbers)
