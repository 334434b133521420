"""Programs of public threads, built again with made-up data: `python rebuilt.py NAME`, or `NAME --turns 6`.

Each is a generator that makes a training step at a time, as before or as after the change of its thread. With --turns
both versions run in turns in one process, window by window: this prints their steps in ms, a pair for each turn.
"""

import gc
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from itertools import cycle, islice

import torch
import torchvision
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, interpolate, scaled_dot_product_attention
from torch.utils.data import DataLoader, Dataset, TensorDataset

STEPS, WARM_UP_STEPS, LEAST_STEPS, WINDOW_SECONDS = 400, 20, 20, 1.5
DEVICE = torch.device("cuda")


class Block(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(gelu(self.up(self.norm(x))))


def blocks(width: int, hidden: int, count: int, *more: nn.Module) -> nn.Sequential:
    return nn.Sequential(*[Block(width, hidden) for _ in range(count)], *more).to(DEVICE)


def clip_nonfinite(changed: bool) -> Iterator[None]:
    model = blocks(768, 1536, 16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(4096, 768, device=DEVICE)
    while True:
        model(x).pow(2).mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=not changed)
        optimizer.step()
        optimizer.zero_grad()
        yield


class Mean:
    """A running mean of a value of each step, as libraries of metrics have it."""

    def __init__(self, changed: bool) -> None:
        self.changed, self.total, self.weight = changed, torch.zeros((), device=DEVICE), torch.zeros((), device=DEVICE)

    def update(self, value: Tensor, weight: float = 1.0) -> None:
        value = torch.as_tensor(value, dtype=torch.float32, device=DEVICE)
        if self.changed:
            weights = torch.ones_like(value)
        else:
            weights = torch.as_tensor(weight, dtype=torch.float32, device=DEVICE)
            missing = torch.isnan(value) | torch.isnan(weights)
            if missing.any():
                value, weights = value[~missing], weights[~missing]
        self.total += (value * weights).sum()
        self.weight += weights.sum()


def metric_checks(changed: bool) -> Iterator[None]:
    model = blocks(768, 1536, 14, nn.Linear(768, 100))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x, y = torch.randn(4096, 768, device=DEVICE), torch.randint(0, 100, (4096,), device=DEVICE)
    loss_mean, accuracy, entropy, confidence = (Mean(changed) for _ in range(4))
    while True:
        with torch.autocast("cuda", torch.bfloat16):
            out = model(x)
        loss = cross_entropy(out.float(), y)
        with torch.no_grad():
            chance = out.float().softmax(1)
            loss_mean.update(loss)
            accuracy.update((out.argmax(1) == y).float().mean())
            entropy.update(-(chance * chance.clamp_min(1e-9).log()).sum(1).mean())
            confidence.update(chance.amax(1).mean())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def lr_tensor(changed: bool) -> Iterator[None]:
    model = blocks(768, 1536, 16)
    rate = torch.tensor(1e-4, device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, capturable=True, foreach=True)
    schedule = torch.linspace(0.1, 1.0, 2000, device=DEVICE) * 1e-4
    x = torch.randn(4096, 768, device=DEVICE)
    for step in cycle(range(2000)):
        model(x).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        for group in optimizer.param_groups:
            if changed:
                group["lr"].copy_(schedule[step])
            else:
                group["lr"].fill_(schedule[step].item())
        yield


class Mixed(nn.Module):
    """Puts other features into the rows that a mask names."""

    def __init__(self, changed: bool) -> None:
        super().__init__()
        self.changed, self.block, self.other = changed, Block(768, 1536), nn.Parameter(torch.randn(1, 768))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.block(x)
        if self.changed:
            return torch.where(mask, self.other.to(x.dtype), x)
        x = x.clone()
        x[mask] = self.other.to(x.dtype)
        return x


def cpu_mask(changed: bool) -> Iterator[None]:
    layers = nn.ModuleList([Mixed(changed) for _ in range(12)]).to(DEVICE)
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-4, fused=True)
    start = torch.randn(4096, 768, device=DEVICE)
    for mask in cycle([torch.rand(4096) < 0.2 for _ in range(16)]):
        used = mask.pin_memory().to(DEVICE, non_blocking=True)[:, None] if changed else mask
        x = start
        with torch.autocast("cuda", torch.bfloat16):
            for layer in layers:
                x = layer(x, used)
        x.float().pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def pin_images(changed: bool) -> Iterator[None]:
    model = torchvision.models.resnet18(weights=None).to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    images, labels = [torch.rand(3, 480, 640) for _ in range(16)], torch.randint(0, 1000, (16,), device=DEVICE)
    while True:
        if changed:
            batch = torch.stack([image.pin_memory().to(DEVICE, non_blocking=True) for image in images])
        else:
            batch = torch.stack([image.to(DEVICE) for image in images])
        batch = interpolate(batch, size=(384, 384), mode="bilinear").to(memory_format=torch.channels_last)
        with torch.autocast("cuda", torch.bfloat16):
            loss = cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def batched_muon(changed: bool) -> Iterator[None]:
    model = blocks(768, 768, 20)
    matrices = [p for p in model.parameters() if p.ndim == 2]
    momenta = [torch.zeros_like(p) for p in matrices]
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.ndim < 2], lr=1e-3, fused=True)
    x = torch.randn(8192, 768, device=DEVICE)

    def orthogonal(gradient: Tensor) -> Tensor:
        a, b, c = 3.4445, -4.7750, 2.0315
        update = gradient.bfloat16()
        update = update / (update.norm(dim=(-2, -1), keepdim=True) + 1e-7)
        for _ in range(5):
            product = update @ update.mT
            update = a * update + (b * product + c * product @ product) @ update
        return update

    while True:
        with torch.autocast("cuda", torch.bfloat16):
            out = model(x)
        out.float().pow(2).mean().backward()
        optimizer.step()
        with torch.no_grad():
            if changed:
                torch._foreach_lerp_(momenta, [p.grad for p in matrices], 0.05)
                torch._foreach_add_(matrices, list(orthogonal(torch.stack(momenta)).float()), alpha=-0.002)
            else:
                for parameter, momentum in zip(matrices, momenta, strict=True):
                    momentum.lerp_(parameter.grad, 0.05)
                    parameter.add_(orthogonal(momentum).float(), alpha=-0.002)
        model.zero_grad()
        yield


