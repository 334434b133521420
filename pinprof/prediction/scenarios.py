"""Changes of the code, and the edits of a recorded program that they make."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from pinprof.analyses.copies import total_bytes
from pinprof.analyses.syncs.causes import ALLOCATION_CAUSES, BLOCKING_COPY_CAUSES, WAITS
from pinprof.analyses.syncs.sites import Site, Syncs
from pinprof.details import Details
from pinprof.document import Gbps, doc
from pinprof.ground.errors import TraceError
from pinprof.ground.units import listed
from pinprof.prediction.edits import Edits
from pinprof.prediction.graphs import Blocker, Region, calls_to_fuse, capture_of
from pinprof.prediction.pinning import PinnedRates, pinning_thread
from pinprof.replay.bound import feed_of
from pinprof.trace.calls import ALLOCATING
from pinprof.trace.tables import HTOD, MEMCPY, NONE, PAGEABLE

MAX_NAMED_PLACES = 20
ALL_WAITS = "all"  # in place of a site: all waits that the code makes, except for allocations and those that must stay

READING_CAUSES = frozenset(name for name, cause in WAITS.items() if cause.goes_with_op)
"""Causes of waits whose fix removes all that their op does: its kernels, its copy, and the host's time in it."""


class Scenario(Struct, frozen=True, repr_omit_defaults=True):
    """The changes to predict, as the options of `pinprof whatif`.

    Pinned copies run at `pinned_gbps`; otherwise at the rates of `machine`, which `pinprof.bench.advice.pinning`
    takes from a bench; otherwise at the best rate in the trace; otherwise at the usual rate of the GPU's link.
    """

    drop_syncs: Annotated[
        tuple[str, ...], doc("places at which the host no longer waits, yours or the library's, or `all`")
    ] = ()
    pin: Annotated[bool, doc("the host sides of copies are pinned")] = False
    pinned_gbps: Annotated[Gbps | None, doc("the rate of pinned copies, if given")] = None
    machine: Annotated[PinnedRates | None, doc("the bench of `--machine`")] = None
    non_blocking: Annotated[bool, doc("copies do not block the host; those of pageable memory still hold it")] = False
    overlap_copies: Annotated[bool, doc("copies to the GPU are made one step ahead, on a stream of their own")] = False
    drop_allocs: Annotated[bool, doc("neither device nor pinned memory is allocated or freed in the step")] = False
    cuda_graph: Annotated[
        Region | None, doc("what CUDA graphs launch: one, or as many as the waits of this region cut it into")
    ] = None
    fused_optimizer: Annotated[
        bool, doc("one launch makes an optimizer's step; Adam and AdamW read and write the GPU's memory once for it")
    ] = False
    host_speed: Annotated[float, doc("factor by which the host is faster")] = 1.0
    gpu_speed: Annotated[float, doc("factor by which kernels are faster")] = 1.0

    def __post_init__(self) -> None:
        """Take True for `all`, one place for a tuple of one, and a list for a tuple."""
        sites: Any = self.drop_syncs or ()
        sites = ALL_WAITS if sites is True else sites
        force_setattr(self, "drop_syncs", (sites,) if isinstance(sites, str) else tuple(sites))


def edits_of(details: Details, scenario: Scenario) -> Edits:
    """Return the edits that a scenario makes in a trace."""
    trace, syncs = details.trace, details.syncs
    copies = np.flatnonzero(trace.gpu.category == MEMCPY)
    result = Edits(pinned_gbps=scenario.pinned_gbps, machine=scenario.machine)
    dropped = [number for number, site in enumerate(syncs.sites) if _is_chosen(site, scenario.drop_syncs)]
    if dropped:
        result |= without_waits(syncs, dropped)
    if scenario.pin:
        pageable = frozenset(copies[trace.gpu.host_memory[copies] == PAGEABLE].tolist())
        result |= with_pinned(details, pageable, scenario.machine)
    if scenario.non_blocking or scenario.overlap_copies:
        result |= without_blocking(details, None, only_htod=not scenario.non_blocking)
    if scenario.overlap_copies:
        result |= Edits(ahead=frozenset(copies[trace.gpu.direction[copies] == HTOD].tolist()))
    if scenario.drop_allocs:
        result |= Edits(unwaited=frozenset(np.flatnonzero(np.isin(syncs.stalls.kind, ALLOCATING)).tolist()))
    if scenario.cuda_graph:
        result |= Edits(graphed=frozenset(capture_of(trace, syncs, scenario.cuda_graph, dropped).calls.tolist()))
    if scenario.fused_optimizer:
        result |= Edits(fused=calls_to_fuse(trace, syncs))
    return result


