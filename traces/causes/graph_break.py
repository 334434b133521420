"""A compiled training function that keeps a log of its layers with the standard library."""
import logging
import os

import torch
from torch import nn

SMALL = "SMALL" in os.environ
STEPS = int(os.environ.get("STEPS", 5 if SMALL else 10**9))
device = "cuda" if torch.cuda.is_available() else "cpu"
logger = logging.getLogger("net")
logger.addHandler(logging.NullHandler())


class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.inp = nn.Linear(32, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.out = nn.Linear(width, 1)
        self.times = {}

    def forward(self, x):
        x = self.inp(x)
        for i, layer in enumerate(self.layers):
            x = x + torch.tanh(layer(x))
        self.note(x)
        return self.out(torch.relu(x) ** 2)

    def note(self, x):
        logger.warning("norm of the last layer %.3f", x.norm().item())  # planted


net = Net(32 if SMALL else 384, 2 if SMALL else 12).to(device)
step_fn = torch.compile(net, backend="aot_eager" if SMALL else "inductor")
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
x, y = torch.randn(256, 32, device=device), torch.randn(256, 1, device=device)
for step in range(STEPS):
    optimizer.zero_grad()
    nn.functional.mse_loss(step_fn(x), y).backward()
    optimizer.step()
print("steps", step + 1)