@cache  # both versions have the same objects, as each would have them alone
def objects() -> list[dict[str, object]]:
    return [{"id": number, "words": [[number, word] for word in range(6)]} for number in range(200_000)]


def garbage_collection(changed: bool) -> Iterator[None]:
    samples = objects()
    recent = deque[list[dict[str, object]]](maxlen=50)
    model = blocks(512, 1024, 12)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for step in cycle(range(2000)):
        if changed:
            gc.disable()
            if step % 100 == 0:
                gc.collect(1)
        else:
            gc.enable()
        chosen = [dict(sample, place=[place]) for place, sample in enumerate(samples[64 * step : 64 * step + 2048])]
        recent.append(chosen)
        ids = torch.tensor([sample["id"] for sample in chosen], dtype=torch.float32).pin_memory()
        x = ids.to(DEVICE, non_blocking=True)[:, None].expand(-1, 512) / 2e5
        model(x).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def fused_adam(changed: bool) -> Iterator[None]:
    layers = nn.ModuleList([nn.Sequential(*[nn.Linear(128, 128) for _ in range(3)]) for _ in range(60)]).to(DEVICE)
    optimizer = torch.optim.Adam(
        layers.parameters(), lr=1e-4, fused=changed or None, foreach=None if changed else False
    )
    x = torch.randn(2048, 128, device=DEVICE)
    while True:
        out = x
        for layer in layers:
            out = torch.tanh(layer(out)) + out
        out.pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def empty_cache(changed: bool) -> Iterator[None]:
    model = blocks(1024, 4096, 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for length in cycle([3000, 5200, 4100, 6000]):
        x = torch.randn(length, 1024, device=DEVICE)
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if not changed:
            torch.cuda.empty_cache()
        yield


class Rotary(nn.Module):
    def __init__(self, changed: bool) -> None:
        super().__init__()
        self.qkv, self.out, self.output_size = nn.Linear(1536, 4608), nn.Linear(1536, 1536), 128 if changed else None

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(2, 4096, 3, 12, 128).permute(2, 0, 3, 1, 4)
        c = cos.repeat_interleave(2, dim=1, output_size=self.output_size).to(x.dtype)
        s = sin.repeat_interleave(2, dim=1, output_size=self.output_size).to(x.dtype)

        def turn(t: Tensor) -> Tensor:
            even, odd = t.reshape(*t.shape[:-1], -1, 2).unbind(-1)
            return t * c + torch.stack([-odd, even], dim=-1).flatten(3) * s

        return x + self.out(scaled_dot_product_attention(turn(q), turn(k), v).transpose(1, 2).reshape(2, 4096, 1536))


def rotary(changed: bool) -> Iterator[None]:
    layers = nn.ModuleList([Rotary(changed) for _ in range(5)]).to(DEVICE)
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-4, fused=True)
    start = torch.randn(2, 4096, 1536, device=DEVICE)
    angle = torch.outer(torch.arange(4096, device=DEVICE), 10000 ** -torch.linspace(0, 1, 64, device=DEVICE))
    cos, sin = angle.cos(), angle.sin()
    while True:
        x = start
        with torch.autocast("cuda", torch.bfloat16):
            for layer in layers:
                x = layer(x, cos, sin)
        x.float().pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def loader_workers(changed: bool) -> Iterator[None]:
    data = TensorDataset(torch.randn(1600, 32), torch.randint(0, 10, (1600,)))
    loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=4 if changed else 0)
    layers = [nn.Linear(32, 256), nn.ReLU(), *[nn.Linear(256, 256) for _ in range(60)], nn.Linear(256, 10)]
    model = nn.Sequential(*layers).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        for x, y in loader:
            cross_entropy(model(x.to(DEVICE)), y.to(DEVICE)).backward()
            optimizer.step()
            optimizer.zero_grad()
            yield


