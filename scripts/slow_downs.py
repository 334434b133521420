"""Training programs, and slow-downs to put into them, with which `pinprof ab` is examined; and histories with one.

Some programs are our own, the others scripts of other people as they stand.
"""

import subprocess
from collections.abc import Collection
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

IDENTITY = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")
BROKEN = "raise RuntimeError('half done')\n"


@dataclass(frozen=True)
class Plant:
    """A slow-down: a line for the top of the program and one for its step, in which `{units}` is its size."""

    name: str
    step: str
    top: str = ""
    names: tuple[str, ...] = ()
    """Parts of the names of ops, kernels, copies or waits that the slow-down causes."""
    begin: int = 1000
    """The number of units to try first."""

    def is_named(self, kind: str, what: str) -> bool:
        """Return whether a named cause is this slow-down: its line, or its op, kernel, copy or wait."""
        return "planted" in what if kind == "line" else any(part in what.lower() for part in self.names)


ON_CPU = {
    plant.name: plant
    for plant in (
        Plant("op", "planted[:{units}].erfinv()", "planted = torch.full((1 << 22,), 0.3)", ("erfinv",), 20_000),
        Plant("python", "for planted in range({units}): planted * 3", begin=2000),
        Plant(
            "item",
            "for _ in range({units}): planted.item()",
            "planted = torch.ones(())",
            ("item", "_local_scalar_dense"),
            100,
        ),
        Plant("copy", "planted[:{units}].clone()", "planted = torch.ones(1 << 24)", ("clone", "copy_"), 100_000),
    )
}
ON_GPU = {
    plant.name: plant
    for plant in (
        Plant(
            "op",
            "for _ in range({units}): planted.erfinv()",
            "planted = torch.full((1 << 22,), 0.3, device='cuda')",
            ("erfinv",),
            300,
        ),
        Plant("python", "for planted in range({units}): planted * 3", begin=30_000),
        Plant(
            "sync",
            "planted.item(); sum(range({units}))  # planted",
            "planted = torch.ones((), device='cuda')",
            ("item", "_local_scalar_dense", "dtoh"),
            50_000,
        ),
        Plant(
            "copy",
            "planted[:{units}].to('cuda')",
            "planted = torch.ones(1 << 26)",
            ("htod", "blocking_copy", "pageable", "aten::to", "_to_copy", "copy_"),
            4_000_000,
        ),
    )
}
KINDS = {"cpu": ON_CPU, "cuda": ON_GPU}


def write_program(folder: Path, subject: Subject, others: Path, device: str, plant: Plant | None, units: int) -> None:
    """Write a program into a folder, with this number of units of a slow-down."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(planted(subject.source(others, device), subject.step, plant, units))
    for path in subject.linked:
        link = folder / Path(path).name
        if not link.exists():
            link.symlink_to(others / path)


def planted(text: str, step: str, plant: Plant | None, units: int) -> str:
    """Return the text with the slow-down before the last line with the step."""
    if plant is None or not units:
        return text
    lines = text.splitlines()
    step_line = max(number for number, line in enumerate(lines) if step in line)
    indent = lines[step_line][: len(lines[step_line]) - len(lines[step_line].lstrip())]
    top = next(number for number, line in enumerate(lines) if line == "import torch") + 1
    lines.insert(step_line, indent + plant.step.format(units=units))
    if plant.top:
        lines.insert(top, plant.top)
    return "\n".join(lines) + "\n"


def git(folder: Path, *words: str) -> str:
    """Return what git prints."""
    result = subprocess.run(["git", *IDENTITY, *words], cwd=folder, check=True, capture_output=True, text=True)  # noqa: S607
    return result.stdout.strip()


def write_history(
    folder: Path, texts: tuple[str, str], *, count: int, slow: int, broken: Collection[int] = ()
) -> tuple[str, str]:
    """Make a repository whose `train.py` is the first text, from revision `slow` on the second; return good and slow.

    After the good revision come `count` others, numbered from 1, which each change something else too. The last is
    HEAD. Those that are `broken` do not run.
    """
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    commits = []
    for number in range(count + 1):
        text = texts[number >= slow]
        (folder / "train.py").write_text((BROKEN if number in broken else "") + text + f"\n# revision {number}\n")
        (folder / "notes.txt").write_text(f"{number}\n")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", f"Revision {number}")
        commits.append(git(folder, "rev-parse", "HEAD"))
    return commits[0], commits[slow]
