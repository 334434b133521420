"""Tells what makes the samples of a data set: whether several processes can, and whether they are always the same."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from torch.utils.data import Dataset

from pinprof.capture.reading import only_reads
from pinprof.units import shortened

KNOWN: Final = ("torch.utils.data.dataset", "torchvision.datasets.", "torchvision.transforms.")
"""Modules whose data sets and transforms read files or memory by the index that they are given, and keep nothing."""
NOT_KNOWN: Final = ("torchvision.datasets.lsun.",)
"""It opens a database when it is made, which processes that fork must not share."""
SEEDING: Final = "torchvision.datasets.fakedata."
"""It seeds the generators of all GPUs, too, with each sample that the main process makes."""
TRANSFORMS: Final = "torchvision.transforms."
FIXED: Final = frozenset(
    [
        "Compose",
        "ToTensor",
        "PILToTensor",
        "ToPILImage",
        "ToImage",
        "ToDtype",
        "ToPureTensor",
        "ConvertImageDtype",
        "ConvertBoundingBoxFormat",
        "Normalize",
        "Resize",
        "CenterCrop",
        "Pad",
        "Grayscale",
        "RGB",
        "FiveCrop",
        "TenCrop",
        "LinearTransformation",
    ]
)
"""Transforms that draw no random numbers."""
MOST, DEEPEST = 200, 6
"""So many parts are looked at, and so deep."""
LONGEST: Final = 100
"""Characters of a name."""


class Makers(NamedTuple):
    """What makes the samples of a data set."""

    foreign: tuple[str, ...]
    """The names of what is not of `KNOWN` and does more than to read: the program's own code, mostly."""
    fixed: bool
    """Whether the sample of an index is always the same, and no random number is drawn for it."""


def makers_of(dataset: object) -> Makers:
    """Return what makes the samples of a data set.

    Looks into data sets of data sets, and into their transforms; into nothing that is not known.
    """
    foreign: dict[str, None] = {}
    looked: set[int] = set()
    fixed = True
    level: list[object] = [dataset]
    for _ in range(DEEPEST):
        level = [part for part in level if id(part) not in looked]
        looked.update(map(id, level))
        if len(looked) > MOST:
            break
        parts: list[object] = []
        for part in level:
            name = _name(part)
            if _is_known(part, name):
                fixed &= _is_fixed(name)
                parts += _parts(part)
            else:
                foreign[name] = None
        level = parts
    if level:
        foreign["more"] = None
    return Makers(tuple(foreign), fixed and not foreign)


def _is_known(part: object, name: str) -> bool:
    """Return whether a part works in several processes: a known one, or a data set that only reads."""
    if name.startswith(KNOWN):
        return not name.startswith(NOT_KNOWN)
    return not callable(part) and only_reads(part)


def _is_fixed(name: str) -> bool:
    return not name.startswith((SEEDING, TRANSFORMS)) or name.rsplit(".", 1)[-1] in FIXED


def _parts(thing: object) -> Iterator[object]:
    """Yield the data sets and whatever can be called that a thing holds, itself or in lists."""
    values: Iterable[Any] = vars(thing).values() if hasattr(thing, "__dict__") else ()
    for value in values:
        for part in value[: MOST + 1] if isinstance(value, list | tuple) else (value,):
            if isinstance(part, Dataset) or (callable(part) and not isinstance(part, type)):
                yield part


def _name(part: object) -> str:
    """Return the name of a function, or of a thing's class, with the module."""
    kind = part if hasattr(part, "__qualname__") else type(part)
    module = getattr(kind, "__module__", None) or type(part).__module__  # methods of built-in types have none
    return shortened(f"{module}.{kind.__qualname__}", LONGEST)
