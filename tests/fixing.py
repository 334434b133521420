"""Asks pinprof to change a program whose lines say in comments what a trace would tell of them.

`#? PIN201` marks the place of a finding, `#! loader` and `#! optimizer` where one is made, and `#! loop` a loop that
draws from the DataLoader.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pinprof.fix.core.facts import Chosen, CopiesAt, TraceFacts, Work
from pinprof.fix.core.files import Files
from pinprof.fix.core.patch import Patches, patched
from pinprof.fix.plan import planned, proposed
from pinprof.rules import Evidence, Finding, Saving, rule_of
from pinprof.trace.constructors import Made, MadeLoader, MadeOptimizer
from pinprof.trace.lines import Place

FILE = "train.py"
LOADER = MadeLoader(
    FILE,
    None,
    "<module>",
    direct=True,
    kind="torch.utils.data.dataloader.DataLoader",
    dataset="data.Pictures",
    iterable=False,
    num_workers=2,
    pin_memory=False,
    persistent_workers=False,
    batch_size=4,
    drawn=5,
    batch=["tensor", "tensor"],
)
OPTIMIZER = MadeOptimizer(FILE, None, "<module>", direct=True, kind="torch.optim.adamw.AdamW", plain_on_gpu=True)


class Said(TraceFacts):
    """What a test says instead of a trace."""

    def __init__(self, made: Made, copies: Mapping[Place, CopiesAt], **told: Any) -> None:
        self.made = made
        self._said = copies
        self._told = {"torch_version": (2, 11), "has_scaler": False, "often": False, "gpus": 1, "allocating": ()}
        self._told |= {"sparse": False, "waiting": ()} | told

    torch_version = property(lambda self: self._told["torch_version"])
    has_scaler = property(lambda self: self._told["has_scaler"])
    has_sparse_gradients = property(lambda self: self._told["sparse"])
    gpus = property(lambda self: self._told["gpus"])
    allocating = property(lambda self: self._told["allocating"])
    processes = property(lambda _: 1)
    waiting = property(lambda self: self._told["waiting"])
    steps_before = property(lambda _: 500)
    steps = property(lambda _: 5)

    def copies_at(self, place: Place) -> CopiesAt | None:
        return self._said.get(place)

    def waits_in_a_loop(self, place: Place) -> bool:
        del place
        return bool(self._told["often"])


@dataclass(frozen=True)
class Outcome:
    """What became of a program."""

    patches: Patches
    before: bytes
    after: bytes

    @property
    def code(self) -> str:
        """The new program, without the comments that are for the test."""
        return plain(self.after.decode())

    @property
    def why(self) -> str:
        """Why it was not changed."""
        return "; ".join(refusal.why for refusal in self.patches.refused)

    @property
    def is_unchanged(self) -> bool:
        return self.before == self.after and not self.patches.patches


def plain(code: str) -> str:
    """Return code without the comments that are for a test."""
    return re.sub(r" *#[?!][^\n\r]*", "", code)


def mended(
    folder: Path,
    code: str | bytes,
    *,
    loader: MadeLoader = LOADER,
    optimizer: MadeOptimizer = OPTIMIZER,
    pinned: bool = False,
    ways: frozenset[str] = frozenset({"HtoD"}),
    chosen: Chosen | None = None,
    beside: MadeLoader | MadeOptimizer | None = None,
    **told: Any,
) -> Outcome:
    """Return what becomes of a program in a folder; `pinned` says of what memory the copies at its places are.

    `beside` is another one that the calls make which are marked for its kind. `keep` is the same of all findings.
    """
    content = code if isinstance(code, bytes) else code.encode()
    path = folder / FILE
    path.write_bytes(content)
    trace = folder / "trace.json"
    trace.write_text("{}")
    text, keep = content.decode("latin-1"), told.pop("keep", "")
    places = list(_marked(text))
    findings = [
        Finding(rule_of(mark), "high", Evidence(1e6, "seen", *place, keep=keep), Saving(1e6, (0.5e6, 2e6)))
        for mark, place in places
        if mark.startswith("PIN")
    ]
    loaders = [
        replace(loader, line=place.line, function=str(place.function), loops=tuple(p for m, p in places if m == "loop"))
        for mark, place in places
        if mark == "loader"
    ]
    optimizers = [
        replace(optimizer, line=p.line, function=str(p.function)) for mark, p in places if mark == "optimizer"
    ]
    if isinstance(beside, MadeLoader):
        loaders += [replace(beside, line=loader.line, function=loader.function) for loader in loaders]
    if isinstance(beside, MadeOptimizer):
        optimizers += [replace(beside, line=optimizer.line, function=optimizer.function) for optimizer in optimizers]
    copies = {place: CopiesAt(ways, pinned) for mark, place in places if mark in {"PIN101", "PIN102", "PIN104", "copy"}}
    allocating = tuple(place for mark, place in places if mark == "PIN303")
    made = Made(tuple(loaders), tuple(optimizers), told.pop("cpus", 16), starts_by=told.pop("starts_by", None))
    files = Files(str(trace), (), folder)
    said = Said(made, copies, allocating=allocating, **told)
    work = Work(said, files, chosen or Chosen())
    changes, refused = planned(findings, work)
    proposals, refused = proposed(findings, refused, work) if work.chosen.proposes else ([], refused)
    patches = patched(changes, refused, files, proposals)
    return Outcome(patches, content, patches.after.get(path.resolve(), content))


def _marked(text: str) -> Iterator[tuple[str, Place]]:
    tree = ast.parse(re.sub(r"coding[:=]", "", text))
    for number, line in enumerate(text.split("\n"), start=1):
        for mark in re.findall(r"#[?!] *(\w+)", line):
            yield mark, Place(FILE, number, _function(tree, number))


def _function(tree: ast.Module, line: int) -> str:
    name = "<module>"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0):
            name = node.name
    return name
