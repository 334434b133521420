"""Gradients that nothing reads: of an input, of a module that no optimizer trains, or of none."""

import gc
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from pinprof.program.machine import unread_gradients
from pinprof.trace.metadata.info import UnreadGradients

NONE = UnreadGradients()
Step = Callable[[nn.Module, torch.optim.Optimizer, nn.Module], Tensor]
"""Makes a step of a model, its optimizer, and a module that no optimizer has; returns what has to live on."""


def trained(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> None:
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()


def plain(model: nn.Module, optimizer: torch.optim.Optimizer, _: nn.Module) -> Tensor:
    trained(model, optimizer, x := torch.randn(2, 4))
    return x


def of_input(model: nn.Module, optimizer: torch.optim.Optimizer, _: nn.Module) -> Tensor:
    trained(model, optimizer, x := torch.randn(2, 4, requires_grad=True))
    return x


def input_read(model: nn.Module, optimizer: torch.optim.Optimizer, _: nn.Module) -> Tensor:
    trained(model, optimizer, x := torch.randn(2, 4, requires_grad=True))
    assert x.grad is not None
    return x


def not_trained(model: nn.Module, optimizer: torch.optim.Optimizer, before: nn.Module) -> Tensor:
    trained(model, optimizer, before(torch.randn(2, 4)))
    return torch.empty(0)


def read_by_hook(model: nn.Module, optimizer: torch.optim.Optimizer, before: nn.Module) -> Tensor:
    norms: list[Tensor] = []
    for weight in before.parameters():
        weight.register_post_accumulate_grad_hook(lambda weight: norms.append(torch.as_tensor(weight.grad)))  # type: ignore[no-untyped-call]
    trained(model, optimizer, before(torch.randn(2, 4)))
    return torch.cat([norm.flatten() for norm in norms])


def clipped(model: nn.Module, optimizer: torch.optim.Optimizer, before: nn.Module) -> Tensor:
    trained(model, optimizer, before(torch.randn(2, 4)))
    return nn.utils.clip_grad_norm_(before.parameters(), 1.0)


@pytest.mark.parametrize(
    ("step", "unread"),
    [
        (plain, NONE),
        (of_input, UnreadGradients(inputs=((2, 4),), elements=8)),
        (input_read, NONE),
        (not_trained, UnreadGradients(parameters=2, modules=("Linear",), elements=20)),
        (read_by_hook, NONE),
        (clipped, NONE),
    ],
)
def test_gradients_that_python_has_not_asked_for_are_unread(step: Step, unread: UnreadGradients) -> None:
    gc.collect()
    unread_gradients()  # those of other tests are read from now on
    model, before = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3)), nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())
    kept = [step(model, optimizer, before)]
    assert unread_gradients() == unread
    kept.clear()
