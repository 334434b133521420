"""Training programs with a place for a slow-down: some of our own, and scripts of other people as they stand."""

from dataclasses import dataclass, field
from pathlib import Path

HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
if device == "cpu":
    torch.set_num_threads(1)
"""
MLP = (
    HEAD
    + """
width = 1024 if device == "cuda" else 256
model = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width), nn.GELU(),
                      nn.Linear(width, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x, y = torch.randn(4096 if device == "cuda" else 64, width, device=device), None
y = torch.randint(0, 10, (len(x),), device=device)
while True:
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
)
TRANSFORMER = (
    HEAD
    + """
width, layers, batch, length = (512, 6, 32, 256) if device == "cuda" else (64, 2, 8, 32)
layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, dropout=0.0)
model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).to(device)
head = nn.Linear(width, 100).to(device)
optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=1e-4)
x = torch.randn(batch, length, width, device=device)
y = torch.randint(0, 100, (batch * length,), device=device)
while True:
    loss = F.cross_entropy(head(model(x)).flatten(0, 1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
)
SMALL_OPS = (
    HEAD
    + """
weights = [nn.Parameter(torch.randn(32, device=device)) for _ in range(40)]
optimizer = torch.optim.SGD(weights, lr=1e-3)
x = torch.randn(8, 32, device=device)
while True:
    out = x
    for weight in weights:
        out = torch.tanh(out * weight + 0.1)
    loss = out.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
)
LOADER = (
    HEAD
    + """
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return torch.full((128,), float(index % 7)), index % 10


def main():
    model = nn.Sequential(nn.Linear(128, 1024), nn.GELU(), nn.Linear(1024, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for x, y in DataLoader(Rows(), batch_size=128, num_workers=2):
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""
)


@dataclass(frozen=True)
class Subject:
    """A program: its own text, or a file of a repository with some of its words replaced, to make it small."""

    name: str
    text: str = ""
    file: str = ""
    """Relative to the folder with other people's repositories."""
    replaced: dict[str, str] = field(default_factory=dict)
    linked: tuple[str, ...] = ()
    """Files that it reads."""
    words: tuple[str, ...] = ()
    step: str = "optimizer.step()"
    """The slow-down stands before the last line with this."""
    busy: tuple[str, ...] = ("cpu", "cuda")
    """Where it is examined."""

    def source(self, others: Path, device: str) -> str:
        """Return its text, as it runs on a device."""
        text = self.text or (others / self.file).read_text()
        for old, new in {**(self.replaced if device == "cpu" else {}), **ALWAYS}.items():
            text = text.replace(old, new)
        return text


ALWAYS = {
    "eval_iters = 200": "eval_iters = 2",
    "from torch.utils.tensorboard import SummaryWriter": "from unittest.mock import MagicMock as SummaryWriter",
}
"""No long evaluation before the first step, and no writer that is not installed."""

SMALL_GPT = {
    "batch_size = 64": "batch_size = 4",
    "block_size = 256": "block_size = 32",
    "n_embd = 384": "n_embd = 48",
    "n_layer = 6": "n_layer = 2",
    "max_iters = 5000": "max_iters = 500000",
}
SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("mlp", MLP),
        Subject("transformer", TRANSFORMER),
        Subject("small_ops", SMALL_OPS),
        Subject("loader", LOADER),
        Subject(
            "lecture_bigram",
            file="ng-video-lecture/bigram.py",
            replaced={"max_iters = 3000": "max_iters = 300000"},
            linked=("ng-video-lecture/input.txt",),
            busy=("cpu",),
        ),
        Subject(
            "lecture_gpt",
            file="ng-video-lecture/gpt.py",
            replaced=SMALL_GPT,
            linked=("ng-video-lecture/input.txt",),
        ),
        Subject(
            "makemore",
            file="makemore/makemore.py",
            linked=("makemore/names.txt",),
            words=("--num-workers", "0", "--n-layer", "2"),
        ),
    )
}
