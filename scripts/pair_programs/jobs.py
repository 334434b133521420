"""Jobs of several ranks: some with a late rank, some without, and ways to exchange gradients and values."""

import gc
import io
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F  # noqa: N812  torch's own name for it
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from scripts.pair_programs import parts
from scripts.pair_programs.of_ranks import averaged, is_last

WIDTH, DEPTH, ROWS = 512, 5, 256
MICRO_STEPS = 4
SAVE_EVERY = 3
NUMBERS_OF_SLOW_LINE = 60_000
OBJECTS_OF_SLOW_COLLECTION = 150_000


def data_parallel(device: torch.device, scale: float, **settings: Any) -> parts.Training:
    """Return a small network on every rank, with gradients averaged over them."""
    training = parts.small_layers(device, scale, depth=DEPTH, width=WIDTH, rows=ROWS)
    return averaged(training, device, **settings)


def late_by(spend: Callable[[int, parts.Training], object]) -> Callable[[torch.device, bool, float], parts.Step]:
    """Return a job whose last rank calls `spend` in each step, with the number of the step."""

    def build(device: torch.device, fixed: bool, scale: float) -> parts.Step:
        training, number = data_parallel(device, scale), iter(range(1 << 40))

        def step() -> Tensor:
            if is_last() and not fixed:
                spend(next(number), training)
            return training.step()

        return step

    return build


def _compute_in_python(_: int, __: parts.Training) -> int:
    return sum(value * value % 7 for value in range(NUMBERS_OF_SLOW_LINE))


def _save(number: int, training: parts.Training) -> None:
    if number % SAVE_EVERY == 0:
        torch.save([training.model.state_dict(), training.optimizer.state_dict()], io.BytesIO())


def _collect(_: int, __: parts.Training) -> None:
    kept = [[number] for number in range(OBJECTS_OF_SLOW_COLLECTION)]
    gc.collect()
    kept.clear()


slow_python_rank = late_by(_compute_in_python)
saving_rank = late_by(_save)
collecting_rank = late_by(_collect)


class Samples(Dataset[Tensor]):
    """Batches that take `seconds` each to make."""

    def __init__(self, width: int, seconds: float) -> None:
        self._width, self._seconds = width, seconds

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> Tensor:
        if self._seconds:
            until = time.perf_counter() + self._seconds
            while time.perf_counter() < until:
                np.sort(np.arange(5000)[::-1])
        return torch.full((ROWS, self._width), float(index % 7))


