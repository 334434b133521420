"""The ways in which a program is measured: as people write it, and with fewer launches."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from scripts.launch_programs.models import Program, WithLoss, loss_of
from scripts.pair_programs.parts import Step, in_host_memory

WARM_UP = 3
"""Steps before a capture, as torch's notes advise."""
RATE = 1e-4

EAGER, LOOPED, FUSED, GRAPH_STEP, GRAPH_MODEL = "eager", "looped", "fused", "graph_step", "graph_model"
COMPILED, REDUCED = "compiled", "reduce_overhead"


def optimizer_of(program: Program, model: nn.Module, **options: Any) -> torch.optim.Optimizer:
    """Return the program's optimizer with torch's defaults, but for these options."""
    made: dict[str, Callable[..., torch.optim.Optimizer]] = {
        "sgd": lambda parameters, **more: torch.optim.SGD(parameters, lr=RATE, momentum=0.9, weight_decay=1e-4, **more),
        "adam": lambda parameters, **more: torch.optim.Adam(parameters, lr=RATE, **more),
        "adamw": lambda parameters, **more: torch.optim.AdamW(parameters, lr=RATE, **more),
    }
    return made[program.optimizer](model.parameters(), **options)


def build(program: Program, side: str, device: torch.device) -> Step:
    """Return one step of a program, changed as `side` says."""
    parts = program.build()
    model = WithLoss(parts.model, loss_of, program.dtype).to(device).train()
    host = tuple(in_host_memory(tensor, device, pinned=True) for tensor in parts.batch)
    options: dict[str, Any] = {LOOPED: {"foreach": False}, FUSED: {"fused": True}}.get(side, {})
    if side == GRAPH_STEP:
        return _whole_graph(program, model, host, device)
    if side == GRAPH_MODEL:
        sample = tuple(tensor.to(device) for tensor in host)
        called: Callable[..., Any] = torch.cuda.make_graphed_callables(model, sample)
    elif side in (COMPILED, REDUCED):
        called = torch.compile(model, mode="reduce-overhead" if side == REDUCED else None)
    else:
        called = model
    optimizer = optimizer_of(program, model, **options)

    def step() -> None:
        inputs, target = (tensor.to(device, non_blocking=True) for tensor in host)
        optimizer.zero_grad(set_to_none=True)
        called(inputs, target).backward()
        optimizer.step()

    return step


def _whole_graph(program: Program, model: nn.Module, host: tuple[Tensor, ...], device: torch.device) -> Step:
    """Return a step that copies its batch to where a graph of all the rest expects it."""
    options = {} if program.optimizer == "sgd" else {"capturable": True}
    optimizer = optimizer_of(program, model, **options)
    fixed = tuple(tensor.to(device) for tensor in host)

    def train() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(*fixed).backward()
        optimizer.step()

    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            train()
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        train()

    return partial(_replay, graph, fixed, host, (model, optimizer))


def _replay(
    graph: torch.cuda.CUDAGraph, fixed: tuple[Tensor, ...], host: tuple[Tensor, ...], _held: tuple[object, ...]
) -> None:
    """Replay a graph on the next batch; what it reads and writes is held as long as the step."""
    for tensor, batch in zip(fixed, host, strict=True):
        tensor.copy_(batch, non_blocking=True)
    graph.replay()
