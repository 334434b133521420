"""Faults that are planted into other people's scripts: the tables faults.txt and unseen.txt, and how edits are made.

An edit finds its place by the beginning of a line, and fails unless exactly one line begins so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent, indent
from typing import Literal, cast, get_args

from pinprof.errors import PinprofError

Outcome = Literal["mend", "permission", "either", "refuse", "same"]
"""What is right: mended; mended where changed numbers are allowed; mended or refused; refused; nothing to say."""
How = Literal["before", "after", "swap", "mark"]

SEPARATOR = " :: "
NOTHING = "(nothing)"
FIELDS = {"before": 2, "after": 2, "swap": 3, "mark": 1}
"""How many fields an edit has before those that say in which block and file."""


class PlaceError(PinprofError, ValueError):
    """A script does not have the place of an edit exactly once."""


@dataclass(frozen=True)
class Edit:
    """One short change of a script.

    The place is the only line that begins with `at`, behind its indentation, or among those that the only line which
    begins with `within` is indented less than. The text comes `before` or `after` it or stands in the place of `old`; a
    `mark` changes nothing: the script has that line itself.
    """

    how: How
    at: str
    text: str
    within: str = ""
    old: str = ""
    file: str = ""
    """From the program's folder; its script if empty."""


@dataclass(frozen=True)
class Fault:
    """What is planted, the right outcome, and why that is right."""

    kind: str
    edits: tuple[Edit, ...]
    outcome: Outcome
    rule: str = ""
    why: str = ""


@dataclass(frozen=True)
class Variant:
    """A program with faults, or a sound one: nothing in it is planted, or near misses only."""

    name: str
    program: str
    faults: tuple[Fault, ...] = ()
    sound: bool = False


def before(at: str, text: str, within: str = "", file: str = "") -> Edit:
    """Return the edit that puts lines before a line."""
    return Edit("before", at, text, within, "", file)


def after(at: str, text: str, within: str = "", file: str = "") -> Edit:
    """Return the edit that puts lines after a line, indented as it is."""
    return Edit("after", at, text, within, "", file)


def swap(at: str, old: str, new: str, within: str = "", file: str = "") -> Edit:
    """Return the edit that puts words in the place of others in a line."""
    return Edit("swap", at, new, within, old, file)


def edited(lines: Sequence[str], edit: Edit) -> tuple[list[str], int]:
    """Return the lines of a script after an edit, and the number of the line that it changes, from 0.

    Raises PlaceError unless the place is there exactly once.
    """
    place = _only(lines, edit.at, _block(lines, edit.within))
    if edit.how == "mark":
        return list(lines), place
    if edit.how == "swap":
        if lines[place].count(edit.old) != 1:
            raise PlaceError(f"{edit.old!r} is not exactly once in {lines[place].strip()!r}")
        return [*lines[:place], lines[place].replace(edit.old, edit.text), *lines[place + 1 :]], place
    new = indent(dedent(edit.text).strip("\n"), _indentation(lines[place])).splitlines()
    place += edit.how == "after"
    return [*lines[:place], *new, *lines[place:]], place


def _only(lines: Sequence[str], at: str, among: Sequence[int]) -> int:
    places = [number for number in among if lines[number].lstrip().startswith(at)]
    if len(places) != 1:
        raise PlaceError(f"{len(places)} lines begin with {at!r}, not one")
    return places[0]


def _block(lines: Sequence[str], within: str) -> Sequence[int]:
    if not within:
        return range(len(lines))
    head = _only(lines, within, range(len(lines)))
    return list(_deeper(lines, head))


def _deeper(lines: Sequence[str], head: int) -> Iterator[int]:
    """Yield the lines behind one that are indented more."""
    depth = len(_indentation(lines[head]))
    for number in range(head + 1, len(lines)):
        is_end = len(_indentation(lines[number])) <= depth and not lines[number].lstrip().startswith(")")
        if lines[number].strip() and is_end:
            return
        yield number


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def variants_in(text: str) -> tuple[Variant, ...]:
    """Return the programs of a table with their faults. Raises PlaceError for a line that is not understood."""
    return tuple(_variants(line for line in text.splitlines() if line and not line.startswith("#")))


def _variants(lines: Iterator[str]) -> Iterator[Variant]:
    head, faults = "", list[Fault]()
    for line in (*lines, ""):
        if line.startswith("  "):
            faults[-1] = replace(faults[-1], edits=(*faults[-1].edits, _edit(line.strip())))
        elif line.startswith("- "):
            faults.append(_fault(line[2:]))
        else:
            if head:
                kind, name, program = head.split(" ")
                yield Variant(name, program, tuple(faults), kind == "sound")
            head, faults = line, []


def _fault(line: str) -> Fault:
    head, _, why = line.partition(SEPARATOR)
    outcome, rule, kind = head.split(" ", 2)
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
