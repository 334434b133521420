"""Small programs, each slow for one reason other than copies and waits, and the same without it."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  torch's own name for it
from torch.nn.attention import SDPBackend, sdpa_kernel

from scripts.pair_programs.parts import Gpt, Step, mlp, resnet, update

RuleBuild = Callable[[torch.device, bool], Step]
"""Of a device and whether the program is mended."""

VOCABULARY, LENGTH = 4096, 256
IMAGE_DIMENSIONS = 4
DECAY = 0.999


def _texts(device: torch.device, count: int, length: int = LENGTH) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(VOCABULARY, (count, length + 1), device=device)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def tf32_off(device: torch.device, mended: bool) -> Step:
    """Multiply large float32 matrices; mended: in TF32."""
    torch.set_float32_matmul_precision("high" if mended else "highest")
    model = mlp(2048, 4096, 4, 1000).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    inputs, target = torch.randn(2048, 2048, device=device), torch.randint(1000, (2048,), device=device)
    return lambda: update(optimizer, F.cross_entropy(model(inputs), target))


def nchw_amp(device: torch.device, mended: bool) -> Step:
    """Convolve images of half precision whose channels come first; mended: last."""
    layout = torch.channels_last if mended else torch.contiguous_format
    model = resnet(64, 1000).to(device)
    for weight in model.parameters():
        if weight.dim() == IMAGE_DIMENSIONS:
            weight.data = weight.data.contiguous(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    images = torch.randn(64, 3, 128, 128, device=device).to(memory_format=layout)
    target = torch.randint(1000, (64,), device=device)

    def step() -> Tensor:
        with torch.autocast(device.type, torch.float16):
            loss = F.cross_entropy(model(images), target)
        return update(optimizer, loss)

    return step


def math_attention(device: torch.device, mended: bool) -> Step:
    """Attend with plain matrix products; mended: with a fused kernel."""
    model = Gpt(VOCABULARY, 1024, 512, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    tokens, following = _texts(device, 8, 1024)

    def step() -> Tensor:
        kernel = nullcontext() if mended else sdpa_kernel(SDPBackend.MATH)
        with torch.autocast(device.type, torch.bfloat16), kernel:
            loss = model(tokens, following)
        return update(optimizer, loss)

    return step


def clip_loop(device: torch.device, mended: bool) -> Step:
    """Clip gradients one by one; mended: all together."""
    model = Gpt(VOCABULARY, 64, 256, 8).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")
    tokens, following = _texts(device, 8, 64)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(tokens, following).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=mended)
        optimizer.step()

    return step


def ema_loop(device: torch.device, mended: bool) -> Step:
    """Average the weights one by one; mended: all together."""
    model = Gpt(VOCABULARY, 64, 256, 8).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")
    tokens, following = _texts(device, 8, 64)
    averages = [weight.detach().clone() for weight in model.parameters()]

    @torch.no_grad()
    def average() -> None:
        weights = [weight.detach() for weight in model.parameters()]
        if mended:
            torch._foreach_lerp_(averages, weights, 1 - DECAY)
            return
        for mean, weight in zip(averages, weights, strict=True):
            mean.mul_(DECAY).add_(weight, alpha=1 - DECAY)

    def step() -> None:
        update(optimizer, model(tokens, following))
        average()

    return step


def recompiling(device: torch.device, mended: bool) -> Step:
    """Call a compiled function with a number that is another one each time; mended: with a tensor."""
    model = mlp(256, 512, 2, 100).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    inputs, target = torch.randn(256, 256, device=device), torch.randint(100, (256,), device=device)
    count = [0]

    def scaled(x: Tensor, rate: Any) -> Tensor:
        return model(x * rate)

    compiled = torch.compile(scaled, dynamic=False)
    torch._dynamo.config.recompile_limit = 64  # noqa: SLF001  torch's name for it

    def step() -> Tensor:
        count[0] += 1
        rate = torch.full((), count[0] / 100, device=device) if mended else (count[0] % 60) + 2
        return update(optimizer, F.cross_entropy(compiled(inputs, rate), target))

    return step


PROGRAMS: dict[str, RuleBuild] = {
    build.__name__: build for build in (tf32_off, nchw_amp, math_attention, clip_loop, ema_loop, recompiling)
}
