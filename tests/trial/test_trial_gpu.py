"""`pinprof try` on a GPU: a planted program is mended and proven, and a sound one is left alone."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PLANTED = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(512, 3, 192, 192), torch.randint(10, (512,)))
    loader = DataLoader(data, batch_size=32)
    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.ReLU(),
        nn.Conv2d(128, 128, 3, 1, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(400):
        total = 0.0
        for x, y in loader:
            x, y = x.cuda(), y.cuda()
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(epoch, total)


main()
"""


def tried(folder: Path, text: str, *words: str) -> tuple[int, Any]:
    """Return the exit status and the document of a trial."""
    (folder / "train.py").write_text(text)
    command = [sys.executable, "-m", "pinprof", "try", "--minutes", "1.5", "--seconds", "1", "--json", "try.json"]
    done = subprocess.run([*command, *words, "train.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert (folder / "try.json").is_file(), done.stderr
    return done.returncode, json.loads((folder / "try.json").read_text())


@pytest.mark.gpu
def test_a_planted_program_is_mended_and_proven(tmp_path: Path) -> None:
    status, found = tried(tmp_path, PLANTED)
    assert (status, found["verdict"]) == (0, "take_it"), found["sentence"]
    assert found["measured"]["ratio"] < 0.97
    assert found["numbers"]["verdict"] in {"equal", "rounding"}
    assert found["guard"]["copies"] > 0
    assert found["guard"]["races"] == []
    assert found["verification"] is not None, found["verification_reason"]
    assert found["seconds"] < 240


@pytest.mark.gpu
def test_a_program_without_a_fault_ends_at_once(tmp_path: Path) -> None:
    sound = PLANTED.replace("batch_size=32", "batch_size=32, pin_memory=True").replace(".cuda(), y.cuda()", (
        ".cuda(non_blocking=True), y.cuda(non_blocking=True)"
    )).replace("total += loss.item()", "total += loss.detach()")  # fmt: skip
    status, found = tried(tmp_path, sound)
    assert (status, found["verdict"]) == (0, "nothing_to_change"), found["sentence"]
    assert found["seconds"] < 90
