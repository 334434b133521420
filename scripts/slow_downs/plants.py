"""Slow-downs: lines put into a program, of a chosen size; and git histories in which one revision has a slow-down."""

import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from scripts.slow_downs.subjects import Subject

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
    at = max(number for number, line in enumerate(lines) if step in line)
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    top = next(number for number, line in enumerate(lines) if line == "import torch") + 1
    lines.insert(at, indent + plant.step.format(units=units))
    if plant.top:
        lines.insert(top, plant.top)
    return "\n".join(lines) + "\n"


def git(folder: Path, *words: str) -> str:
    """Return what git prints."""
    done = subprocess.run(["git", *IDENTITY, *words], cwd=folder, check=True, capture_output=True, text=True)  # noqa: S607
    return done.stdout.strip()


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
