"""A graph network on a made-up citation graph: boolean masks choose the nodes of each split."""

import torch
import torch.nn.functional as F
from torch import nn


class GraphConv(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        source, target = edges
        keep = source != target
        messages = self.linear(x)[source[keep]]
        return torch.zeros_like(self.linear(x)).index_add_(0, target[keep], messages)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GraphConv(128, 64), GraphConv(64, 7)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return self.second(F.dropout(self.first(x, edges).relu(), training=self.training), edges)


def accuracy(out: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> float:
    correct = out.argmax(dim=1)[mask] == y[mask]
    return int(correct.sum()) / int(mask.sum())


def train(model: Net, optimizer: torch.optim.Optimizer, data: dict[str, torch.Tensor]) -> torch.Tensor:
    optimizer.zero_grad()
    out = model(data["x"], data["edges"])
    loss = F.cross_entropy(out[data["train"]], data["y"][data["train"]])
    loss.backward()
    optimizer.step()
    return loss


@torch.no_grad()
def evaluate(model: Net, data: dict[str, torch.Tensor]) -> list[float]:
    model.eval()
    out = model(data["x"], data["edges"])
    result = [accuracy(out, data["y"], data[split]) for split in ("train", "test")]
    model.train()
    return result


def main() -> None:
    device, nodes = "cuda", 4000
    chosen = torch.rand(nodes)
    data = {
        "x": torch.randn(nodes, 128),
        "edges": torch.randint(nodes, (2, 40_000)),
        "y": torch.randint(7, (nodes,)),
        "train": chosen < 0.6,
        "test": chosen > 0.8,
    }
    data = {name: value.to(device) for name, value in data.items()}
    model = Net().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(100_000):
        loss = train(model, optimizer, data)
        scores = evaluate(model, data)
        if epoch % 2 == 0:
            print(f"{epoch}: {loss:.3f} {scores}")


if __name__ == "__main__":
    main()
