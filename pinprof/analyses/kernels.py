"""Whether two traces are of one program: the kernels that their steps run."""

from collections import Counter

import numpy as np

from pinprof.trace.tables import KERNEL, Trace

SAME = 0.8
"""From this share of equal kernels on, two traces are of one program: a fix may remove some kernels."""


def kernels_alike(before: Trace, after: Trace) -> float:
    """Return the share of the kernels of a complete step that both traces have, by name; 1 if there are no kernels."""
    old, new = _kernels(before), _kernels(after)
    names = {*old, *new}
    both = sum(min(old.get(name, 0.0), new.get(name, 0.0)) for name in names)
    either = sum(max(old.get(name, 0.0), new.get(name, 0.0)) for name in names)
    return both / either if either else 1.0


def _kernels(trace: Trace) -> dict[str, float]:
    """Return how often per step each kernel runs, by name."""
    rows = np.flatnonzero((trace.gpu.category == KERNEL) & trace.steps.holds(trace.links.activity_step))
    steps = max(int(trace.steps.complete.sum()), 1)
    return {name: count / steps for name, count in Counter(map(trace.gpu.name_of, rows.tolist())).items()}
