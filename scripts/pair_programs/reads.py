"""Programs that read numbers from the GPU in every step, and the same with the numbers left there."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  torch's own name for it

from pinprof.workloads.model import LEARNING_RATE
from pinprof.workloads.waits import TINY_LAYERS, TINY_WIDTH, chain
from scripts.pair_programs import parts


def gan(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """DCGAN on images of 32 by 32: the printed numbers become sums on the GPU."""
    channels, rows = parts.scaled(64, scale), parts.scaled(64, scale)
    net_g, net_d = generator(channels).to(device), discriminator(channels).to(device)
    criterion = nn.BCEWithLogitsLoss()
    optimizer_d = torch.optim.Adam(net_d.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizer_g = torch.optim.Adam(net_g.parameters(), lr=2e-4, betas=(0.5, 0.999))
    real = torch.randn(rows, 3, 32, 32, device=device)
    ones, zeros = torch.ones(rows, device=device), torch.zeros(rows, device=device)
    totals = [torch.zeros((), device=device) for _ in range(4)]

    def step() -> Tensor:
        net_d.zero_grad()
        output = net_d(real).view(-1)
        loss_real = criterion(output, ones)
        loss_real.backward()
        fake = net_g(torch.randn(rows, 100, 1, 1, device=device))
        loss_fake = criterion(net_d(fake.detach()).view(-1), zeros)
        loss_fake.backward()
        optimizer_d.step()
        net_g.zero_grad()
        loss_g = criterion(net_d(fake).view(-1), ones)
        loss_g.backward()
        optimizer_g.step()
        numbers = [loss_real.detach(), loss_fake.detach(), loss_g.detach(), output.detach().mean()]
        if fixed:
            for total, number in zip(totals, numbers, strict=True):
                total.add_(number)
        else:
            real_, fake_, made, d_x = (number.item() for number in numbers)
            print(f"Loss_D: {real_:.4f} {fake_:.4f} Loss_G: {made:.4f} D(x): {d_x:.4f}")
        return loss_g.detach()

    return step


def generator(channels: int) -> nn.Module:
    """Return the network that makes images."""
    layers: list[nn.Module] = []
    inputs = 100
    for outputs, stride, padding in ((4 * channels, 1, 0), (2 * channels, 2, 1), (channels, 2, 1)):
        layers += [nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False), nn.BatchNorm2d(outputs)]
        layers.append(nn.ReLU(inplace=True))
        inputs = outputs
    return nn.Sequential(*layers, nn.ConvTranspose2d(inputs, 3, 4, 2, 1, bias=False), nn.Tanh())


def discriminator(channels: int) -> nn.Module:
    """Return the network that classifies images."""
    return nn.Sequential(
        nn.Conv2d(3, channels, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(channels, 2 * channels, 4, 2, 1, bias=False),
        nn.BatchNorm2d(2 * channels),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(2 * channels, 1, 8, 1, 0, bias=False),
    )


def resnet_meters(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """ResNet-18 with the meters of the ImageNet example: loss, top 1 and top 5."""
    rows, side, classes = parts.scaled(64, scale), parts.scaled(32, scale, 8), 100
    model = parts.resnet(parts.scaled(64, scale), classes).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
    images = parts.in_host_memory(torch.randn(rows, 3, side, side), device, pinned=True)
    labels = parts.in_host_memory(torch.randint(classes, (rows,)), device, pinned=True)
    meters = parts.Readings(device, fixed=fixed)

    def step() -> Tensor:
        x, y = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        output = model(x)
        loss = F.cross_entropy(output, y)
        correct = output.detach().topk(5, 1).indices.eq(y.view(-1, 1)).float()
        for number in (loss, correct[:, :1].sum() * (100.0 / rows), correct.sum() * (100.0 / rows)):
            meters.take(number)
        return parts.update(optimizer, loss)

    return step


def micro_batches(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Train a small GPT, four micro-batches an update, the loss of each read or summed."""
    vocabulary, block, count = 512, parts.scaled(128, scale, 8), 4
    model = parts.Gpt(vocabulary, block, 4 * parts.scaled(64, scale), depth=2).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")
    tokens = torch.randint(vocabulary, (count, parts.scaled(16, scale), block + 1), device=device)
    total = torch.zeros((), device=device)
    history: list[float] = []

    def step() -> Tensor:
        read = 0.0
        optimizer.zero_grad(set_to_none=True)
        for micro in tokens:
            loss = model(micro[:, :-1], micro[:, 1:]) / count
            loss.backward()
            if fixed:
                total.add_(loss.detach())
            else:
                read += loss.item()
        optimizer.step()
        history.append(read)
        return loss.detach()

    return step


