"""Gradients of the program that nothing has read."""

import gc
from collections.abc import Iterator
from typing import Any

import torch

from pinprof.trace.info import UnreadGradients

MOST_KINDS = 4
"""The most shapes and classes that are kept."""
PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Tensors of other classes may do anything when they are asked."""


def unread_gradients() -> UnreadGradients:
    """Return the gradients that no code of Python has read so far: no optimizer, hook or line of the program.

    Torch makes a gradient's Python object when Python first asks for it, and keeps it as long as the tensor: a gradient
    whose object is not among those that exist was never read. Asking for it here makes it, so ask once a step.
    """
    objects = gc.get_objects()
    tensors = [thing for thing in objects if type(thing) in PLAIN]
    existing = set(map(id, tensors))
    leaves = [tensor for tensor in tensors if tensor.is_leaf and tensor.requires_grad]
    unread = [leaf for leaf in leaves if leaf.grad is not None and id(leaf.grad) not in existing]
    parameters = [tensor for tensor in unread if isinstance(tensor, torch.nn.Parameter)]
    inputs = [tensor for tensor in unread if not isinstance(tensor, torch.nn.Parameter)]
    return UnreadGradients(
        inputs=_first(tuple(tensor.shape) for tensor in sorted(inputs, key=torch.numel, reverse=True)),
        parameters=len(parameters),
        modules=_first(_owners(objects, set(map(id, parameters)))),
        elements=sum(tensor.numel() for tensor in unread),
    )


def _owners(objects: list[Any], parameters: set[int]) -> Iterator[str]:
    """Yield the classes of the modules that hold some of these parameters."""
    for module in objects:
        if issubclass(type(module), torch.nn.Module) and any(
            id(parameter) in parameters for parameter in module.parameters(False)
        ):
            yield type(module).__name__


def _first(things: Any) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(things))[:MOST_KINDS]
