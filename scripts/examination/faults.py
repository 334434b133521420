"""The planted faults, as faults.txt and unseen.txt have them: how these tables are read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, cast, get_args

from scripts.examination.planting import Edit, Fault, How, Outcome, PlaceError, Variant

SEPARATOR = " :: "
NOTHING = "(nothing)"
FIELDS = {"before": 2, "after": 2, "swap": 3, "mark": 1}
"""How many fields an edit has before those that say in which block and file."""


def variants_in(text: str) -> tuple[Variant, ...]:
    """Return the programs of a table with their faults. Raises PlaceError for a line that is not understood."""
    return tuple(_variants(line for line in text.splitlines() if line and not line.startswith("#")))


def _variants(lines: Iterator[str]) -> Iterator[Variant]:
    head, faults = "", list[Fault]()
    for line in (*lines, ""):
        if line.startswith("  "):
            faults[-1] = _with_edit(faults[-1], _edit(line.strip()))
        elif line.startswith("- "):
            faults.append(_fault(line[2:]))
        else:
            if head:
                kind, name, program = head.split(" ")
                yield Variant(name, program, tuple(faults), kind == "sound")
            head, faults = line, []


def _with_edit(fault: Fault, edit: Edit) -> Fault:
    return Fault(fault.kind, (*fault.edits, edit), fault.outcome, fault.rule, fault.why)


def _fault(line: str) -> Fault:
    said, _, why = line.partition(SEPARATOR)
    outcome, rule, kind = said.split(" ", 2)
    if outcome not in get_args(Outcome):
        raise PlaceError(f"{outcome!r} is not an outcome")
    return Fault(kind, (), cast("Outcome", outcome), "" if rule == "none" else rule, why)


def _edit(line: str) -> Edit:
    how, _, rest = line.partition(" ")
    if how not in FIELDS:
        raise PlaceError(f"{how!r} is not an edit")
    fields = ["" if field == NOTHING else field.replace("\\n", "\n") for field in rest.split(SEPARATOR)]
    (at, *texts), where = fields[: FIELDS[how]], dict(field.split(" ", 1) for field in fields[FIELDS[how] :])
    old, text = texts if how == "swap" else ("", "".join(texts))
    return Edit(cast("How", how), at, text, where.get("in", ""), old, where.get("file", ""))


def _read(name: Literal["faults", "unseen"]) -> tuple[Variant, ...]:
    return variants_in(Path(__file__).with_name(f"{name}.txt").read_text())


VARIANTS = _read("faults")
UNSEEN_VARIANTS = _read("unseen")
"""Those of programs that `fix` was not made with."""
