"""Call paths gathered into a tree: each frame under what called it, with its own time and that of all below it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pinprof.report.charts.chart import Key

LEAST = 1000
"""Boxes of less than one such part of the whole are left out: they are narrower than two pixels."""


class FlameFrame(NamedTuple):
    """What a box shows: the same under all that call it."""

    name: str
    place: str
    """`FILE:LINE`, or the file alone; empty where it is not known."""
    kind: Key


class Measure(NamedTuple):
    """What the width of a box tells; every path has a value of each measure."""

    label: str
    of: str
    """What all values together are, to follow a share: `the time`."""
    ns: float | None
    """What a value of 1 stands for; None where that is not known."""
    per: str = ""
    """What to follow a time: `of the step`."""
    unit: str = ""
    """What values count, if not time: `samples`."""


class Path(NamedTuple):
    """Frames, the outermost first, and the value of each measure for the innermost."""

    frames: tuple[FlameFrame, ...]
    values: tuple[float, ...]


@dataclass
class Box:
    """A frame under all its callers."""

    frame: FlameFrame
    parent: int
    """The box above; -1 for the root."""
    total: list[float]
    """With all below it, one value per measure."""
    own: list[float]


@dataclass(frozen=True)
class FlameGraph:
    """What is drawn, and its words."""

    title: str
    caption: str
    boxes: list[Box]
    """The root first, each after the one above it, and beside each other the widest first."""
    measures: tuple[Measure, ...]

    @property
    def kinds(self) -> list[Key]:
        """The kinds of boxes, in order of their time."""
        own: dict[Key, float] = {}
        for box in self.boxes[1:]:
            own[box.frame.kind] = own.get(box.frame.kind, 0.0) + box.own[0]
        return sorted(own, key=lambda kind: -own[kind])


def gathered(root: FlameFrame, paths: Iterable[Path], measures: int) -> list[Box]:
    """Return the boxes of paths; too narrow ones are left out, but stay in the totals of those above them."""
    boxes = [Box(root, -1, [0.0] * measures, [0.0] * measures)]
    places: dict[tuple[int, FlameFrame], int] = {}
    for frames, values in paths:
        at = 0
        _add(boxes[0].total, values)
        for frame in frames:
            key = (at, frame)
            if key not in places:
                places[key] = len(boxes)
                boxes.append(Box(frame, at, [0.0] * measures, [0.0] * measures))
            at = places[key]
            _add(boxes[at].total, values)
        _add(boxes[at].own, values)
    return _wide(boxes)


def _add(sums: list[float], values: Sequence[float]) -> None:
    for place, value in enumerate(values):
        sums[place] += value


def _wide(boxes: list[Box]) -> list[Box]:
    """Return the boxes that can be seen, the widest of those beside each other first."""
    whole = boxes[0].total
    below: dict[int, list[int]] = {}
    for number, box in enumerate(boxes[1:], start=1):
        if any(LEAST * value >= all_of for value, all_of in zip(box.total, whole, strict=True) if all_of):
            below.setdefault(box.parent, []).append(number)
    kept, queue = [boxes[0]], [(0, 0)]
    while queue:
        old, new = queue.pop(0)
        for number in sorted(below.get(old, ()), key=lambda number: [-value for value in boxes[number].total]):
            queue.append((number, len(kept)))
            kept.append(Box(boxes[number].frame, new, boxes[number].total, boxes[number].own))
    return kept
