"""A residual network on images of one size, with float32 convolutions whose kernels cuDNN takes without a trial."""
import os
import sys

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", 5 if "SMALL" in os.environ else 10**9))
SMALL = "SMALL" in os.environ
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.backends.cudnn.benchmark = "tried" in sys.argv  # planted


class Block(nn.Module):
    def __init__(self, inside, out, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out),
        )
        self.beside = nn.Conv2d(inside, out, 1, stride, bias=False)

    def forward(self, x):
        return torch.relu(self.body(x) + self.beside(x))


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 7, 2, 3)
        self.blocks = nn.Sequential(*(Block(width * 2**max(i - 1, 0), width * 2**i, 1 + (i > 0)) for i in range(4)))
        self.head = nn.Linear(width * 8, 100)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


size = 32 if SMALL else 160
model = Net(4 if SMALL else 48).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
x, y = torch.randn(4 if SMALL else 64, 3, size, size, device=device), torch.randint(100, (4 if SMALL else 64,), device=device)
for step in range(STEPS):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("steps", step + 1)
