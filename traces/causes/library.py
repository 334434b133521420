"""Meta-learning: each task starts from a copy of the settings."""
import copy
import os
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

SMALL = os.environ.get("SMALL") == "1"
MAX = int(os.environ.get("STEPS", 5 if SMALL else 0))
device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")

settings = {
    "tasks": [{"name": f"task{i}", "classes": list(range(5)), "shots": {"train": 5, "test": 15}} for i in range(700)],
    "inner": {"rate": 0.01, "steps": 3, "per_layer": {f"layer{i}": [0.01] * 8 for i in range(40)}},
}


class Learner:
    def __init__(self, net):
        self.net = net
        self.outer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def task(self, options, x, y):
        weights = dict(self.net.named_parameters())
        for _ in range(options["inner"]["steps"]):
            loss = F.cross_entropy(functional_call(self.net, weights, x), y)
            grads = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
            weights = {n: w - options["inner"]["rate"] * g for (n, w), g in zip(weights.items(), grads)}
        return F.cross_entropy(functional_call(self.net, weights, x), y)

    def step(self, x, y):
        options = copy.deepcopy(settings)  # planted
        options["inner"]["rate"] *= 0.5
        loss = self.task(options, x, y)
        self.outer.zero_grad()
        loss.backward()
        self.outer.step()


width = 32 if SMALL else 256
net = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 5)).to(device)
learner = Learner(net)
x, y = torch.randn(75, 64, device=device), torch.randint(0, 5, (75,), device=device)
n, stop = 0, time.monotonic() + 95
while n < MAX or (not MAX and time.monotonic() < stop):
    learner.step(x, y)
    n += 1
print("steps", n)
