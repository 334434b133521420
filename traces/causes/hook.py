"""A pre-hook on the model checks the batch against the type hints of forward."""
import inspect
import os
import typing

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", 5 if "SMALL" in os.environ else 10**9))
SMALL = "SMALL" in os.environ
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Batch(typing.NamedTuple):
    users: torch.Tensor
    items: torch.Tensor
    prices: torch.Tensor
    context: dict


class Recommender(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.users, self.items = nn.Embedding(50_000, width), nn.Embedding(50_000, width)
        self.deep = nn.Sequential(*(nn.Sequential(nn.Linear(2 * width + 1 if i == 0 else width, width), nn.BatchNorm1d(width), nn.ReLU()) for i in range(24)))
        self.out = nn.Linear(width, 1)

    def forward(self, users: torch.Tensor, items: torch.Tensor, prices: torch.Tensor, context: dict | None = None) -> torch.Tensor:
        x = torch.cat((self.users(users), self.items(items), prices[:, None]), -1)
        return self.out(self.deep(x)).squeeze(-1)


def check(module, args, kwargs):
    for part in module.modules():
        signature = inspect.signature(part.forward)  # planted
        hints = typing.get_type_hints(type(part).forward)  # planted
        assert "self" not in signature.parameters and len(hints) >= 0


model = Recommender(16 if SMALL else 128).to(device)
model.register_forward_pre_hook(check, with_kwargs=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
n = 64 if SMALL else 1024
batch = Batch(torch.randint(50_000, (n,), device=device), torch.randint(50_000, (n,), device=device), torch.rand(n, device=device), {})
clicks = torch.randint(2, (n,), device=device).float()
for step in range(STEPS):
    loss = nn.functional.binary_cross_entropy_with_logits(model(*batch[:3], context=batch.context), clicks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("steps", step + 1)
