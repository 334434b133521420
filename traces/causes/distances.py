"""Metric learning: distances of all pairs of a batch, computed one by one."""
import os

import torch
from torch import nn

SMALL = "SMALL" in os.environ
STEPS = int(os.environ.get("STEPS", 5 if SMALL else 10**9))
device = "cuda" if torch.cuda.is_available() else "cpu"
n, width = (64, 32) if SMALL else (3072, 256)


def triplet_loss(embedded, labels):
    distances = torch.cdist(embedded, embedded, compute_mode="donot_use_mm_for_euclid_dist")  # planted
    same = labels[:, None] == labels[None]
    far = (distances * same).amax(1)
    near = distances.masked_fill(same, 1e6).amin(1)
    return torch.relu(far - near + 0.3).mean()


model = nn.Sequential(nn.Linear(128, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x, labels = torch.randn(n, 128, device=device), torch.randint(50, (n,), device=device)
for step in range(STEPS):
    loss = triplet_loss(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("steps", step + 1)
