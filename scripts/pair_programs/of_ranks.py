"""Programs of several ranks, before and after a fix: data-parallel training in which one rank holds up the others."""

import time
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F  # noqa: N812  torch's own name for it
from torch.nn.parallel import DistributedDataParallel

from pinprof.workloads.model import forever, host_batches, sizes, trainer
from scripts.pair_programs import parts

NAP_SECONDS = 0.02


def is_last() -> bool:
    """Return whether this is the last rank."""
    return distributed.get_rank() == distributed.get_world_size() - 1


def shared(model: nn.Module, device: torch.device, **settings: Any) -> DistributedDataParallel:
    """Return the model with gradients averaged over all ranks; `settings` are for DistributedDataParallel."""
    devices = [device] if device.type == "cuda" else None
    return DistributedDataParallel(model.to(device), device_ids=devices, **settings)


def averaged(training: parts.Training, device: torch.device, **settings: Any) -> parts.Training:
    """Return a training whose gradients are averaged over all ranks; `settings` as for `shared`."""
    return replace(training, model=shared(training.model, device, **settings))


def logging_rank(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Read the loss and each layer's norm of weights on the first rank alone, or sum them on the GPU."""
    training, readings = averaged(parts.small_layers(device, scale), device), parts.Readings(device, fixed=fixed)
    first = list(training.model.parameters())[:8]
    logs = distributed.get_rank() == 0

    def step() -> Tensor:
        loss = training.step()
        for value in [loss, *(parameter.detach().norm() for parameter in first)] if logs else []:
            readings.take(value)
        return loss

    return step


def pageable_rank(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Copy 48 MiB from pageable memory on the last rank alone, or from pinned memory on all."""
    pinned = fixed or not is_last()
    return _batches(device, scale, pinned=pinned)


def pageable_ranks(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Copy 48 MiB on every rank, from pageable or from pinned memory."""
    return _batches(device, scale, pinned=fixed)


def _batches(device: torch.device, scale: float, *, pinned: bool) -> parts.Step:
    size = sizes(scale)
    training = trainer(device, size)
    model = shared(training.model, device)
    ring = forever(host_batches(size, pinned=pinned and device.type == "cuda"))

    def step() -> None:
        training.update(F.cross_entropy(model(next(ring).to(device, non_blocking=pinned)), training.target))

    return step


def averaged_loss(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Average the loss over the ranks in every step and read it, or keep it on the GPU."""
    training, losses = averaged(parts.small_layers(device, scale), device), parts.Readings(device, fixed=fixed)

    def step() -> Tensor:
        loss = training.step()
        distributed.all_reduce(loss)
        return losses.take(loss)

    return step


def timed_parts(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Synchronize around forward and backward of a small ResNet on every rank, or never."""
    rows, side = parts.scaled(32, scale), parts.scaled(32, scale, 8)
    model = shared(parts.resnet(parts.scaled(32, scale), 10), device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    x = parts.in_host_memory(torch.randn(rows, 3, side, side), device, pinned=True).to(device)
    y = torch.randint(10, (rows,), device=device)

    def wait() -> None:
        if not fixed and device.type == "cuda":
            torch.cuda.synchronize(device)

    def step() -> Tensor:
        wait()
        loss = F.cross_entropy(model(x), y)
        wait()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        wait()
        optimizer.step()
        return loss.detach()

    return step


def sleeping_rank(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Sleep 20 ms in every step of the last rank, or never."""
    training = averaged(parts.small_layers(device, scale), device)
    sleeps = not fixed and is_last()

    def step() -> Tensor:
        if sleeps:
            time.sleep(NAP_SECONDS)
        return training.step()

    return step
