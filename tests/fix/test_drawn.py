"""Copies of batches: what draws them, and what else may write to their memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixing import LOADER, mended, plain

PINNED: dict[str, Any] = {"loader": replace(LOADER, pin_memory=True), "pinned": True}
MADE = "from torch.utils.data import DataLoader\nloader = DataLoader(data, num_workers=2, pin_memory=True)  #! loader\n"


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def loop(body: str, before: str = "", after: str = "") -> str:
    return f"{MADE}{before}for i, (x, y) in enumerate(loader):  #! loop\n{indented(body)}{after}"


def epochs(body: str, before: str = "", after: str = "") -> str:
    return f"{MADE}for epoch in range(3):\n" + indented(loop(body, before, after).removeprefix(MADE))


ASKED = """from torch.utils.data import DataLoader

def train(data):
    loader = DataLoader(data, num_workers=2, pin_memory=True)  #! loader
    batches = iter(loader)  #! loop
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            batches = iter(loader)
            batch = next(batches)
        batch = [t.to(device) for t in batch]  #? PIN102
        x, y = batch
        model(x)
        x.add_(1)
"""
"""The form of minGPT's trainer."""
TRIED = ASKED[ASKED.index("        try:") : ASKED.index("        batch = [")]
MOVES = ASKED[ASKED.index("        batch = [") :]


def asked(drawing: str = TRIED, moves: str = MOVES) -> str:
    return ASKED.replace(TRIED, drawing).replace(MOVES, moves)


def in_loop(text: str) -> str:
    return indented(indented(text))


