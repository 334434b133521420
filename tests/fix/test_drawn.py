"""Copies of batches: what draws them, and what else may write to their memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixing import LOADER, mended

PINNED: dict[str, Any] = {"loader": replace(LOADER, pin_memory=True), "pinned": True}
MADE = "from torch.utils.data import DataLoader\nloader = DataLoader(data, num_workers=2, pin_memory=True)  #! loader\n"


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def loop(body: str, before: str = "", after: str = "") -> str:
    return f"{MADE}{before}for i, (x, y) in enumerate(loader):  #! loop\n{indented(body)}{after}"


def epochs(body: str, before: str = "", after: str = "") -> str:
    return f"{MADE}for epoch in range(3):\n" + indented(loop(body, before, after).removeprefix(MADE))


COPY = "a = x.to(device)  #? PIN102\nmodel(a)"
MOVED = "x = x.to(device)  #? PIN102\nmodel(x)"
HITS_OF_FOR: dict[str, str] = {
    "another variable of the name, in another function": loop(
        COPY, "def test(data):\n    for x, y in data:\n        x.add_(1)\n    x, n = data[0], lambda x: x.add_(1)\n"
    ),
    "the name anew before the loop of each epoch": epochs(COPY, "x = None\n"),
    "a use behind the loop of what was moved": loop(MOVED, after="x.add_(1)\n"),
}
MISSES_OF_FOR: dict[str, tuple[str, str]] = {
    "the last batch of another epoch": (
        epochs(COPY, "if epoch:\n    x.add_(1)\n"),
        "x is used outside of its loop, in line",
    ),
    "the last batch in what ends the loop": (
        loop(COPY, after="else:\n    x.add_(1)\n"),
        "x is used outside of its loop, in line 7",
    ),
    "a function that sees the batch": (loop(COPY, "def augment():\n    x.add_(1)\n"), "x is used in a nested function"),
    "a function that says so": (loop(COPY, "def augment():\n    global x\n    x = x.add_(1)\n"), "x is global"),
    "what the name means behind a copy": (
        loop("x = x.to(device)  #! copy\nx = staging\nz = x.to(device)  #? PIN102\nx.add_(1)"),
        "x is bound anew in line 4, and the copy is of that",
    ),
    "a use behind the loop of what was not moved in each step": (
        loop(COPY + "\nif i:\n    break\nx = x.to(device)  #! copy\n", after="x.add_(1)\n"),
        "x is used outside of its loop",
    ),
}


@pytest.mark.parametrize("name", HITS_OF_FOR)
def test_a_batch_that_nothing_else_writes_to_is_copied_without_a_wait(name: str, tmp_path: Path) -> None:
    outcome = mended(tmp_path, HITS_OF_FOR[name], **PINNED)
    assert "non_blocking=True" in outcome.code, outcome.why


@pytest.mark.parametrize("name", MISSES_OF_FOR)
def test_a_batch_that_something_else_may_write_to_stays(name: str, tmp_path: Path) -> None:
    code, why = MISSES_OF_FOR[name]
    outcome = mended(tmp_path, code, **PINNED)
    assert outcome.is_unchanged
    assert why in outcome.why


def test_a_batch_that_next_returns_is_for_people(tmp_path: Path) -> None:
    code = MADE + "batches = iter(loader)  #! loop\nwhile True:\n    x, y = next(batches)\n" + indented(COPY)
    outcome = mended(tmp_path, code, **PINNED)
    assert outcome.is_unchanged
    assert "no loop around the line draws" in outcome.why


def test_batches_of_strings_are_no_tensors(tmp_path: Path) -> None:
    strings = replace(LOADER, pin_memory=True, batch=["str", "tensor"])
    outcome = mended(tmp_path, loop(COPY), loader=strings, pinned=True)
    assert "x is not known to be a tensor of the batch" in outcome.why
