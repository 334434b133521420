"""What the programs are made of: sizes, networks, meters, and batches in host memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  torch's own name for it

from pinprof.workloads.model import Trainer, device_batch, sizes, trainer

Step = Callable[[], object]
"""One training step; where it is easy, it returns the loss, still on the device."""

FEWEST = 4


def scaled(size: int, scale: float, least: int = FEWEST) -> int:
    """Return the size times `scale`, not below `least`."""
    return max(least, round(size * scale))


def update(optimizer: torch.optim.Optimizer, loss: Tensor) -> Tensor:
    """Run backward and change the weights; return the loss, still on the device."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.detach()


def sgd(model: nn.Module, device: torch.device, rate: float = 1e-3) -> torch.optim.Optimizer:
    """Return an optimizer of one launch."""
    return torch.optim.SGD(model.parameters(), lr=rate, fused=device.type == "cuda")


def resident(device: torch.device, scale: float) -> tuple[Trainer, Tensor]:
    """Return a network of the workloads, and a batch that is on the device from the start."""
    size = sizes(scale)
    return trainer(device, size), device_batch(size, device)


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def in_host_memory(tensor: Tensor, device: torch.device, *, pinned: bool) -> Tensor:
    """Return the tensor in pinned memory if that is asked for and means anything."""
    return tensor.pin_memory() if pinned and device.type == "cuda" else tensor


@final
class AverageMeter:
    """The mean of numbers that are on the host, as the ImageNet example has it."""

    def __init__(self) -> None:
        self.sum, self.count = 0.0, 0

    def update(self, value: float, n: int = 1) -> None:
        """Take in the mean of `n` more."""
        self.sum += value * n
        self.count += n


@final
class Readings:
    """Numbers of the GPU, each read as it comes; or, in the program with the fix, summed where they are."""

    def __init__(self, device: torch.device, *, fixed: bool) -> None:
        self._fixed = fixed
        self._read, self._total = AverageMeter(), torch.zeros((), device=device)

    def take(self, number: Tensor) -> Tensor:
        """Take in a number, and return it."""
        if self._fixed:
            self._total.add_(number.detach())
        else:
            self._read.update(number.item())
        return number


def mlp(inputs: int, width: int, depth: int, outputs: int) -> nn.Module:
    """Return a plain network."""
    layers: list[nn.Module] = [nn.Linear(inputs, width), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


@final
class ConvBlock(nn.Module):
    """Two convolutions with a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv_1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv_2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm_1, self.norm_2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        hidden = F.relu(self.norm_1(self.conv_1(x)))
        return F.relu(self.norm_2(self.conv_2(hidden)) + self.shortcut(x))


def resnet(width: int, classes: int, blocks: int = 2) -> nn.Module:
    """Return a residual network of four stages, like ResNet-18 with two blocks a stage."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    for stage in range(4):
        outputs = width << stage
        for block in range(blocks):
            first = stage > 0 and block == 0
            layers.append(ConvBlock(outputs // 2 if first else outputs, outputs, 2 if first else 1))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width << 3, classes))


@dataclass(frozen=True)
class Training:
    """A network that learns one batch on the device."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    x: Tensor
    y: Tensor

    def loss(self) -> Tensor:
        """Return the loss of the batch."""
        return F.cross_entropy(self.model(self.x), self.y)

    def step(self) -> Tensor:
        """Run one training step; return the loss, still on the device."""
        return update(self.optimizer, self.loss())


def small_layers(
    device: torch.device,
    scale: float,
    depth: int = 24,
    width: int = 512,
    rows: int = 256,
    *,
    foreach: bool | None = None,
) -> Training:
    """Return a plain network of many small layers that learns with Adam: the host bounds its step."""
    width, rows = scaled(width, scale), scaled(rows, scale)
    model = mlp(width, width, depth, 10).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, foreach=foreach)
    return Training(
        model, optimizer, torch.randn(rows, width, device=device), torch.randint(10, (rows,), device=device)
    )


def small_images(device: torch.device, scale: float, rows: int = 32, width: int = 32, blocks: int = 2) -> Training:
    """Return a residual network that learns images of 32 by 32 with SGD."""
    rows, side = scaled(rows, scale), scaled(32, scale, 8)
    model = resnet(scaled(width, scale), 10, blocks).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    x, y = torch.randn(rows, 3, side, side, device=device), torch.randint(10, (rows,), device=device)
    return Training(model, optimizer, x, y)


HEADS = 4


@final
class GptBlock(nn.Module):
    """Attention, then two linear layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        parts = self.qkv(self.norm_1(x)).chunk(3, dim=-1)
        q, k, v = (part.view(*x.shape[:2], HEADS, -1).transpose(1, 2) for part in parts)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norm_2(x))


@final
class Gpt(nn.Module):
    """A small GPT; gives the mean loss of the next tokens."""

    def __init__(self, vocabulary: int, block: int, width: int, depth: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(block, width)
        self.blocks = nn.Sequential(*(GptBlock(width) for _ in range(depth)))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor, following: Tensor) -> Tensor:
        """Return the loss."""
        places = torch.arange(tokens.size(1), device=tokens.device)
        logits: Tensor = self.head(self.blocks(self.tokens(tokens) + self.positions(places)))
        return F.cross_entropy(logits.flatten(0, 1).float(), following.flatten())


def small_gpt(device: torch.device, scale: float, depth: int, block: int = 128) -> tuple[Gpt, Tensor]:
    """Return a small GPT on the device, and a batch of tokens for it in host memory."""
    vocabulary, block = 512, scaled(block, scale, 8)
    model = Gpt(vocabulary, block, 4 * scaled(64, scale), depth).to(device)
    return model, torch.randint(vocabulary, (scaled(16, scale), block + 1))
