"""What pinned memory brings and costs on a machine, as its bench says."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Struct

from pinprof.document import Words, doc
from pinprof.prediction.edits import PinnedRates


class Advice(Struct, frozen=True):
    """What to do on this machine."""

    name: Annotated[str, doc("which advice; the same on every machine")]
    text: Annotated[Words, doc("the advice")]
    value: Annotated[float | None, doc("its value, for programs; null where nothing pays, or none was found")]
    unit: Annotated[str, doc("the unit of the value")]


@dataclass(frozen=True)
class Pinning:
    """What pinned memory brings and costs: little, since each process that measures a rank is given it."""

    rates: PinnedRates
    pays: Advice | None = None
    """From which size on copies to the GPU are faster for it; None where that was not measured."""
    fresh: Advice | None = None
    """Whether a tensor that is pinned just for its copy is there sooner; None where that was not measured."""
    fresh_size: str = ""
    """How large that tensor was."""
