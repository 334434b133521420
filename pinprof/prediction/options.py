"""The options of scenarios: their words, and what each changes in a trace."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from pinprof.analyses.copies import total_bytes
from pinprof.analyses.syncs.sites import Site
from pinprof.details import Details
from pinprof.prediction.edits import Edits
from pinprof.prediction.graphs import Blocker, calls_to_fuse, capture_of
from pinprof.prediction.predict import Prediction, predict_scenario
from pinprof.prediction.scenarios import ALL_WAITS, Scenario, edits_of
from pinprof.replay import Replay
from pinprof.trace.tables import NONE


class OptionWords(NamedTuple):
    """The words of an option: for one thing that it changes, several, how it changes them, none, and its premise."""

    one: str
    several: str
    how: str
    none: str
    assumes: str
    is_sized: bool = False
    """Whether these things are copies, or waits for them, which have a size."""


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
EVERYTHING = Scenario(
    drop_syncs=(ALL_WAITS,), pin=True, non_blocking=True, overlap_copies=True, drop_allocs=True, cuda_graph="step"
)

USUAL_SCENARIOS = (
    ("no waits", Scenario(drop_syncs=(ALL_WAITS,))),
    ("pinned copies", Scenario(pin=True)),
    ("non-blocking copies", Scenario(non_blocking=True)),
    ("pinned and non-blocking copies", Scenario(pin=True, non_blocking=True)),
    ("pinned, non-blocking and prefetched copies", Scenario(pin=True, non_blocking=True, overlap_copies=True)),
    ("no allocations", Scenario(drop_allocs=True)),
    ("a fused optimizer", Scenario(fused_optimizer=True)),
    ("CUDA graphs of forward and backward", Scenario(cuda_graph="model")),
    ("a CUDA graph of the step, without waits", Scenario(drop_syncs=(ALL_WAITS,), drop_allocs=True, cuda_graph="step")),
    ("all of these", EVERYTHING),
)
"""Scenarios to try on any trace, by name."""


@dataclass(frozen=True)
class OptionChange:
    """What one option of a scenario changes in a trace."""

    option: str
    """One of OPTIONS."""
    per_step: float
    """How many waits, copies or calls it changes."""
    bytes_per_step: float | None
    """The bytes of the copies that it changes, as far as recorded; None if none are."""
    sites: tuple[Site, ...]
    """The waits that it changes, or the waits for the copies that it changes."""
    unsized: int = 0
    """How many of the copies that it changes have no recorded size."""
    blockers: tuple[Blocker, ...] = ()
    """What prevents the capture of a region as one CUDA graph."""


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


def predict_usual(replay: Replay, given: Scenario) -> list[tuple[str, Prediction]]:
    """Return the predictions of the usual scenarios by name; pinned copies run at the rate of `given`."""
    predictions = []
    for name, usual in USUAL_SCENARIOS:
        scenario = replace(usual, pinned_gbps=given.pinned_gbps, machine=given.machine) if usual.pin else usual
        predictions.append((name, predict_scenario(replay, scenario)))
    return predictions
