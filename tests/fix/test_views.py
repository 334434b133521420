"""Batches in another shape, batches that the program pins itself, and constants of which the step makes something."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixing import LOADER, mended, plain

PINNED = {"loader": replace(LOADER, pin_memory=True), "pinned": True}


def loop(body: str) -> str:
    inner = "\n".join(f"    {line}" for line in body.splitlines())
    return f"""import torch
import torch.nn as nn
from torch.utils.data import DataLoader
loader = DataLoader(data, num_workers=2, pin_memory=True)  #! loader
for i, (x, y) in enumerate(loader):  #! loop
{inner}
"""


def batch(copied: str = "x.pin_memory().to(device)", argument: str = "", between: str = "pass") -> str:
    return f"""import torch

def get_batch(data{argument}):
    x = torch.stack([data[i:i + 8] for i in torch.randint(100, (4,))])
    {between}
    if device == "cuda":
        x = {copied}  #? PIN102
    else:
        x = x.to(device)
    return x
"""


SUM = """print({looked})
total = 0.0
for step in range(100):
    loss.backward()
    total += loss.item()  #? PIN201
    if step % 10 == 0:
        print(total)
"""
HITS: dict[str, tuple[str, str, dict[str, Any]] | tuple[str, str]] = {
    "a batch in another shape": (
        loop("x = x.reshape(-1, 28 * 28).to(device)  #? PIN102\nmodel(x)"),
        loop("x = x.reshape(-1, 28 * 28).to(device, non_blocking=True)\nmodel(x)"),
        PINNED,
    ),
    "a part in another shape, in a call": (
        loop("model(x[0].unsqueeze(0).cuda())  #? PIN102"),
        loop("model(x[0].unsqueeze(0).cuda(non_blocking=True))"),
        {**PINNED, "loader": replace(LOADER, pin_memory=True, batch=[["tensor"], "tensor"])},
    ),
    "a DataLoader where the program sets another option of something": (
        loop("x = x.to(device)  #? PIN104\nmodel(x)\nconfig.num_workers = 2").replace(", pin_memory=True", ""),
        loop("x = x.to(device, non_blocking=True)\nmodel(x)\nconfig.num_workers = 2"),
    ),
    "a sum with a look at the variables of something else": (
        SUM.format(looked="vars(args)"),
        SUM.format(looked="vars(args)")
        .replace("loss.item()", "loss.detach().double()")
        .replace("print(total)", "print(float(total))"),
    ),
}
MISSES: dict[str, tuple[str, str, dict[str, Any]] | tuple[str, str]] = {
    "a view that is written to": (
        loop("a = x.to(device)  #? PIN102\nx.view(-1).add_(1)"),
        "x is used on the host in line 7",
        PINNED,
    ),
    "a DataLoader whose option the program sets later": (
        loop("x = x.to(device)  #? PIN104\nloader.pin_memory = fast").replace(", pin_memory=True", ""),
        "sets attributes of DataLoaders itself",
    ),
    "a sum with a look at all variables": (SUM.format(looked="vars()"), "vars() may look at total"),
    "a sum with a look at what may be all variables": (SUM.format(looked="vars(*args)"), "vars() may look at"),
    "a type that changes before the copy": (loop("y = y.float().cuda()  #? PIN102"), "not the name of a batch", PINNED),
    "a type that changes with the copy": (
        loop("z = y.float().cuda()\ny = y.cuda()  #? PIN102"),
        "y is used on the host in line 6",
        PINNED,
    ),
    "a type that the host may make otherwise": (
        loop("x = x.long().to(device)  #? PIN102"),
        "not the name of a batch",
        PINNED,
    ),
    "what is made of a batch, and kept": (
        loop("a = x.float()\nx = x.to(device)  #? PIN102\na.add_(1)"),
        "x is used on the host in line 6",
        PINNED,
    ),
    "what is made of a batch, and changed before it is copied": (
        loop("x = x.float().add_(1).to(device)  #? PIN102"),
        "not the name of a batch",
        PINNED,
    ),
    "a view that is kept": (
        loop("a = x.view(-1)\nx = x.to(device)  #? PIN102\na.add_(1)"),
        "x is used on the host in line 6",
        PINNED,
    ),
    "memory that the line pins": (batch(), "not the name of a batch", {"pinned": True}),
    "memory of an argument, which may be pinned already": (
        batch(argument=", x").replace("    x = torch.stack", "    z = torch.stack"),
        "not the name of a batch",
        {"pinned": True},
    ),
    "memory that is pinned already": (
        batch().replace("torch.stack(", "torch.cat(pin_memory=True, tensors="),
        "not the name of a batch",
        {"pinned": True},
    ),
    "memory of another function": (batch(between="x = staging(x)"), "not the name of a batch", {"pinned": True}),
    "memory that others have, too": (
        batch().replace("torch.stack(", "torch.from_numpy("),
        "not the name of a batch",
        {"pinned": True},
    ),
    "a constant that stays on the host": (
        loop("share = torch.tensor([1., 2.]).view(1, 2)  #? PIN209\nx = x * share"),
        "is not one number",
    ),
}


@pytest.mark.parametrize("name", HITS)
def test_a_change_that_is_certain_is_made_once(name: str, tmp_path: Path) -> None:
    before, after, *rest = HITS[name]
    told: dict[str, Any] = rest[0] if rest else {}
    outcome = mended(tmp_path, before, **told)
    assert outcome.code == plain(after), outcome.why
    assert mended(tmp_path, outcome.after, **told).after == outcome.after


@pytest.mark.parametrize("name", MISSES)
def test_what_is_not_certain_stays(name: str, tmp_path: Path) -> None:
    code, why, *told = MISSES[name]
    outcome = mended(tmp_path, code, **(told[0] if told else {}))
    assert outcome.is_unchanged
    assert why in outcome.why