def _is_chosen(site: Site, wanted: tuple[str, ...]) -> bool:
    if not site.is_of_the_code:
        return False
    if ALL_WAITS in wanted:
        return site.cause not in ALLOCATION_CAUSES and not site.must_stay
    return not set(wanted).isdisjoint(site.names)


def without_waits(syncs: Syncs, sites: Iterable[int]) -> Edits:
    """Return the edits that remove the waits of these sites from the code."""
    rows = np.concatenate([np.empty(0, np.int64), *(syncs.rows[site] for site in sites)])
    rows = rows[~syncs.stalls.profiler[rows]]
    reads = syncs.has_cause(*READING_CAUSES, rows=rows)
    ops = syncs.op[rows[reads]]
    return Edits(unwaited=frozenset(rows.tolist()), removed_ops=frozenset(ops[ops != NONE].tolist()))


def with_pinned(details: Details, copies: frozenset[int], machine: PinnedRates | None = None) -> Edits:
    """Return the edits that pin the host side of copies; a thread then receives, pins and frees batches of workers."""
    feed, thread = feed_of(details), pinning_thread(details, copies, machine)
    if thread is None:
        return Edits(pinned=copies)
    most = feed.pinned_ns if feed and not details.loader.pins else inf
    return Edits(pinned=copies, most_input_ns=most, removed_times=thread.freed, pinning_ns=thread.step_ns)


def without_blocking(details: Details, copies: frozenset[int] | None, *, only_htod: bool = False) -> Edits:
    """Return the edits that make the given blocking copies, or all, asynchronous; with `only_htod` not read-backs."""
    trace, syncs = details.trace, details.syncs
    stalls = syncs.stalls
    rows = np.flatnonzero(stalls.copy != NONE)
    if copies is not None:
        rows = stalls.of_copies(np.array(list(copies), np.int64))
    rows = rows[syncs.has_cause(*BLOCKING_COPY_CAUSES, rows=rows)]
    if only_htod:
        rows = rows[trace.gpu.direction[stalls.copy[rows]] == HTOD]
    return Edits(unblocked=frozenset(rows.tolist()))


