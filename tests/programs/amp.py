"""Mixed precision with a gradient scaler, clipping and running averages, on made-up data."""

import torch
from torch import nn


class AverageMeter:
    def __init__(self) -> None:
        self.sum, self.count = 0.0, 0

    def update(self, value: float, n: int = 1) -> None:
        self.sum += value * n
        self.count += n


def train_one_epoch(
    model: nn.Module, batches: list, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler
) -> float:
    criterion = nn.CrossEntropyLoss()
    losses, norms = AverageMeter(), AverageMeter()
    for x, y in batches:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        if not torch.isfinite(loss):
            raise RuntimeError("the loss is not finite")
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        losses.update(loss.item(), len(x))
        norms.update(float(norm))
    return losses.sum / losses.count


def main() -> None:
    layers = [layer for _ in range(6) for layer in (nn.Linear(1024, 1024), nn.GELU())]
    model = nn.Sequential(*layers, nn.Linear(1024, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda")
    batches = [(torch.randn(256, 1024), torch.randint(10, (256,))) for _ in range(50)]
    for _ in range(1000):
        train_one_epoch(model, batches, optimizer, scaler)


if __name__ == "__main__":
    main()
