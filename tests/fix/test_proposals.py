"""What matches the form of a fix and is not certain is proposed with the reason, and never made."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixing import LOADER, Outcome, mended, plain

from pinprof.fix import Chosen

PROPOSES = Chosen(proposes=True)
SUM = """total = 0.0
for step, (x, y) in enumerate(loader):
    {}
    if step % 100 == 99:
        print(total / 100)
        total = 0.0
"""
LIST = """losses = []
for epoch in range(9):
    for x in loader:
        losses.append(x.mean().{}
{}print(losses)
"""
BATCH = """from torch.utils.data import DataLoader
loader = DataLoader(data, num_workers=2)  #! loader
for x, y in loader:  #! loop
    x = x.to(device)  #? PIN104
    {}
"""


def later(code: str) -> str:
    """Return the sum as it is where it stays on the GPU."""
    return SUM.format(code).replace("print(total", "print(float(total)")


PROPOSED: dict[str, tuple[str, str, str, dict[str, Any]] | tuple[str, str, str]] = {
    "a sum of what may be a whole number": (
        SUM.format("total += step_of(model, x).item()  #? PIN201"),
        later("total += step_of(model, x).detach().double()"),
        "the source does not show whether step_of(model, x) is a whole number",
    ),
    "a sum times what may be a tensor": (
        SUM.format("total += x.mean().item() * args.n  #? PIN201"),
        later("total += x.mean().detach().double() * args.n"),
        "args.n may not be a number on the host",
    ),
    "a sum on several GPUs": (
        SUM.format("total += x.mean().item()  #? PIN201"),
        later("total += x.mean().detach().double()"),
        "the process uses several GPUs",
        {"gpus": 2},
    ),
    "a sum before a clock of each step": (
        "import time\n" + SUM.format("total += x.mean().item()  #? PIN201\n    times.append(time.time())"),
        "import time\n" + later("total += x.mean().detach().double()\n    times.append(time.time())"),
        "line 5 reads a clock, which needs the wait",
    ),
    "a list over several loops": (
        LIST.format("item())  #? PIN201", ""),
        LIST.format("detach().clone())", "losses = [value.item() for value in losses]\n"),
        "the list grows over several loops",
    ),
    "a number where an error is caught": (
        (
            "for step, x in enumerate(loader):\n    try:\n        v = x.mean().item()  #? PIN201\n"
            "        if step % 10 == 0:\n            log(v)\n    except RuntimeError:\n        pass\n"
        ),
        (
            "for step, x in enumerate(loader):\n    try:\n        v = x.mean().detach().clone()\n"
            "        if step % 10 == 0:\n            log(v.item())\n    except RuntimeError:\n        pass\n"
        ),
        "line 2 may catch an error of the read",
    ),
    "a condition that may change something": (
        "for step, x in enumerate(loader):\n    if check(x) and step % 50 == 0:  #? PIN202\n        print(x)\n",
        "for step, x in enumerate(loader):\n    if step % 50 == 0 and check(x):\n        print(x)\n",
        "check(x) may change something",
    ),
    "a condition on what may be no number": (
        "import torch\ndef f(loss, step=0):\n    if torch.isnan(loss) and step % 50 == 0:  #? PIN202\n        pass\n",
        "import torch\ndef f(loss, step=0):\n    if step % 50 == 0 and torch.isnan(loss):\n        pass\n",
        "step may not be a number each time",
    ),
    "a single synchronization": (
        "import torch\nfor x in loader:\n    train(x)\n    torch.cuda.synchronize()  #? PIN210\n",
        "import torch\nfor x in loader:\n    train(x)\n",
        "the source does not show what relies on the wait",
    ),
    "a cache that a program may need to empty": (
        "import torch\nimport cupy\nfor x in loader:\n    train(x)\n    torch.cuda.empty_cache()  #? PIN303\n",
        "import torch\nimport cupy\nfor x in loader:\n    train(x)\n",
        "the program may need the memory that torch keeps (cupy)",
    ),
    "a batch that is used on the host": (
        BATCH.format("names.append(label(y))\n    z = y.to(device)  #? PIN104\n    y.add_(1)"),
        BATCH.format("names.append(label(y))\n    z = y.to(device, non_blocking=True)\n    y.add_(1)")
        .replace("num_workers=2", "num_workers=2, pin_memory=True")
        .replace("x.to(device)", "x.to(device, non_blocking=True)"),
        "y is used on the host in line 5",
    ),
    "a DataLoader whose main thread would pin": (
        BATCH.format("model(x)").replace("num_workers=2", "shuffle=True"),
        BATCH.format("model(x)")
        .replace("num_workers=2", "shuffle=True, pin_memory=True")
        .replace("x.to(device)", "x.to(device, non_blocking=True)"),
        "with num_workers=0 the main thread would pin",
        {"loader": replace(LOADER, num_workers=0)},
    ),
    "memory that the line pins": (
        "for i in range(9):\n    x = take(data, i).pin_memory().to(device)  #? PIN102\n",
        "for i in range(9):\n    x = take(data, i).pin_memory().to(device, non_blocking=True)\n",
        "what it copies is not the name of a batch",
        {"pinned": True},
    ),
    "samples of a data set that nobody knows": (
        (
            "from torch.utils.data import DataLoader\nif __name__ == '__main__':\n"
            "    loader = DataLoader(data)  #! loader\n    for x in loader:  #! loop\n        f(x)  #? PIN401\n"
        ),
        (
            "from torch.utils.data import DataLoader\nif __name__ == '__main__':\n"
            "    loader = DataLoader(data, num_workers=4)\n    for x in loader:\n        f(x)\n"
        ),
        "cv2 makes its samples",
        {"loader": replace(LOADER, num_workers=0, fixed=True, foreign=("cv2",), length=10**4, begun=1), "cpus": 8},
    ),
}


def applied(folder: Path, outcome: Outcome) -> str:
    """Return the program with all patches and proposals, as git applies them one after the other."""
    (folder / "train.py").write_bytes(outcome.before)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    for patch in (*outcome.patches.patches, *outcome.patches.proposals):
        subprocess.run(["git", "apply"], cwd=folder, input=patch.diff, check=True)
    return plain((folder / "train.py").read_text())


@pytest.mark.parametrize("name", PROPOSED)
def test_what_is_not_certain_is_proposed_with_the_reason(name: str, tmp_path: Path) -> None:
    before, after, why, *rest = PROPOSED[name]
    told: dict[str, Any] = rest[0] if rest else {}
    assert why in mended(tmp_path, before, **told).why, "a plain fix refuses it"
    outcome = mended(tmp_path, before, **told, chosen=PROPOSES)
    (proposal,) = outcome.patches.proposals
    assert any(why in doubt for doubt in proposal.change.doubts), proposal.change.doubts
    assert why not in outcome.why
    assert applied(tmp_path, outcome) == plain(after)


@pytest.mark.parametrize(
    "code",
    [
        SUM.format("total += x.mean().item()  #? PIN201\n    print(total)"),
        SUM.format("self.total += x.mean().item()  #? PIN201"),
        "for x in loader:\n    log(x.mean().item())  #? PIN201\n",
        "for loss in losses:\n    if loss > 9:  #? PIN202\n        break\n",
        "for i in range(9):\n    x = take(data, i).to(device)  #? PIN104\n",
    ],
    ids=["read in each step", "an attribute", "logged in each step", "a decision", "memory that is not pinned"],
)
def test_another_form_is_not_proposed(code: str, tmp_path: Path) -> None:
    outcome = mended(tmp_path, code, chosen=PROPOSES)
    assert outcome.is_unchanged
    assert not outcome.patches.proposals
    assert outcome.why