def places_in(traces: str, ranks: Sequence[Syncs], wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the places as the traces name them; the end of a path suffices if it fits only one place.

    A place is `FILE:LINE` or `FILE:FUNCTION`, of the user's code or of a library. Raises TraceError, beginning with the
    name of the traces, if the host does not wait at one of them.
    """
    sites = [site for syncs in ranks for site in syncs.sites if site.is_of_the_code]
    names = tuple(dict.fromkeys(name for site in sites for name in site.names))
    chosen = []
    for place in wanted:
        places = [name for name in names if name == place] or [
            name for name in names if name.replace("\\", "/").endswith(f"/{place.lstrip('./')}")
        ]
        if place == ALL_WAITS:
            chosen.append(place)
        elif len(places) == 1:
            chosen += places
        elif places:
            raise TraceError(
                f"{traces}: {place} is at {listed(places, MAX_NAMED_PLACES, ' and ')}; name one of them in full"
            )
        else:
            waiting_at = listed(_names_of_places(sites), MAX_NAMED_PLACES)
            known = (
                f"it does at {waiting_at}" if waiting_at else "no place is known: record with pinprof run, or use all"
            )
            raise TraceError(f"{traces}: the host does not wait at {place}; {known}")
    return tuple(dict.fromkeys(chosen))


def _names_of_places(sites: Sequence[Site]) -> list[str]:
    """Return a name of each place at which the host waits: the user's, the costliest first, then the libraries'."""
    places = (*(site.place for site in sites), *(site.library for site in sites if site.library))
    return list(dict.fromkeys(place.names[0] for place in places if place.names))


class OptionWords(NamedTuple):
    """The words of an option: for one thing that it changes, several, how it changes them, none, and its premise."""

    one: str
    several: str
    how: str
    none: str
    assumes: str
    is_sized: bool = False  # whether these things are copies, or waits for them, which have a size


OPTIONS: Mapping[str, OptionWords] = {
    "drop_syncs": OptionWords(
        "wait of the host",
        "waits of the host",
        "dropped",
        "no wait to drop, except for allocations (--drop-allocs) and copies in flight (PIN216)",
        assumes=(
            "no code needs the awaited values before the step ends: a logged value can be read later, a value"
            " that decides what to launch cannot"
        ),
    ),
    "pin": OptionWords(
        "copy of pageable memory",
        "copies of pageable memory",
        "pinned",
        "no copy to pin: none is of pageable memory",
        assumes=(
            "the data lies in pinned memory when the copy starts (pin_memory=True of the DataLoader, or a "
            "buffer that is refilled), and pinning costs the training loop no time of its own"
        ),
        is_sized=True,
    ),
    "non_blocking": OptionWords(
        "blocking copy",
        "blocking copies",
        "made non-blocking",
        "no copy to make non-blocking: none blocks the host",
        assumes="nothing on the host reads or overwrites the memory until the copy is done",
        is_sized=True,
    ),
    "overlap_copies": OptionWords(
        "HtoD copy",
        "HtoD copies",
        "made one step ahead on a stream of its own",
        "no copy to make ahead: none goes to the GPU",
        assumes="the next batch is ready one step early, and the GPU has memory for two batches",
        is_sized=True,
    ),
    "drop_allocs": OptionWords(
        "allocating or freeing call",
        "allocating or freeing calls",
        "dropped",
        "no allocation to drop: none is in the trace",
        assumes="the caching allocator keeps the memory, so that no step asks the driver for it",
    ),
    "fused_optimizer": OptionWords(
        "launch of optimizers",
        "launches of optimizers",
        "made by one",
        "no launch for a fused optimizer to replace: torch marks no optimizer step with launches",
        assumes=(
            "the optimizer has a fused form (fused=True), and its Python time stays; pinprof does not predict"
            " what the fused kernel saves on the GPU"
        ),
    ),
    "cuda_graph": OptionWords(
        "launch",
        "launches",
        "made by CUDA graphs",
        "no launch for a graph to replace: no kernel is launched there",
        assumes=(
            "the graph is captured once: shapes and memory stay the same, its Python no longer runs, and each"
            " batch is copied to where the graph reads it. What cannot be captured splits it into several "
            "graphs. Adam has capturable=True: the GPU time that this adds is counted, unless Adam is fused"
        ),
    ),
}
"""Options of a scenario that edit the program, by name; the other options set the speed of host, GPU and copies."""


@dataclass(frozen=True)
class OptionChange:
    """What one option of a scenario changes in a trace."""

    option: str  # one of OPTIONS
    per_step: float  # how many waits, copies or calls it changes
    bytes_per_step: float | None  # the bytes of the copies that it changes, as far as recorded; None if none are
    sites: tuple[Site, ...]  # the waits that it changes, or the waits for the copies that it changes
    unsized: int = 0  # how many of the copies that it changes have no recorded size
    blockers: tuple[Blocker, ...] = ()  # what prevents the capture of a region as one CUDA graph


def changes_of(details: Details, scenario: Scenario) -> tuple[OptionChange, ...]:
    """Return what each option that edits the program changes, even if it changes nothing."""
    chosen = {option: getattr(scenario, option) for option in Scenario.__struct_fields__ if option in OPTIONS}
    alone = {option: replace(Scenario(), **{option: value}) for option, value in chosen.items() if value}
    return tuple(_change_by_option(option, details, scenario) for option, scenario in alone.items())


def _change_by_option(option: str, details: Details, alone: Scenario) -> OptionChange:
    if alone.fused_optimizer:
        calls = calls_to_fuse(details.trace, details.syncs)
        return OptionChange(option, len(calls) / max(int(details.trace.steps.complete.sum()), 1), None, ())
    if not alone.cuda_graph:
        return change_of(option, details, edits_of(details, alone))
    capture = capture_of(details.trace, details.syncs, alone.cuda_graph)
    return OptionChange(option, capture.launches, None, (), blockers=capture.blockers)


def change_of(option: str, details: Details, edits: Edits) -> OptionChange:
    """Return what the edits of an option change, per complete step."""
    trace, syncs = details.trace, details.syncs
    stalls, steps = syncs.stalls, max(int(trace.steps.complete.sum()), 1)
    if option in {"pin", "overlap_copies"}:
        copies = np.array(sorted(edits.pinned if option == "pin" else edits.ahead), dtype=np.int64)
        rows = np.flatnonzero(np.isin(stalls.copy, copies))
        count = len(copies := copies[trace.steps.holds(trace.links.activity_step[copies])])
    else:
        rows = np.array(sorted(edits.unblocked if option == "non_blocking" else edits.unwaited), dtype=np.int64)
        inside = rows[trace.steps.holds(stalls.call_step[rows])]
        copies = np.unique(stalls.copy[inside][stalls.copy[inside] != NONE])
        count = int((stalls.copy[inside] == NONE).sum()) + len(copies)
    total, unsized = total_bytes(trace.gpu.bytes[copies])
    sites = tuple(syncs.sites[number] for number in np.unique(syncs.site[rows]).tolist())
    return OptionChange(option, count / steps, None if total is None else total / steps, sites, unsized)
