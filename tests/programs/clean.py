"""A loop as it should be: batches are fetched ahead on a side stream, and the loss is summed on the GPU."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

Batch = list[torch.Tensor]


class Prefetcher:
    def __init__(self, batches: Iterator[Batch], device: torch.device) -> None:
        self.batches, self.device = batches, device
        self.stream = torch.cuda.Stream()
        self.fetch()

    def fetch(self) -> None:
        with torch.cuda.stream(self.stream):
            self.following = [x.to(self.device, non_blocking=True) for x in next(self.batches)]

    def next(self) -> Batch:
        torch.cuda.current_stream().wait_stream(self.stream)
        batch = self.following
        for x in batch:
            x.record_stream(torch.cuda.current_stream())
        self.fetch()
        return batch


def endless(loader: DataLoader) -> Iterator[Batch]:
    while True:
        yield from loader


def main() -> None:
    device = torch.device("cuda")
    data = TensorDataset(torch.randn(20_000, 1024), torch.randint(10, (20_000,)))
    loader = DataLoader(data, batch_size=512, num_workers=4, pin_memory=True, persistent_workers=True)
    layers = [layer for _ in range(8) for layer in (nn.Linear(2048, 2048), nn.ReLU())]
    model = nn.Sequential(nn.Linear(1024, 2048), *layers, nn.Linear(2048, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    criterion = nn.CrossEntropyLoss()
    batches = Prefetcher(endless(loader), device)
    total = torch.zeros((), device=device)
    for step in range(1, 100_001):
        x, y = batches.next()
        loss = criterion(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.detach()
        if step % 1000 == 0:
            print(step, total.item() / 1000)
            total.zero_()


if __name__ == "__main__":
    main()
