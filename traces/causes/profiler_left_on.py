"""The whole loop within torch.profiler, without a schedule."""
import os

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

SMALL = "SMALL" in os.environ
device = "cuda" if torch.cuda.is_available() else "cpu"
width = 32 if SMALL else 2048
model = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(8))).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(16 if SMALL else 4096, width, device=device)
steps = int(os.environ.get("STEPS", 5 if SMALL else 12_000))
activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device == "cuda" else [])
with profile(activities=activities) as profiler:  # planted
    for _ in range(steps):
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profiler.step()
print("steps", steps)
