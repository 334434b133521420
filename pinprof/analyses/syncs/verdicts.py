"""Whether a wait is a problem: hidden, asked for, harmless, or the profiler's own."""

import re
from collections.abc import Sequence

import numpy as np

from pinprof.analyses.syncs.causes import HELD_UP, SYNCHRONIZES
from pinprof.analyses.syncs.stalls import Stalls
from pinprof.trace.frames import is_user_file
from pinprof.trace.links import enclosing, within
from pinprof.trace.tables import NONE, Bools, Int64s, Trace

VERDICTS = {"hidden": "", "explicit": "asked for", "benign": "costs nothing", "profiler": "the profiler's own"}
"""Whether the code asked for a wait; in words nothing where it did not, as that is what is looked for."""

LIMITERS = frozenset({"FullyShardedDataParallel.rate_limiter"})
"""Annotations of waits that keep the host from running too far ahead (torch/distributed/fsdp/_runtime_utils.py)."""

SYNCHRONIZERS = re.compile(r"(^|-packages/)torch/(cuda|_C|accelerator)/")
"""Files of the functions that a program calls to wait, and of what they call in turn. In recorded lines they are named
from the working directory, where an environment may be (`.venv/lib/python3.12/site-packages/torch/…`)."""


def verdict_on(trace: Trace, stalls: Stalls, members: Int64s, cause: str, stack: Sequence[str], limited: Bools) -> str:
    """Return `hidden`, `explicit`, `benign` or `profiler` for the waits of a site; `limited` as `in_limiter` tells.

    A wait is benign if no change of it can save time: it waits for room in the launch queue, which is full only while
    the GPU is behind; it is in a limiter; or it is for an event or another stream, and kernels queued before kept the
    GPU busy during every wait of the site. Loading of code is benign, too: no later step pays for it.
    """
    if stalls.profiler[members[0]]:
        return "profiler"
    if cause in HELD_UP or stalls.kept_busy[members].all() or limited[members[0]]:
        return "benign"
    in_op = trace.links.op[stalls.call[members[0]]] != NONE
    return "explicit" if cause in SYNCHRONIZES and not in_op and _asked_for(stack) else "hidden"


def in_limiter(trace: Trace, call: Int64s) -> Bools:
    """Return which of the calls are made within a limiter."""
    limiter = trace.annotations.named(LIMITERS.__contains__)
    if not limiter.any():
        return np.zeros(len(call), bool)
    around = enclosing(trace.annotations, trace.calls)[call]
    return within(limiter, around, enclosing(trace.annotations, trace.annotations))


def _asked_for(stack: Sequence[str]) -> bool:
    """Return whether the user's own code called the function that waits; taken to be so where no stack tells."""
    for entry in stack:
        file, colon, _ = entry.partition(":") if entry.startswith("<") else entry.rpartition(":")[0].rpartition(":")
        if colon and not entry.startswith("<") and not SYNCHRONIZERS.search(file):
            return is_user_file(file)
    return True
