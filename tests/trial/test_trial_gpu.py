"""`pinprof try` on a GPU: a planted program is mended and proven, and a sound one is left alone.

To make a batch takes the host some ms, and to compute a step takes the GPU some: a wait in each step adds them up.
"""

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
    data = TensorDataset(torch.randn(4096, 3072), torch.randint(10, (4096,)))
    loader = DataLoader(data, batch_size=256)
    hidden = [layer for _ in range(6) for layer in (nn.Linear(4096, 4096), nn.ReLU())]
    model = nn.Sequential(nn.Linear(3072, 4096), nn.ReLU(), *hidden, nn.Linear(4096, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2000):
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
    status, document = tried(tmp_path, PLANTED)
    assert (status, document["verdict"]) == (0, "take_it"), document["sentence"]
    assert document["measured"]["ratio"] < 0.97, document["sentence"]
    assert document["numbers"]["verdict"] in {"equal", "rounding"}, document["numbers"]
    kept = "".join(fix["diff"] or "" for fix in document["fixes"])
    assert "-            total += loss.item()" in kept, [(fix["rule"], fix["fate"]) for fix in document["fixes"]]
    assert document["guard"]["ran"], document["guard"]["reason"]
    assert document["guard"]["races"] == []
    assert document["guard"]["copies"] > 0 or "non_blocking" not in kept, document["guard"]
    assert document["verification"] is not None, document["verification_reason"]
    assert document["seconds"] < 420


@pytest.mark.gpu
def test_a_program_without_a_fault_ends_at_once(tmp_path: Path) -> None:
    sound = PLANTED.replace("batch_size=256", "batch_size=256, pin_memory=True").replace(".cuda(), y.cuda()", (
        ".cuda(non_blocking=True), y.cuda(non_blocking=True)"
    )).replace("total += loss.item()", "total += loss.detach()")  # fmt: skip
    status, document = tried(tmp_path, sound)
    assert (status, document["verdict"]) == (0, "nothing_to_change"), document["sentence"]
    assert document["seconds"] < 90