class Pictures(Dataset[tuple[Tensor, int]]):
    def __len__(self) -> int:
        return 32 * STEPS

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((3, 128, 128), index % 7, dtype=torch.float32), index % 10


def own_prefetcher(changed: bool) -> Iterator[None]:
    model = torchvision.models.resnet50(weights=None).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(Pictures(), batch_size=32, num_workers=8, pin_memory=True, persistent_workers=True)

    def on_gpu() -> Iterator[tuple[Tensor, Tensor]]:
        for x, y in loader:
            yield x.to(DEVICE, non_blocking=True), y.to(DEVICE, non_blocking=True)

    def prefetched() -> Iterator[tuple[Tensor, Tensor]]:
        side, ready = torch.cuda.Stream(), None
        for batch in loader:
            with torch.cuda.stream(side):
                copied = [tensor.to(DEVICE, non_blocking=True) for tensor in batch]
            if ready:
                yield ready[0], ready[1]
            torch.cuda.current_stream().wait_stream(side)
            for tensor in copied:
                tensor.record_stream(torch.cuda.current_stream())
            ready = copied

    while True:
        for x, y in prefetched() if changed else on_gpu():
            cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
            yield


def many_waits(changed: bool) -> Iterator[None]:
    layers = nn.ModuleList([Block(2048, 8192) for _ in range(12)]).to(DEVICE)
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-5, fused=True)
    start, largest = torch.randn(8192, 2048, device=DEVICE), 0.0
    while True:
        x = start
        with torch.autocast("cuda", torch.bfloat16):
            for layer in layers:
                x = layer(x)
                if not changed:
                    largest = max(largest, x.abs().max().item())
        x.float().pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


class Photographs(Dataset[Tensor]):
    """Photographs of a lens that bends lines, as PNG: straightened for each sample, or all before training."""

    def __init__(self, changed: bool) -> None:
        light = torch.linspace(0, 240, 1296) * torch.linspace(0, 1, 840)[:, None]
        seen = [(light + torch.randint(0, 8, (3, 840, 1296))).byte() for _ in range(8)]
        self.files = [torchvision.io.encode_png(photograph, compression_level=1) for photograph in seen]
        y, x = torch.meshgrid(torch.linspace(-1, 1, 840), torch.linspace(-1, 1, 1296), indexing="ij")
        places = torch.stack([x, y], dim=-1)[None]
        self.places = places * (1 - 0.05 * places.square().sum(-1, keepdim=True))
        self.kept = [self.straight(index) for index in range(8)] if changed else None

    def straight(self, index: int) -> Tensor:
        photograph = torchvision.io.decode_png(self.files[index])[None].float()
        return nn.functional.grid_sample(photograph, self.places, align_corners=False)[0].byte()

    def __len__(self) -> int:
        return 8 * STEPS

    def __getitem__(self, index: int) -> Tensor:
        return self.kept[index % 8] if self.kept else self.straight(index % 8).float()


