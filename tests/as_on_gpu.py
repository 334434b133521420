"""Runs programs as if on a GPU: tensors that say where they are, and that only a copy brings to the host."""

from collections.abc import Callable
from typing import Any

import torch

TRAIN = "train"

STEPS = (5, 4, 1, 0)
"""With so many steps a changed program is held to what it showed before."""


class OnGpu(torch.Tensor):
    """A tensor of the host that behaves as one of a GPU: what is made of it is there, too, and looks otherwise."""

    def cpu(self, *_: Any) -> torch.Tensor:
        return self.as_subclass(torch.Tensor).clone()

    def to(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return self.cpu() if "cpu" in map(str, args) else super().to(*args, **kwargs)

    def numpy(self, **_: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"{self.cpu()!r} on cuda:0"

    def __str__(self) -> str:
        return repr(self)

    def __format__(self, spec: str) -> str:
        return format(self.cpu(), spec) if self.dim() == 0 else repr(self)


def as_if(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor that is on a GPU, as far as a program can tell."""
    return tensor.as_subclass(OnGpu)


def shown(code: str, steps: int, there: Callable[[torch.Tensor], torch.Tensor] = as_if) -> list[str]:
    """Return what `train(w, data)` of a program prints and returns; its last word is the error that ends it.

    It gets some steps of data that is on a GPU, or where else `there` puts it.
    """
    torch.manual_seed(3)
    data = [tuple(there(torch.randn(4).round(decimals=1)) for _ in "xy") for _ in range(steps)]
    w = there(torch.tensor(0.7)).requires_grad_()
    seen: list[str] = []
    space: dict[str, Any] = {"__name__": "program", "print": lambda *values: seen.append(" ".join(map(str, values)))}
    exec(compile(code, "train.py", "exec"), space)
    try:
        seen.append(repr(space[TRAIN](w, data)))
    except Exception as error:  # noqa: BLE001  of any kind
        seen.append(type(error).__name__)
    return seen


def check_shows_the_same(before: str, after: str, there: Callable[[torch.Tensor], torch.Tensor] = as_if) -> None:
    """Hold a changed program to what it showed before, with some steps and with none; what failed may run now."""
    for steps in STEPS:
        was = shown(before, steps, there)
        assert shown(after, steps, there) == was or was[-1].endswith("Error"), (steps, after)
