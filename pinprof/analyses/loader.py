"""How long the training loop waited for its DataLoader."""

from dataclasses import dataclass, fields

import numpy as np

from pinprof.intervals import Intervals, union
from pinprof.trace.calls import SMALL_COPY_BYTES
from pinprof.trace.links import step_at
from pinprof.trace.tables import HTOD, NONE, PAGEABLE, PINNED, HostEvents, Int64s, Trace

LOADER_PREFIX = "enumerate(DataLoader)#"
"""torch/utils/data/dataloader.py records each `__next__` under this name."""


@dataclass(frozen=True)
class LoaderSums:
    """How long the main thread waits for the next batch; times in ns."""

    waits: int
    wait_ns: int
    wait_in_steps_ns: int
    """The part that began in complete steps."""
    pinned: bool | None
    """Whether the large copies to the device in the steps came from pinned memory; None if there are none, or mixed."""
    pin_thread: bool
    """Whether a pin-memory thread is at work."""
    in_process: bool
    """Whether the main process makes the batches itself (`num_workers=0`)."""


@dataclass(frozen=True)
class LoaderWaits(LoaderSums):
    """The waits of the main thread for the next batch."""

    times: Intervals

    @property
    def sums(self) -> LoaderSums:
        """The same without the times of each."""
        return LoaderSums(**{each.name: getattr(self, each.name) for each in fields(LoaderSums)})


def measure_loader(trace: Trace) -> LoaderWaits:
    """Return the times in which the main thread asked its DataLoader for a batch."""
    start, end = (
        np.concatenate(parts) for parts in zip(_waits(trace, trace.annotations), _waits(trace, trace.ops), strict=True)
    )
    step = step_at(trace.steps, start) if trace.steps.on_host else np.full(len(start), NONE)
    in_steps = trace.steps.holds(step)
    wait = end - start
    return LoaderWaits(
        waits=len(start),
        wait_ns=int(wait.sum()),
        wait_in_steps_ns=int(wait[in_steps].sum()),
        pinned=_pinned(trace),
        pin_thread=any(thread.role == "pin_memory" for thread in trace.threads),
        times=union(start, end),
        in_process=any(events.named(_is_in_process).any() for events in (trace.annotations, trace.ops)),
    )


def _is_in_process(name: str) -> bool:
    return name.startswith(LOADER_PREFIX) and "SingleProcess" in name


def _pinned(trace: Trace) -> bool | None:
    """Return whether the batches of the steps came from pinned memory; smaller copies are labels and scalars."""
    gpu = trace.gpu
    to_device = gpu.direction == HTOD
    batches = to_device & (gpu.bytes > SMALL_COPY_BYTES) & (trace.links.activity_step != NONE)
    memories = set(gpu.host_memory[batches].tolist())
    known = {PINNED: True, PAGEABLE: False}
    return known.get(memories.pop()) if len(memories) == 1 else None


def _waits(trace: Trace, events: HostEvents) -> tuple[Int64s, Int64s]:
    """Return start and end of the waits that are recorded as these events: annotations, in old versions ops."""
    main = [index for index, thread in enumerate(trace.threads) if thread.role == "main"]
    chosen = events.named(lambda name: name.startswith(LOADER_PREFIX)) & np.isin(events.thread, main)
    return events.start_ns[chosen], events.end_ns[chosen]