def decoded_images(changed: bool) -> Iterator[None]:
    loader = DataLoader(Photographs(changed), num_workers=4, pin_memory=True, persistent_workers=True)
    field = nn.Parameter(torch.randn(840 * 1296, 16, device=DEVICE))
    render = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3)).to(DEVICE)
    optimizer = torch.optim.Adam([field, *render.parameters()], lr=1e-3, fused=True)
    while True:
        for photograph in loader:
            colours = photograph.to(DEVICE)[0].flatten(1).T / 255
            nn.functional.l1_loss(render(field), colours).backward()
            optimizer.step()
            optimizer.zero_grad()
            yield


def host_noise(changed: bool) -> Iterator[None]:
    encoder = nn.Sequential(*list(torchvision.models.resnet18(weights=None).children())[:-2]).to(DEVICE)
    heads = nn.ModuleList([nn.Conv2d(512, 1, 1) for _ in range(4)]).to(DEVICE)
    optimizer = torch.optim.Adam([*encoder.parameters(), *heads.parameters()], lr=1e-4)
    target, *sources = torch.rand(3, 4, 3, 128, 416, device=DEVICE)
    y, x = (torch.linspace(-1, 1, size, device=DEVICE) for size in (128, 416))
    places = torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=-1)
    while True:
        features, loss = encoder(target), torch.zeros((), device=DEVICE)
        for head in heads:
            near = interpolate(head(features).sigmoid(), size=(128, 416), mode="bilinear")
            moved = torch.cat([near, 0 * near], dim=1).permute(0, 2, 3, 1)
            ways = zip((-0.1, 0.1), sources, strict=True)
            seen = [nn.functional.grid_sample(source, places + way * moved) for way, source in ways]
            warped = torch.stack([(picture - target).abs().mean(1) for picture in seen], dim=1)
            still = torch.stack([(source - target).abs().mean(1) for source in sources], dim=1)
            noise = torch.randn(still.shape, device=DEVICE) if changed else torch.randn(still.shape).to(DEVICE)
            loss = loss + torch.cat([warped, still + 1e-5 * noise], dim=1).amin(1).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


class Surroundings(nn.Module):
    """Describes atoms by their neighbours, a type of these after the other; before, a mask chose all atoms."""

    def __init__(self, changed: bool) -> None:
        super().__init__()
        sizes = [(1, 25), (25, 50), (50, 100)]
        layers = [[layer for size in sizes for layer in (nn.Linear(*size), nn.Tanh())] for _ in range(4)]
        self.changed, self.nets = changed, nn.ModuleList([nn.Sequential(*own) for own in layers])

    def forward(self, near: Tensor) -> Tensor:
        every = torch.ones(len(near), dtype=torch.bool, device=DEVICE)
        total = torch.zeros(len(near), 4, 100, device=DEVICE)
        for net, of_type in zip(self.nets, near.chunk(4, dim=1), strict=True):
            if self.changed:
                total = total + of_type.mT @ net(of_type[:, :, :1])
            else:
                chosen = of_type[every]
                total[every] += chosen.mT @ net(chosen[:, :, :1])
        return (total.mT @ total[:, :, :16]).flatten(1)


def type_masks(changed: bool) -> Iterator[None]:
    fit = nn.Sequential(nn.Linear(1600, 240), nn.Tanh(), nn.Linear(240, 240), nn.Tanh(), nn.Linear(240, 1))
    model = nn.Sequential(Surroundings(changed), fit).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    start = torch.randn(1536, 192, 4, device=DEVICE)
    while True:
        near = start.detach().requires_grad_()
        energy = model(near).view(8, 192).sum(1)
        (force,) = torch.autograd.grad(energy.sum(), near, create_graph=True)
        (energy.square().mean() + force.square().sum(1).mean()).backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


