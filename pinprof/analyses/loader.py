"""How long the training loop waited for its DataLoader."""

from dataclasses import dataclass

import numpy as np

from pinprof.intervals import Intervals, union
from pinprof.trace.links import step_at
from pinprof.trace.tables import NONE, HostEvents, Int64s, Trace

LOADER_PREFIX = "enumerate(DataLoader)#"
"""torch/utils/data/dataloader.py records each `__next__` under this name."""


@dataclass(frozen=True)
class LoaderWaits:
    """Waits of the main thread for the next batch; times in ns."""

    waits: int
    wait_ns: int
    wait_in_steps_ns: int
    """The part that began in complete steps."""
    times: Intervals


def measure_loader(trace: Trace) -> LoaderWaits:
    """Return the times in which the main thread asked its DataLoader for a batch."""
    start, end = (
        np.concatenate(parts) for parts in zip(_waits(trace, trace.annotations), _waits(trace, trace.ops), strict=True)
    )
    step = step_at(trace.steps, start) if trace.steps.on_host else np.full(len(start), NONE)
    in_steps = (step != NONE) & trace.steps.complete[step]
    wait = end - start
    return LoaderWaits(len(start), int(wait.sum()), int(wait[in_steps].sum()), union(start, end))


def _waits(trace: Trace, events: HostEvents) -> tuple[Int64s, Int64s]:
    """Return start and end of the waits that are recorded as these events: annotations, in old versions ops."""
    main = [index for index, thread in enumerate(trace.threads) if thread.role == "main"]
    chosen = events.named(lambda name: name.startswith(LOADER_PREFIX)) & np.isin(events.thread, main)
    return events.start_ns[chosen], events.end_ns[chosen]
