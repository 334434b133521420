"""A schedule kept as a number of the module: compiled code is made for each of its values."""
import os

import torch
from torch import nn

SMALL = "SMALL" in os.environ
STEPS = int(os.environ.get("STEPS", 10 if SMALL else 10**9))
device = "cuda" if torch.cuda.is_available() else "cpu"
torch._dynamo.config.recompile_limit = 10_000
torch._dynamo.config.accumulated_recompile_limit = 20_000
width = 32 if SMALL else 512


class Warmup(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.phase = "phase 0"

    def forward(self, x):
        scale = 1.0 if self.phase == "done" else 0.5  # planted
        return x + scale * self.net(x)


blocks = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU()) for _ in range(12))).to(device)
warm = Warmup().to(device)
compiled = torch.compile(warm, backend="aot_eager")
optimizer = torch.optim.SGD([*blocks.parameters(), *warm.parameters()], lr=0.01)
x = torch.randn(256, width, device=device)
for step in range(STEPS):
    warm.phase = f"phase {step // 3}"
    loss = compiled(blocks(x)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("steps", step + 1)