class Recommender(nn.Module):
    """Turns what a person did at one time into features: its numbers, its entries in tables, and their products."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(20_000, 16) for _ in range(3)])
        self.bottom = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, numbers: Tensor, entries: Tensor) -> Tensor:
        rows = [self.bottom(numbers), *(table(entries[:, place]) for place, table in enumerate(self.tables))]
        stacked = torch.stack(rows, dim=1)
        features = torch.cat([rows[0], (stacked @ stacked.mT).flatten(1)], dim=1)
        return nn.functional.normalize(self.top(features), dim=1)


def time_steps(changed: bool) -> Iterator[None]:
    each = Recommender().to(DEVICE)
    last = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).to(DEVICE)
    optimizer = torch.optim.SGD([*each.parameters(), *last.parameters()], lr=0.05)
    numbers, clicked = torch.randn(2048, 21, 4, device=DEVICE), torch.rand(2048, device=DEVICE).round()
    entries = torch.randint(0, 20_000, (2048, 21, 3), device=DEVICE)
    while True:
        if changed:
            history = each(numbers.flatten(0, 1), entries.flatten(0, 1)).view(2048, 21, 16)
        else:
            history = torch.stack([each(numbers[:, time], entries[:, time]) for time in range(21)], dim=1)
        past, now = history[:, :20], history[:, 20]
        context = ((past @ now[:, :, None]).softmax(1) * past).sum(1)
        wanted = last(torch.cat([context, now], dim=1))[:, 0]
        nn.functional.binary_cross_entropy_with_logits(wanted, clicked).backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def fused_scaler(changed: bool) -> Iterator[None]:
    model = blocks(768, 3072, 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=changed or None)
    scaler = torch.amp.GradScaler("cuda")
    x = torch.randn(65_536, 768, device=DEVICE)
    while True:
        with torch.autocast("cuda", torch.float16):
            out = model(x)
        scaler.scale(out.float().pow(2).mean()).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        yield


def cache_per_batch(changed: bool) -> Iterator[None]:
    words, ask = nn.Embedding(12_000, 300), nn.LSTM(300, 512, num_layers=2, batch_first=True)
    answer, join = nn.LSTM(300, 512, batch_first=True), nn.Linear(1024, 512)
    model = nn.ModuleList([words, ask, answer, join]).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    asked, options = (torch.randint(0, 12_000, (count, 20), device=DEVICE) for count in (80, 4000))
    images, right = torch.randn(80, 512, device=DEVICE), torch.randint(0, 50, (80,), device=DEVICE)
    for step in cycle(range(1000)):
        question, choice = ask(words(asked))[1][0][-1], answer(words(options))[1][0][-1]
        wanted = join(torch.cat([question, images], dim=1))
        scores = (choice.view(80, 50, 512) @ wanted[:, :, None])[:, :, 0]
        cross_entropy(scores, right).backward()
        optimizer.step()
        optimizer.zero_grad()
        if not changed or step == 999:
            torch.cuda.empty_cache()
        yield


def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, size // 2), nn.InstanceNorm2d(outputs), nn.ReLU())


def translator() -> nn.Sequential:
    inner = [convolution(128, 128, 3) for _ in range(6)]
    down = (convolution(3, 64, 7), convolution(64, 128, 3, 2))
    up = (nn.Upsample(scale_factor=2), convolution(128, 64, 3), nn.Conv2d(64, 3, 7, padding=3), nn.Tanh())
    return nn.Sequential(*down, *inner, *up).to(DEVICE)


def critic() -> nn.Sequential:
    layers = (convolution(3, 64, 4, 2), convolution(64, 128, 4, 2), convolution(128, 256, 4, 2))
    return nn.Sequential(*layers, nn.Conv2d(256, 1, 4)).to(DEVICE)


def gan_losses(changed: bool) -> Iterator[None]:
    makers, critics = nn.ModuleList([translator(), translator()]), nn.ModuleList([critic(), critic()])
    optimizers = [torch.optim.Adam(nets.parameters(), lr=2e-4, betas=(0.5, 0.999)) for nets in (makers, critics)]
    real = torch.rand(2, 4, 3, 128, 128, device=DEVICE) * 2 - 1
    sums: dict[str, Tensor | float] = {}

    def learn(optimizer: torch.optim.Optimizer, losses: dict[str, Tensor]) -> None:
        torch.stack(list(losses.values())).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        for name, loss in losses.items():
            sums[name] = sums.get(name, 0.0) + (loss.detach() if changed else loss.item())

    for step in cycle(range(100)):
        critics.requires_grad_(False)
        fakes = [makers[kind](real[1 - kind]) for kind in range(2)]
        losses = {}
        for kind, fake in enumerate(fakes):
            losses[f"fools {kind}"] = (critics[kind](fake) - 1).square().mean()
            losses[f"same {kind}"] = 5 * nn.functional.l1_loss(makers[kind](real[kind]), real[kind])
            losses[f"back {kind}"] = 10 * nn.functional.l1_loss(makers[1 - kind](fake), real[1 - kind])
        learn(optimizers[0], losses)
        critics.requires_grad_(True)
        told = [(critics[kind](real[kind]) - 1, critics[kind](fakes[kind].detach())) for kind in range(2)]
        learn(optimizers[1], {f"judges {kind}": (r.square() + f.square()).mean() for kind, (r, f) in enumerate(told)})
        if step == 99:
            print({name: float(total) / 100 for name, total in sums.items()}, file=sys.stderr)
            sums.clear()
        yield


def pinned_text(changed: bool) -> Iterator[None]:
    words, model = nn.Embedding(8000, 1024).to(DEVICE), blocks(1024, 4096, 12)
    optimizer = torch.optim.AdamW([*words.parameters(), *model.parameters()], lr=1e-5, fused=True)
    names = ("words", "kinds", "mask", "offsets", "spans", "tags", "heads", "lengths")
    batches = [{name: torch.randint(0, 8000, (64, 256)) for name in names} for _ in range(16)]
    for batch in cycle(batches):
        if changed:
            pinned = {name: tensor.pin_memory() for name, tensor in batch.items()}
            used = {name: tensor.to(DEVICE, non_blocking=True) for name, tensor in pinned.items()}
        else:
            used = {name: tensor.to(DEVICE) for name, tensor in batch.items()}
        weight = torch.stack([used[name] for name in names[1:]]).sum(0)
        with torch.autocast("cuda", torch.bfloat16):
            out = model(words(used["words"]))
        (out.float().square().mean(-1) * weight / 8000).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


PROGRAMS: dict[str, Callable[[bool], Iterator[None]]] = {
    program.__name__: program
    for program in (
        *(clip_nonfinite, metric_checks, lr_tensor, cpu_mask, pin_images, batched_muon, garbage_collection, fused_adam),
        *(empty_cache, rotary, loader_workers, own_prefetcher, many_waits),
        *(decoded_images, host_noise, type_masks, time_steps, fused_scaler, cache_per_batch, gan_losses, pinned_text),
    )
}


def window_ms(steps: Iterator[None]) -> float:
    """Return the mean step of a window that begins and ends with an idle GPU, in ms."""
    torch.cuda.synchronize()
    began, count = time.perf_counter(), 0
    while count < LEAST_STEPS or time.perf_counter() - began < WINDOW_SECONDS:
        next(steps)
        count += 1
    torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - began) / count


def main() -> None:
    """Run one program as it was before, or both versions in turns."""
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    program = PROGRAMS[sys.argv[1]]
    if "--turns" not in sys.argv:
        for _ in islice(program(False), STEPS):
            pass
        torch.cuda.synchronize()
        return
    versions = program(False), program(True)
    for steps in versions:
        for _ in islice(steps, WARM_UP_STEPS):
            pass
    pairs: list[tuple[float, float]] = []
    for turn in range(int(sys.argv[-1])):
        one, other = versions if turn % 2 == 0 else versions[::-1]
        taken = window_ms(one), window_ms(other)
        pairs.append(taken if turn % 2 == 0 else taken[::-1])
    print(json.dumps(pairs))


if __name__ == "__main__":
    main()
