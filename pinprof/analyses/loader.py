"""How long the training loop waited for its DataLoader, and whether the DataLoader pins its batches."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pinprof.ground.intervals import Intervals, covered, union
from pinprof.trace.calls import SMALL_COPY_BYTES
from pinprof.trace.frames import frame
from pinprof.trace.links import step_at
from pinprof.trace.tables import HTOD, NONE, PAGEABLE, PINNED, HostEvents, Int64s, Trace
from pinprof.trace.threads import PIN_OPS

LOADER_PREFIX = "enumerate(DataLoader)#"
"""torch/utils/data/dataloader.py records each `__next__` under this name."""
IN_PROCESS_LOADER = re.compile(re.escape(LOADER_PREFIX) + ".*SingleProcess", re.DOTALL)


@dataclass(frozen=True)
class LoaderWaits:
    """The waits of the main thread for the next batch; times in ns."""

    waits: int
    wait_ns: int
    wait_in_steps_ns: int  # the part that began in complete steps
    pinned: bool | None
    """Whether the batches of the steps came from pinned memory; None if none were copied to the device, or mixed."""
    pin_thread: bool  # whether a DataLoader has a pin-memory thread
    pins: bool | None
    """Whether the DataLoader pins (`pin_memory=True`); None where the trace does not show it.

    Pageable batches do not show it: a DataLoader does not pin batches of a class without a method `pin_memory()`.
    """
    in_process: bool  # whether the main process makes the batches itself (`num_workers=0`)
    times: Intervals

    @property
    def by_workers(self) -> bool:
        """Whether workers make the batches. A trace does not show whether they keep up without the profiler."""
        return self.waits > 0 and not self.in_process

    @property
    def has_unpinned(self) -> bool:
        """Whether the pageable memory that is copied to the GPU is that of its batches."""
        return self.waits > 0 and self.pinned is False

    @property
    def shares_unpinned(self) -> bool:
        """Whether workers share these batches, so that who copies one also unmaps it."""
        return self.by_workers and self.has_unpinned


def measure_loader(trace: Trace) -> LoaderWaits:
    """Return the times in which the main thread asked its DataLoader for a batch."""
    start, end = (
        np.concatenate(parts)
        for parts in zip(_batch_waits(trace, trace.annotations), _batch_waits(trace, trace.ops), strict=True)
    )
    step = step_at(trace.steps, start) if trace.steps.on_host else np.full(len(start), NONE)
    in_steps = trace.steps.holds(step)
    wait = end - start
    times = union(start, end)
    pin_thread = bool(trace.has_role("pin_memory").any())
    in_process = any(events.named(IN_PROCESS_LOADER.match).any() for events in (trace.annotations, trace.ops))
    return LoaderWaits(
        waits=len(start),
        wait_ns=int(wait.sum()),
        wait_in_steps_ns=int(wait[in_steps].sum()),
        pinned=_batches_are_pinned(trace),
        pin_thread=pin_thread,
        pins=_pins(trace, times, pin_thread=pin_thread, in_process=in_process),
        times=times,
        in_process=in_process,
    )


def _batches_are_pinned(trace: Trace) -> bool | None:
    """Return whether the batches of the steps came from pinned memory.

    If there are large copies, small ones are labels and scalars; otherwise they are batches if the DataLoaders yield
    tensors.
    """
    gpu, made = trace.gpu, trace.info.made
    copies = (gpu.direction == HTOD) & (trace.links.activity_step != NONE)
    batches = copies & (gpu.bytes > SMALL_COPY_BYTES)
    if not batches.any() and made and made.drawn and all(loader.yields_tensors for loader in made.drawn):
        batches = copies
    memories = set(gpu.host_memory[batches].tolist())
    is_pinned = {PINNED: True, PAGEABLE: False}
    return is_pinned.get(memories.pop()) if len(memories) == 1 else None


def _pins(trace: Trace, times: Intervals, *, pin_thread: bool, in_process: bool) -> bool | None:
    """Return whether the DataLoader pins, as pinprof recorded, or as far as ops and Python functions show."""
    if trace.info.loaders_pin is not None:
        return trace.info.loaders_pin
    if pin_thread or (in_process and _any_within(times, trace, trace.ops, PIN_OPS.__contains__)):
        return True
    functions = trace.functions
    if functions.named(lambda name: _is_function(name, "data/_utils/pin_memory.py", "pin_memory")).any():
        return True
    source = ("data/_utils/fetch.py", "fetch") if in_process else ("multiprocessing/queues.py", "get")
    unpinned = _any_within(times, trace, functions, lambda name: _is_function(name, *source))
    return False if unpinned else None  # with workers: it gets batches from them, not from a thread that pins


def _any_within(times: Intervals, trace: Trace, events: HostEvents, has_name: Callable[[str], bool]) -> bool:
    rows = np.flatnonzero(events.named(has_name) & trace.has_role("main")[events.thread])
    return bool(covered(times, events.start_ns[rows], events.end_ns[rows]).any())


def _is_function(name: str, file: str, function: str) -> bool:
    place = frame(name)
    return place is not None and place.function == function and place.file.endswith(file)


def _batch_waits(trace: Trace, events: HostEvents) -> tuple[Int64s, Int64s]:
    """Return start and end of the waits that are recorded as these events: annotations, in old versions ops."""
    chosen = events.named(lambda name: name.startswith(LOADER_PREFIX)) & trace.has_role("main")[events.thread]
    return events.start_ns[chosen], events.end_ns[chosen]