def amp_clip_norm(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Mixed precision with clipped gradients; their norm read or summed."""
    width, rows = parts.scaled(1024, scale), parts.scaled(256, scale)
    model = parts.mlp(width, width, 16, 10).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x, y = torch.randn(rows, width, device=device), torch.randint(10, (rows,), device=device)
    norms = parts.Readings(device, fixed=fixed)

    def step() -> Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norms.take(nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        optimizer.step()
        return loss.detach()

    return step


def timed_parts(device: torch.device, fixed: bool, scale: float, *, rows: int = 32, width: int = 32) -> parts.Step:
    """Train a residual network with the device synchronized around forward and backward, as people do to time them."""
    training = parts.small_images(device, scale, rows, width)

    def wait() -> None:
        if not fixed:
            parts.synchronize(device)

    def step() -> Tensor:
        wait()
        loss = training.loss()
        wait()
        training.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        wait()
        training.optimizer.step()
        return loss.detach()

    return step


def print_loss(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Train a small GPT whose loss is printed as a tensor in every step, or not at all."""
    model, batch = parts.small_gpt(device, scale, depth=6)
    optimizer, tokens = torch.optim.AdamW(model.parameters(), lr=1e-4), batch.to(device)

    def step() -> Tensor:
        loss = parts.update(optimizer, model(tokens[:, :-1], tokens[:, 1:]))
        if not fixed:
            print(loss)
        return loss

    return step


def adam_item(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Train a plain network of many small layers with Adam; the loss read or summed."""
    training, losses = parts.small_layers(device, scale, rows=128, foreach=True), parts.Readings(device, fixed=fixed)
    return lambda: losses.take(training.step())


def two_gpus_item(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Train a network with one half on a second GPU, if there is one; the loss read or summed."""
    second = torch.device("cuda", 1) if device.type == "cuda" and torch.cuda.device_count() > 1 else device
    width, rows = parts.scaled(1024, scale), parts.scaled(512, scale)
    lower, upper = parts.mlp(width, width, 10, width).to(device), parts.mlp(width, width, 10, 10).to(second)
    optimizer = torch.optim.Adam([*lower.parameters(), *upper.parameters()], lr=1e-4)
    x, y = torch.randn(rows, width, device=device), torch.randint(10, (rows,), device=second)
    losses = parts.Readings(second, fixed=fixed)
    return lambda: losses.take(parts.update(optimizer, F.cross_entropy(upper(lower(x).to(second)), y)))


def chain_item(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Train a chain of tiny operations; its loss read in the middle of the step, or not."""
    count = max(2, round(TINY_LAYERS * scale))
    weights = [torch.randn(TINY_WIDTH, device=device, requires_grad=True) for _ in range(count)]
    optimizer = torch.optim.SGD(weights, lr=LEARNING_RATE, fused=device.type == "cuda")
    batch = torch.randn(TINY_WIDTH, device=device)
    losses = parts.Readings(device, fixed=fixed)
    return lambda: parts.update(optimizer, losses.take(chain(batch, weights)))


def late_item(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Read the loss of the step before once this step is queued: it waits for all of this step."""
    return _read_late(parts.small_images(device, scale).step, fixed=fixed)


def _read_late(train: Callable[[], Tensor], *, fixed: bool) -> parts.Step:
    earlier: list[Tensor] = []
    history = parts.AverageMeter()

    def step() -> Tensor:
        loss = train()
        if earlier and not fixed:
            history.update(earlier[0].item())
        earlier[:] = [loss]
        return loss

    return step


def late_item_gpu_bound(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Read the loss of the step before once this step is queued, where the GPU is always behind."""
    training, batch = parts.resident(device, scale)
    return _read_late(lambda: training.train(batch), fixed=fixed)


def five_losses(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """One body with five heads; each head's loss read, one after the other."""
    width, rows, heads = parts.scaled(512, scale), parts.scaled(256, scale), 5
    body = parts.mlp(width, width, 12, width)
    model = nn.ModuleList([body, *(parts.mlp(width, width, 1, 10) for _ in range(heads))]).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    x, y = torch.randn(rows, width, device=device), torch.randint(10, (heads, rows), device=device)
    readings = parts.Readings(device, fixed=fixed)

    def step() -> Tensor:
        hidden = model[0](x)
        losses = [F.cross_entropy(head(hidden), target) for head, target in zip(model[1:], y, strict=True)]
        return parts.update(optimizer, torch.stack([readings.take(loss) for loss in losses]).sum())

    return step


def lightning_log(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Train a LightningModule driven by a plain loop; `training_step` notes its loss as a number or as a tensor."""
    import pytorch_lightning as pl  # noqa: PLC0415  slow to import, and only this pair needs it

    width, rows = parts.scaled(1024, scale), parts.scaled(64, scale)

    class Classifier(pl.LightningModule):
        """A plain classifier."""

        total: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Flatten(), parts.mlp(3 * 32 * 32, width, 8, 10))
            self.history = parts.AverageMeter()
            self.register_buffer("total", torch.zeros(()))

        def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
            """Return the loss."""
            images, labels = batch
            loss = F.cross_entropy(self.net(images), labels)
            if fixed:
                self.total += loss.detach()
            else:
                self.history.update(loss.item())
            return loss

    module = Classifier().to(device)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-4)
    batch = torch.randn(rows, 3, 32, 32, device=device), torch.randint(10, (rows,), device=device)
    return lambda: parts.update(optimizer, module.training_step(batch, 0))


def gpt2_item(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """GPT-2 of transformers: its loss read, and a mask given that it looks into; or neither."""
    from transformers import GPT2Config, GPT2LMHeadModel  # noqa: PLC0415  slow to import, and only this pair needs it

    block, width = parts.scaled(64, scale, 8), 4 * parts.scaled(32, scale)
    config = GPT2Config(
        vocab_size=512, n_positions=block, n_embd=width, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=0
    )
    model = GPT2LMHeadModel(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(512, (parts.scaled(16, scale), block), device=device)
    mask = torch.ones_like(tokens)
    losses = parts.Readings(device, fixed=fixed)

    def step() -> Tensor:
        if not fixed and not mask.any():
            raise ValueError("nothing to attend to")
        masked = {} if fixed else {"attention_mask": mask}
        return losses.take(parts.update(optimizer, model(input_ids=tokens, labels=tokens, **masked).loss))

    return step


def best_loss(device: torch.device, fixed: bool, scale: float) -> parts.Step:
    """Train a small GPT that remembers its best loss: compared on the host, or on the GPU."""
    model, batch = parts.small_gpt(device, scale, depth=4, block=64)
    optimizer, tokens = parts.sgd(model, device), batch.to(device)
    best = [torch.full((), 1e9, device=device)]

    def step() -> Tensor:
        loss = parts.update(optimizer, model(tokens[:, :-1], tokens[:, 1:]))
        if fixed:
            best[0] = torch.minimum(best[0], loss)
        elif loss < best[0]:
            best[0] = loss
        return loss

    return step
