"""A hook behind each gradient keeps statistics of the last norms, in Python, on the thread of the backward pass."""
import os
import statistics
from collections import deque

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", 5 if "SMALL" in os.environ else 10**9))
SMALL = "SMALL" in os.environ
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Norms:
    def __init__(self, model):
        self.last = {}
        for name, parameter in model.named_parameters():
            self.last[name] = deque((0.001 * turn for turn in range(200)), maxlen=200)
            parameter.register_post_accumulate_grad_hook(self.watching(name))

    def watching(self, name):
        def note(parameter):
            seen = self.last[name]
            usual = statistics.median(seen)  # planted
            spread = statistics.pstdev(seen)  # planted
            seen.append(usual + 0.001 * spread)

        return note


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


width = 16 if SMALL else 512
model = nn.Sequential(*(Block(width) for _ in range(8))).to(device)
norms = Norms(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
batch = torch.randn(32 if SMALL else 4096, width, device=device)
for step in range(STEPS):
    loss = (model(batch) - batch.roll(1, -1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("steps", step + 1)