COPY = "a = x.to(device)  #? PIN102\nmodel(a)"
MOVED = "x = x.to(device)  #? PIN102\nmodel(x)"
HITS_OF_FOR: dict[str, str] = {
    "another variable of the name, in another function": loop(
        COPY, "def test(data):\n    for x, y in data:\n        x.add_(1)\n    x, n = data[0], lambda x: x.add_(1)\n"
    ),
    "the name anew before the loop of each epoch": epochs(COPY, "x = None\n"),
    "a copy on one of two conditions": loop(
        "if one:\n    x = x.cuda(0)  #! copy\nelse:\n    x = x.cuda()  #? PIN102\nx.add_(1)"
    ),
    "a use behind the loop of what was moved": loop(MOVED, after="x.add_(1)\n"),
}
MISSES_OF_FOR: dict[str, tuple[str, str]] = {
    "the last batch of another epoch": (
        epochs(COPY, "if epoch:\n    x.add_(1)\n"),
        "x is used before its loop, in line",
    ),
    "the last batch in what ends the loop": (
        loop(COPY, after="else:\n    x.add_(1)\n"),
        "x is used after its loop, in line 7",
    ),
    "a function that sees the batch": (
        loop(COPY, "def augment():\n    x.add_(1)\n"),
        "a function or a class uses x, in line 4",
    ),
    "a function that says so": (
        loop(COPY, "def augment():\n    global x\n    x = x.add_(1)\n"),
        "a function or a class uses x, in line 4",
    ),
    "what the name means behind a copy": (
        loop("x = x.to(device)  #! copy\nx = staging\nz = x.to(device)  #? PIN102\nx.add_(1)"),
        "x is bound anew in line 5, and the copy is of that",
    ),
    "a use behind the loop of what was not moved in each step": (
        loop(COPY + "\nif i:\n    break\nx = x.to(device)  #! copy\n", after="x.add_(1)\n"),
        "x is used after its loop",
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


PAIR = in_loop("x, y = next(batches)")
HITS_OF_NEXT: dict[str, str] = {
    "drawn once more where the iterator ended": ASKED,
    "drawn until the iterator ends": asked(
        in_loop("try:\n    batch = next(batches)\nexcept StopIteration:\n    break")
    ),
    "a counted loop, with an iterator for each epoch": asked(
        in_loop("if step % 9 == 0:\n    batches = iter(loader)\nbatch = next(batches)")
    ).replace("while True", "for step in range(99)"),
    "a pair": asked(PAIR, in_loop(COPY)),
    "a batch that is taken apart": asked(in_loop("batch = next(batches)"), in_loop("x, y = batch\n" + MOVED)),
    "a part of a batch": asked(moves=in_loop(COPY.replace("x.to", "batch[0].to"))),
    "a loop within a loop": asked(in_loop("for part in range(4):\n" + indented("x, y = next(batches)\n" + COPY)), ""),
    "a loop over something else": asked(PAIR, in_loop(COPY)).replace("while True", "for z, _ in zip(a, b)"),
    "iterators of what the recording knows alone": ASKED.replace("iter(loader)\n", "iter(loader)  #! loop\n").replace(
        "iter(loader)", "iter(self.loader)"
    ),
    "a DataLoader of the caller": ASKED.replace(
        "    loader = DataLoader", "    return\nif True:\n    made = DataLoader"
    ).replace("    batches = iter(loader)  #! loop", "def run(loader):\n    batches = iter(loader)  #! loop", 1),
}
"""Where copies of what `next()` returns are mended."""
MISSES_OF_NEXT: dict[str, tuple[str, str]] = {
    "an iterator of two things": (
        ASKED.replace("batches = iter(loader)\n", "batches = iter(cache)\n"),
        "does not show",
    ),
    "an iterator of what other code may set": (ASKED.replace("iter(loader)", "iter(self.loader)"), "does not show"),
    "a DataLoader that is bound twice": (
        ASKED.replace("  #! loop", "  #! loop\n    loader = swap(loader)"),
        "does not show",
    ),
    "a DataLoader that is global": (ASKED.replace("    while", "    global loader\n    while"), "does not show"),
    "an iterator that was not recorded": (ASKED.replace("  #! loop", ""), "does not show"),
    "an iterator of something else": (
        ASKED.replace("iter(loader)  #! loop", "cycle(loader)  #! loop"),
        "more than iter()",
    ),
    "an iterator until a sentinel": (ASKED.replace("iter(loader)  #! loop", "iter(f, 0)  #! loop"), "more than iter()"),
    "an iterator with another name": (
        ASKED.replace("batches = iter(loader)  ", "kept = batches = iter(loader)  "),
        "iter()",
    ),
    "an iterator that is passed on": (
        ASKED.replace("model(x)", "model(x, batches)"),
        "batches is also used in line 14",
    ),
    "an iterator that a loop goes through": (
        ASKED.replace("model(x)", "for z in batches: f(z)"),
        "batches is also used",
    ),
    "an iterator that a function sees": (
        ASKED.replace("    while", "    skip = lambda: next(batches)\n    while"),
        "nested",
    ),
    "an iterator in an attribute": (ASKED.replace("batches", "self.batches"), "self.batches is not a variable"),
    "an iterator of another function": (ASKED.replace("(data)", "(data, batches)"), "batches is an argument"),
    "an iterator for each step": (asked(in_loop("batch = next(iter(loader))")), "an iterator of its own"),
    "an iterator for each step, with a name": (
        asked(in_loop("batches = iter(loader)\nbatch = next(batches)")),
        "an iterator of its own",
    ),
    "two iterators in a line": (
        ASKED.replace("batches = iter(loader)  ", "batches, more = iter(loader), iter(other)  "),
        "several iterators begin in line 5",
    ),
    "another next": (ASKED.replace("def train", "from mine import next\n\ndef train"), "a next of its own"),
    "a default": (ASKED.replace("next(batches)", "next(batches, kept)"), "next() may return its default"),
    "drawn in some steps": (asked(in_loop("if step % 2:\n    batch = next(batches)")), "not in each step"),
    "drawn in some steps where the iterator had ended": (
        ASKED.replace(
            "            batch = next(batches)\n        batch",
            "            if more:\n                batch = next(batches)\n        batch",
        ),
        "not in each step",
    ),
    "not drawn where the iterator had ended": (
        asked(in_loop("try:\n    batch = next(batches)\nexcept StopIteration:\n    pass")),
        "not in each step",
    ),
    "bound to something else where the iterator had ended": (
        asked(in_loop("try:\n    batch = next(batches)\nexcept StopIteration:\n    batch = kept")),
        "not in each step",
    ),
    "more in what is tried": (
        asked(in_loop("try:\n    batch = next(batches)\n    check()\nexcept StopIteration:\n    break")),
        "not in each step",
    ),
    "drawn twice": (asked(in_loop("batch = next(batches)\nbatch = next(batches)")), "in several places"),
    "drawn in two forms": (asked(PAIR + in_loop("(x, y) = next(batches)"), in_loop(COPY)), "in several ways"),
    "drawn from two iterators": (asked(PAIR + PAIR.replace("batches", "more"), in_loop(COPY)), "in several ways"),
    "drawn beside something else": (asked(in_loop("n, batch = 0, next(batches)")), "beside something else"),
    "drawn for the next step": (
        asked("", in_loop(MOVED + "\nx, y = next(batches)")),
        "x is drawn in line 9, behind the line",
    ),
    "taken apart before it is drawn": (
        asked(in_loop("x, y = batch\nbatch = next(batches)"), in_loop(MOVED)),
        "batch is drawn in line 8, behind the line",
    ),
    "copied before it is taken apart": (
        asked(moves=in_loop(MOVED + "\nx, y = batch")),
        "no loop around the line draws",
    ),
    "also bound to something else": (
        asked(in_loop("batch = next(batches)\nif step:\n    batch = kept")),
        "batch is bound anew in line 9",
    ),
    "written to before it is copied anew": (asked(PAIR, in_loop(COPY + "\nx.add_(1)")), "used on the host in line 10"),
    "written to while it is made anew": (
        ASKED.replace(
            "            batches = iter(loader)\n", "            batch[0].add_(1)\n            batches = iter(loader)\n"
        ),
        "batch is used on the host in line 10",
    ),
    "written to at the top of the next step": (
        asked(in_loop("x.add_(1)") + PAIR, in_loop(COPY)),
        "on the host in line 7",
    ),
    "written to by what ends the loop": (
        asked(PAIR, in_loop(COPY)).replace("while True", "while x.add_(1).sum() < 9"),
        "x is used after its loop, in line 6",
    ),
    "written to between two loops": (
        asked(in_loop("for part in range(4):\n" + indented("x, y = next(batches)\n" + COPY) + "x.add_(1)"), ""),
        "x is used after its loop, in line 11",
    ),
    "written to by a part of it": (
        ASKED.replace("batch = [", "z = batch[0].add_(1)\n        batch = ["),
        "on the host in line 12",
    ),
    "kept": (ASKED.replace("batch = [", "kept = batch\n        batch = ["), "batch is used on the host in line 12"),
    "seen by a function": (
        asked(PAIR, in_loop(COPY)).replace("    while", "    poke = lambda: x.add_(1)\n    while"),
        "a function or a class uses x, in line 6",
    ),
    "with a star": (asked(in_loop("*rest, x = next(batches)"), in_loop(COPY)), "takes its batch apart with a star"),
    "bound in a walrus": (asked(in_loop("if (batch := next(batches)):\n    pass")), "no loop around the line draws"),
    "no part of it": (
        asked(in_loop("batch = next(batches)"), in_loop("x = batch.x\n" + MOVED)),
        "no loop around the line draws",
    ),
}
"""Where they are not, and why."""


@pytest.mark.parametrize("name", HITS_OF_NEXT)
def test_a_batch_that_next_returns_is_copied_without_a_wait(name: str, tmp_path: Path) -> None:
    compile(HITS_OF_NEXT[name], name, "exec")
    outcome = mended(tmp_path, HITS_OF_NEXT[name], **PINNED)
    assert outcome.code == plain(HITS_OF_NEXT[name]).replace("to(device)", "to(device, non_blocking=True)"), outcome.why


def test_a_dataloader_of_what_next_returns_is_pinned(tmp_path: Path) -> None:
    outcome = mended(tmp_path, ASKED.replace(", pin_memory=True", ""))
    assert outcome.code == plain(ASKED).replace("to(device)", "to(device, non_blocking=True)"), outcome.why


@pytest.mark.parametrize("name", MISSES_OF_NEXT)
def test_what_next_returns_is_left_where_it_is_not_certain(name: str, tmp_path: Path) -> None:
    code, why = MISSES_OF_NEXT[name]
    outcome = mended(tmp_path, code, **PINNED)
    assert outcome.is_unchanged, outcome.code
    assert why in outcome.why


def test_batches_of_strings_are_no_tensors(tmp_path: Path) -> None:
    outcome = mended(tmp_path, ASKED, loader=replace(LOADER, pin_memory=True, batch=["tensor", "str"]), pinned=True)
    assert "t is not known to be a tensor of the batch" in outcome.why
