"""Tells what makes the samples of a data set: whether all of it is known to work in several processes."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from torch.utils.data import Dataset

from pinprof.units import shortened

KNOWN: Final = ("torch.utils.data.dataset", "torchvision.datasets.", "torchvision.transforms.")
"""Modules whose data sets and transforms read files or memory by the index that they are given, and keep nothing."""
NOT_KNOWN: Final = ("torchvision.datasets.lsun.",)
"""It opens a database when it is made, which processes that fork must not share."""
MOST, DEEPEST = 200, 6
"""So many parts are looked at, and so deep."""
LONGEST: Final = 100
"""Characters of a name."""


def foreign_parts(dataset: object) -> tuple[str, ...]:
    """Return the names of what makes samples beside classes and functions of `KNOWN`: the program's own code, mostly.

    Looks into data sets of data sets, and into their transforms; into nothing that is not known.
    """
    found: dict[str, None] = {}
    looked: set[int] = set()
    level: list[object] = [dataset]
    for _ in range(DEEPEST):
        level = [part for part in level if id(part) not in looked]
        looked.update(map(id, level))
        if len(looked) > MOST:
            break
        known = [part for part in level if _is_known(part)]
        found |= dict.fromkeys(_name(part) for part in level if not _is_known(part))
        level = [part for each in known for part in _parts(each)]
    return tuple(found) + (("more",) if level else ())


def _is_known(part: object) -> bool:
    name = _name(part)
    return name.startswith(KNOWN) and not name.startswith(NOT_KNOWN)


def _parts(thing: object) -> Iterator[object]:
    """Yield the data sets and whatever can be called that a thing holds, itself or in lists."""
    values: Iterable[Any] = vars(thing).values() if hasattr(thing, "__dict__") else ()
    for value in values:
        for part in value if isinstance(value, list | tuple) and len(value) <= MOST else (value,):
            if isinstance(part, Dataset) or (callable(part) and not isinstance(part, type)):
                yield part


def _name(part: object) -> str:
    """Return the name of a function, or of a thing's class, with the module."""
    kind = part if hasattr(part, "__qualname__") else type(part)
    return shortened(f"{kind.__module__}.{kind.__qualname__}", LONGEST)
