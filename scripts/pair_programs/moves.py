"""Programs that copy between host and GPU in every step, badly and well, and one that gives its memory back."""

from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  torch's own name for it

from pinprof.workloads.model import LEARNING_RATE, forever, host_batches, sizes, trainer
from pinprof.workloads.waits import HOST_WORK_MS, TINY_LAYERS, TINY_WIDTH, chain, work_on_host
from scripts.pair_programs import parts


@final
class OneStepLate:
    """Copies tensors to pinned memory behind the kernels and hands each out one call later."""

    def __init__(self, like: Tensor) -> None:
        cuda = like.device.type == "cuda"
        self._buffers = [torch.empty_like(like, device="cpu", pin_memory=cuda) for _ in range(2)]
        self._copied = [torch.cuda.Event() for _ in range(2)] if cuda else []  # type: ignore[no-untyped-call]
        self._calls = 0

    def exchange(self, result: Tensor) -> Tensor | None:
        """Start the copy of `result` and return the one before, complete; None at the first call."""
        slot = self._calls % 2
        self._buffers[slot].copy_(result, non_blocking=True)
        if self._copied:
            self._copied[slot].record()
        self._calls += 1
        if self._calls == 1:
            return None
        if self._copied:
            self._copied[1 - slot].synchronize()
        return self._buffers[1 - slot]


def readback_late(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Read the outputs of a step that the GPU bounds, at once or one step later."""
    training, batch = parts.resident(device, scale)
    late = OneStepLate(training.model(batch).detach())
    scores = parts.AverageMeter()

    def step() -> None:
        output = training.model(batch)
        training.update(F.cross_entropy(output, training.target))
        seen = late.exchange(output.detach()) if fixed else output.detach().cpu()
        if seen is not None:
            scores.update(seen[0, 0].item())

    return step


def predictions_late(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Read the predictions of a network of many small layers, at once or one step later."""
    training = parts.small_layers(device, scale)
    expected = training.y.cpu().numpy()
    late = OneStepLate(training.y)
    correct = parts.AverageMeter()

    def step() -> Tensor:
        output = training.model(training.x)
        predicted = output.detach().argmax(1)
        loss = parts.update(training.optimizer, F.cross_entropy(output, training.y))
        seen = late.exchange(predicted) if fixed else predicted.cpu()
        if seen is not None:
            correct.update(float((seen.numpy() == expected).mean()), len(expected))
        return loss

    return step


def many_small_copies(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Forty columns of a table, 4 KB each, copied one by one."""
    columns, rows = 40, parts.scaled(1024, scale)
    table = [parts.in_host_memory(torch.randn(rows), device, pinned=fixed) for _ in range(columns)]
    model = parts.mlp(columns, parts.scaled(512, scale), 6, 2).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    y = torch.randint(2, (rows,), device=device)

    def step() -> Tensor:
        copied = [column.to(device, non_blocking=fixed) for column in table]
        return parts.update(optimizer, F.cross_entropy(model(torch.stack(copied, dim=1)), y))

    return step


def images(device: torch.device, fixed: bool, scale: float, *, rows: int = 64, width: int = 32) -> parts.Step:
    """Train a residual network whose images and labels come from pageable or pinned memory."""
    rows, side = parts.scaled(rows, scale), parts.scaled(64, scale, 8)
    model = parts.resnet(parts.scaled(width, scale), 10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    batches = [parts.in_host_memory(torch.randn(rows, 3, side, side), device, pinned=fixed) for _ in range(2)]
    ring = forever(batches)
    labels = parts.in_host_memory(torch.randint(10, (rows,)), device, pinned=fixed)

    def step() -> Tensor:
        x, y = next(ring).to(device, non_blocking=fixed), labels.to(device, non_blocking=fixed)
        return parts.update(optimizer, F.cross_entropy(model(x), y))

    return step


def tokens(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Train a small GPT whose tokens come with non_blocking=True, from pageable or pinned memory."""
    model, on_host = parts.small_gpt(device, scale, depth=5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batch = parts.in_host_memory(on_host, device, pinned=fixed)

    def step() -> Tensor:
        on_device = batch.to(device, non_blocking=True)
        return parts.update(optimizer, model(on_device[:, :-1], on_device[:, 1:]))

    return step


def host_work_and_copy(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Work on the host for 3 ms, then copy a batch from pageable or pinned memory."""
    size = sizes(scale)
    training = trainer(device, size)
    ring = forever(host_batches(size, pinned=fixed and device.type == "cuda"))

    def step() -> Tensor:
        work_on_host(HOST_WORK_MS * scale)
        return training.train(next(ring).to(device, non_blocking=fixed))

    return step


def everything_at_once(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Train many small layers on a pageable batch and read the loss; or on a pinned one, and do not read it."""
    width, rows = parts.scaled(1024, scale), parts.scaled(512, scale)
    model = parts.mlp(width, width, 20, 10).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    batches = [parts.in_host_memory(torch.randn(rows, width), device, pinned=fixed) for _ in range(2)]
    ring = forever(batches)
    y = torch.randint(10, (rows,), device=device)
    losses = parts.Readings(device, fixed=fixed)
    return lambda: losses.take(
        parts.update(optimizer, F.cross_entropy(model(next(ring).to(device, non_blocking=fixed)), y))
    )


def small_batch_chain(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Train a chain of tiny operations on a pinned batch, whose copy is waited for or not."""
    count = max(2, round(TINY_LAYERS * scale))
    weights = [torch.randn(TINY_WIDTH, device=device, requires_grad=True) for _ in range(count)]
    optimizer = torch.optim.SGD(weights, lr=LEARNING_RATE, fused=device.type == "cuda")
    batch = parts.in_host_memory(torch.randn(TINY_WIDTH), device, pinned=True)
    return lambda: parts.update(optimizer, chain(batch.to(device, non_blocking=fixed), weights))


def emptied_cache(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Train a small GPT that gives the cached memory back after every step, or keeps it."""
    model, on_host = parts.small_gpt(device, scale, depth=4)
    optimizer, batch = parts.sgd(model, device), on_host.to(device)

    def step() -> Tensor:
        loss = parts.update(optimizer, model(batch[:, :-1], batch[:, 1:]))
        if not fixed:
            torch.cuda.empty_cache()
        return loss

    return step