def slow_loader_rank(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Let a worker of the last rank make each batch in 18 ms, or at once."""
    training = data_parallel(device, scale)
    slow = 0.018 if is_last() and not fixed else 0.0
    batches = iter(DataLoader(Samples(training.x.shape[1], slow), batch_size=None, num_workers=1))

    def step() -> Tensor:
        x = next(batches).to(device)
        return parts.update(training.optimizer, F.cross_entropy(training.model(x), training.y))

    return step


def sharded(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Shard a GPT's blocks with FSDP2; gather each once for forward and backward, or twice."""
    torch.manual_seed(0)
    model = parts.Gpt(512, 64, parts.scaled(256, scale, 64), 3).to(device)
    for block in model.blocks:
        fully_shard(block, reshard_after_forward=not fixed)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    tokens = torch.randint(512, (8, 64), device=device)
    return lambda: parts.update(optimizer, model(tokens, tokens))


def tensor_parallel(device: torch.device, fixed: bool, scale: float) -> parts.Step:  # noqa: ARG001
    """Split each pair of layers over the ranks: all-reduce its outputs in forward, its gradients in backward."""
    torch.manual_seed(0)
    width = parts.scaled(512, scale)
    ups = nn.ModuleList(nn.Linear(width, width // distributed.get_world_size()) for _ in range(4)).to(device)
    downs = nn.ModuleList(nn.Linear(width // distributed.get_world_size(), width) for _ in range(4)).to(device)
    optimizer = torch.optim.Adam([*ups.parameters(), *downs.parameters()], 1e-4)
    x = torch.randn(ROWS, width, device=device)

    def step() -> Tensor:
        hidden = x.requires_grad_()
        for up, down in zip(ups, downs, strict=True):
            hidden = hidden + applied(_Reduced, down(F.relu(up(applied(_Copied, hidden)))))
        return parts.update(optimizer, hidden.square().mean())

    return step


def applied(function: type[torch.autograd.Function], x: Tensor) -> Tensor:
    """Apply an autograd function to a tensor."""
    result: Tensor = function.apply(x)  # type: ignore[no-untyped-call]
    return result


class _Copied(torch.autograd.Function):
    """Identity in forward, all-reduce of gradients in backward."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:  # noqa: ARG004  torch's signature
        return x.view_as(x)

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:  # noqa: ARG004
        gradient = gradient.clone()
        distributed.all_reduce(gradient)
        return gradient


class _Reduced(torch.autograd.Function):
    """All-reduce in forward, identity in backward."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:  # noqa: ARG004
        x = x.clone()
        distributed.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:  # noqa: ARG004
        return gradient


class _Exchanged(torch.autograd.Function):
    """All-to-all: each rank gets equally many rows."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:  # noqa: ARG004
        received = torch.empty_like(x)
        distributed.all_to_all_single(received, x.contiguous())
        return received

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return _Exchanged.forward(ctx, gradient)


def experts(device: torch.device, fixed: bool, scale: float) -> parts.Step:  # noqa: ARG001
    """Send rows to the rank of their expert and back, in four layers; other weights are replicated."""
    training = parts.small_layers(device, scale, depth=4, width=WIDTH, rows=ROWS)
    own = nn.ModuleList(nn.Linear(training.x.shape[1], training.x.shape[1]) for _ in range(4)).to(device)
    trained = averaged(training, device)
    optimizer = torch.optim.Adam([*trained.model.parameters(), *own.parameters()], 1e-4)

    def step() -> Tensor:
        x = trained.x
        for expert in own:
            x = x + applied(_Exchanged, F.relu(expert(applied(_Exchanged, x))))
        return parts.update(optimizer, F.cross_entropy(trained.model(x), trained.y))

    return step


def accumulating(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Average the gradients after each of four micro-steps, or after the last."""
    training = data_parallel(device, scale)
    model = training.model
    assert isinstance(model, DistributedDataParallel)

    def step() -> None:
        training.optimizer.zero_grad(set_to_none=True)
        for number in range(MICRO_STEPS):
            with model.no_sync() if fixed and number < MICRO_STEPS - 1 else nullcontext():
                training.loss().backward()  # type: ignore[no-untyped-call]
        training.optimizer.step()

    return step


def small_buckets(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Average gradients in buckets of 0.1 MB, or of 25."""
    return data_parallel(device, scale, bucket_cap_mb=25 if fixed else 0.1).step


def unused_searched(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Look for unused parameters in each step, or not."""
    return data_parallel(device, scale, find_unused_parameters=not fixed).step


def bucket_views(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Copy gradients out of the buckets, or make them views."""
    return data_parallel(device, scale, gradient_as_bucket_view=fixed).step


def buffers_sent(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Send the statistics of all normalizations from rank 0 in each step, or never."""
    images = parts.small_images(device, scale, rows=16, width=16, blocks=1)
    return averaged(images, device, broadcast_buffers=not fixed).step


def clipping(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Read the norm of the gradients in each step, or keep it on the GPU."""
    training = data_parallel(device, scale)
    readings = parts.Readings(device, fixed=fixed)

    def step() -> Tensor:
        training.optimizer.zero_grad(set_to_none=True)
        loss = training.loss()
        loss.backward()  # type: ignore[no-untyped-call]
        readings.take(nn.utils.clip_grad_norm_(training.model.parameters(), 1.0))
        training.optimizer.step()
        return loss.detach()

    return step


def pipeline(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Run half of the layers on each of two ranks: one batch at a time, or four overlapping parts."""
    torch.manual_seed(0)
    width, count = parts.scaled(1024, scale), MICRO_STEPS if fixed else 1
    half = parts.mlp(width, width, 6, width).to(device)
    optimizer = torch.optim.Adam(half.parameters(), 1e-4)
    first, other = distributed.get_rank() == 0, 1 - distributed.get_rank()
    there, back = distributed.new_group(), distributed.new_group()
    batches = torch.randn(count, parts.scaled(4096, scale) // count, width, device=device)
    sent: list[Any] = []

    def begin(x: Tensor) -> Tensor:
        out: Tensor = half(x)
        sent.append(distributed.isend(out.detach(), other, there))
        return out

    def end() -> None:
        x = torch.empty_like(batches[0])
        distributed.recv(x, other, there)
        half(x.requires_grad_()).square().mean().backward()
        assert x.grad is not None
        sent.append(distributed.isend(x.grad, other, back))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        if first:
            for out in [begin(x) for x in batches]:
                gradient = torch.empty_like(out)
                distributed.recv(gradient, other, back)
                out.backward(gradient)  # type: ignore[no-untyped-call]
        else:
            for _ in range(count):
                end()
        for work in sent:
            work.wait()
        sent.clear()
        optimizer.step()

    return step
