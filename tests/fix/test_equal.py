"""Changed programs run, and print what they printed before."""

import subprocess
from pathlib import Path

import pytest
from fixing import mended, plain
from warm_python import warm_python

TRAINING = '''\
"""Trains a small network, in the ways that people write it."""
import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cpu")
data = TensorDataset(torch.randn(64, 8, dtype=torch.float64), torch.randint(3, (64,)))
model = nn.Linear(8, 3).to(device)
optimizer = optim.SGD(model.parameters(), lr=0.1, foreach=False)


def train(loader, epochs=3):
    history = []
    for epoch in range(epochs):
        running, correct, seen = 0.0, 0, 0
        total_loss = 0
        for step, (x, y) in enumerate(loader):
            x, y = x.to(device).float(), y.to(device)  #? PIN104
            out = model(x) * torch.tensor(0.5, device=device)  #? PIN209
            loss = F.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            value = loss.item()  #? PIN201
            running += loss.item() * x.size(0)  #? PIN201
            total_loss += loss.item()  #? PIN201
            correct += (out.argmax(1) == y).sum().item()  #? PIN201
            seen += len(x)
            if torch.isnan(loss).any() and step % 4 == 0:  #? PIN202
                print("nan")
            if step % 4 == 3:
                print(f"{step}: {running / seen!r} {value!r} {correct}/{seen}", value)
        history.append((running / seen, correct, total_loss / len(loader)))
    return history


def test(loader):
    loss, correct = 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            out = model(x.float().to(device))
            loss += F.cross_entropy(out, y, reduction="sum").item()  #? PIN201
            correct += out.argmax(dim=1, keepdim=True).eq(y.view(-1, 1)).sum().item()  #? PIN201
    print("test {:.7f} {}".format(loss / len(loader.dataset), correct), repr(loss), type(correct))
    return loss, correct


if __name__ == "__main__":
    loader = DataLoader(  #! loader
        data,
        batch_size=8,  # small
        shuffle=True,
        num_workers=1
    )
    print(train(loader))
    print(test(loader), test([]) if False else "", model.weight.sum().item())
'''.replace("enumerate(loader):\n", "enumerate(loader):  #! loop\n", 1)


def run(folder: Path, name: str, code: str) -> str:
    (folder / name).write_text(code)
    done = subprocess.run(
        [warm_python(), "-W", "ignore", name], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_changed_program_prints_the_same_numbers(tmp_path: Path) -> None:
    outcome = mended(tmp_path, TRAINING)
    for made in (
        "pin_memory=True",
        ".double()",
        ".clone()",
        "torch.full((), 0.5",
        "step % 4 == 0 and",
        "non_blocking=True).float()",
    ):
        assert made in outcome.code, outcome.why
    assert outcome.code.count(".item()") == 3, outcome.why  # twice the value that is used, and the last line
    before, after = run(tmp_path, "before.py", plain(TRAINING)), run(tmp_path, "after.py", outcome.code)
    assert "test " in before
    assert after == before
