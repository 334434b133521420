"""Programs of several ranks, before and after a fix: data-parallel training in which one rank holds up the others."""

import time
from collections.abc import Callable

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F  # noqa: N812  torch's own name for it
from torch.nn.parallel import DistributedDataParallel

from pinprof.workloads.model import forever, host_batches, sizes, trainer
from scripts.pair_programs.parts import AverageMeter, Step, in_host_memory, mlp, resnet, scaled, update

RankBuild = Callable[[torch.device, bool, float], Step]
"""Prepares one rank's program: device, whether it has the fix, sizes times so much."""

NAP_SECONDS = 0.02


def shared(model: nn.Module, device: torch.device) -> nn.Module:
    """Return the model with gradients averaged over all ranks."""
    return DistributedDataParallel(model.to(device), device_ids=[device] if device.type == "cuda" else None)


def small_layers(device: torch.device, scale: float) -> Callable[[], Tensor]:
    """Return the step of many small layers, which the host bounds."""
    width, rows = scaled(512, scale), scaled(256, scale)
    model = shared(mlp(width, width, 24, 10), device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    x, y = torch.randn(rows, width, device=device), torch.randint(10, (rows,), device=device)
    return lambda: update(optimizer, F.cross_entropy(model(x), y))


def logging_rank(device: torch.device, fixed: bool, scale: float) -> Step:
    """Read the loss and each layer's norm of weights on the first rank alone, or sum them on the GPU."""
    width, rows = scaled(512, scale), scaled(256, scale)
    model = shared(mlp(width, width, 24, 10), device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    x, y = torch.randn(rows, width, device=device), torch.randint(10, (rows,), device=device)
    meter, total = AverageMeter(), torch.zeros((), device=device)
    logs = distributed.get_rank() == 0

    def step() -> Tensor:
        loss = update(optimizer, F.cross_entropy(model(x), y))
        values = [loss, *(parameter.detach().norm() for parameter in list(model.parameters())[:8])] if logs else []
        for value in values:
            if fixed:
                total.add_(value)
            else:
                meter.update(value.item())
        return loss

    return step


def pageable_rank(device: torch.device, fixed: bool, scale: float) -> Step:
    """Copy 48 MiB from pageable memory on the last rank alone, or from pinned memory on all."""
    pinned = fixed or distributed.get_rank() != distributed.get_world_size() - 1
    return _batches(device, scale, pinned=pinned)


def pageable_ranks(device: torch.device, fixed: bool, scale: float) -> Step:
    """Copy 48 MiB on every rank, from pageable or from pinned memory."""
    return _batches(device, scale, pinned=fixed)


def _batches(device: torch.device, scale: float, *, pinned: bool) -> Step:
    size = sizes(scale)
    training = trainer(device, size)
    model = shared(training.model, device)
    ring = forever(host_batches(size, pinned=pinned and device.type == "cuda"))

    def step() -> None:
        training.update(F.cross_entropy(model(next(ring).to(device, non_blocking=pinned)), training.target))

    return step


def averaged_loss(device: torch.device, fixed: bool, scale: float) -> Step:
    """Average the loss over the ranks in every step and read it, or keep it on the GPU."""
    train = small_layers(device, scale)
    meter, total = AverageMeter(), torch.zeros((), device=device)

    def step() -> Tensor:
        loss = train()
        distributed.all_reduce(loss)
        if fixed:
            total.add_(loss)
        else:
            meter.update(loss.item())
        return loss

    return step


def timed_parts(device: torch.device, fixed: bool, scale: float) -> Step:
    """Synchronize around forward and backward of a small ResNet on every rank, or never."""
    rows, side = scaled(32, scale), scaled(32, scale, 8)
    model = shared(resnet(scaled(32, scale), 10), device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    x = in_host_memory(torch.randn(rows, 3, side, side), device, pinned=True).to(device)
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


def sleeping_rank(device: torch.device, fixed: bool, scale: float) -> Step:
    """Sleep 20 ms in every step of the last rank, or never."""
    train = small_layers(device, scale)
    sleeps = not fixed and distributed.get_rank() == distributed.get_world_size() - 1

    def step() -> Tensor:
        if sleeps:
            time.sleep(NAP_SECONDS)
        return train()

    return step
