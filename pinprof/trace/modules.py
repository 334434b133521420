"""In which module of the model something was called: torch records that with its stacks."""

from typing import Final

import numpy as np

from pinprof.trace.links import follow
from pinprof.trace.tables import NONE, Bools, Int32s, Trace
from pinprof.units import shortened

MODULE: Final = "nn.Module: "
"""Before the name of a module whose call is recorded: `nn.Module: Linear_3`."""
LONGEST_MODULE: Final = 200
"""Characters of the name of a module that are kept."""


def module_around(trace: Trace, function: Int32s) -> Int32s:
    """Return the innermost call of a module around each Python function, -1 for none."""
    flagged: Bools = trace.functions.named(lambda name: name.startswith(MODULE))
    if not flagged.any():
        return np.full(len(function), NONE, np.int32)
    parent = trace.links.function_parent
    around = np.where(flagged, np.arange(len(parent), dtype=np.int32), parent)
    further = follow(around, around)
    while (further != around).any():  # each round looks twice as far up
        around, further = further, follow(further, further)
    return follow(around, function)


def module_name(name: str) -> str:
    """Return what a call of a module is of, as torch numbers those of a class: `Linear_3`."""
    return shortened(name.removeprefix(MODULE), LONGEST_MODULE)
