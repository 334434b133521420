"""Slow-downs: lines that are put into a program, of a size that can be chosen, and how each is called when found."""

from dataclasses import dataclass
from pathlib import Path

from scripts.slow_downs.subjects import Subject


@dataclass(frozen=True)
class Plant:
    """A slow-down: what stands at the top of the program, and at its step; `{units}` says how much of it."""

    name: str
    step: str
    top: str = ""
    names: tuple[str, ...] = ()
    """Parts of the names of ops, kernels, copies or waits that are this slow-down."""
    begin: int = 1000
    """How many units to try first."""

    def is_named(self, kind: str, what: str) -> bool:
        """Return whether a named cause is this slow-down: its line, or its op, kernel, copy or wait."""
        return "planted" in what if kind == "line" else any(part in what.lower() for part in self.names)


ON_CPU = {
    each.name: each
    for each in (
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
    each.name: each
    for each in (
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
    """Write a program into a folder, with so much of a slow-down."""
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
