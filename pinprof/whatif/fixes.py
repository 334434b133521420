"""The fixes that people make: as scenarios, and what each changes in a trace."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np

from pinprof.analyses.syncs import Site
from pinprof.details import Details
from pinprof.replay import Replay
from pinprof.trace.sizes import total_bytes
from pinprof.trace.tables import NONE
from pinprof.whatif.edits import Edits
from pinprof.whatif.fusing import calls_to_fuse
from pinprof.whatif.predict import Prediction, predict_scenario
from pinprof.whatif.regions import Blocker, capture_of
from pinprof.whatif.scenarios import ALL, Scenario, edits_of

FIXES = ("drop_syncs", "pin", "non_blocking", "overlap_copies", "drop_allocs", "fused_optimizer", "cuda_graph")
"""Options of a scenario that edit the program; the others set the speed of what runs it."""
EVERYTHING = Scenario(
    drop_syncs=(ALL,), pin=True, non_blocking=True, overlap_copies=True, drop_allocs=True, cuda_graph="step"
)

USUAL = (
    ("no waits", Scenario(drop_syncs=(ALL,))),
    ("pinned copies", Scenario(pin=True)),
    ("non-blocking copies", Scenario(non_blocking=True)),
    ("pinned and non-blocking copies", Scenario(pin=True, non_blocking=True)),
    ("pinned, non-blocking and prefetched copies", Scenario(pin=True, non_blocking=True, overlap_copies=True)),
    ("no allocations", Scenario(drop_allocs=True)),
    ("a fused optimizer", Scenario(fused_optimizer=True)),
    ("CUDA graphs of forward and backward", Scenario(cuda_graph="model")),
    ("a CUDA graph of the step, without waits", Scenario(drop_syncs=(ALL,), drop_allocs=True, cuda_graph="step")),
    ("all of these", EVERYTHING),
)
"""Scenarios that are worth a look in any trace, by name."""


@dataclass(frozen=True)
class Change:
    """What one option of a scenario changes in a trace."""

    option: str
    """One of FIXES."""
    per_step: float
    """Waits, copies or calls that it changes."""
    bytes_per_step: float | None
    """Of the copies that it changes and whose size is recorded; None if there are none."""
    sites: tuple[Site, ...]
    """The waits that it is about, or the waits for its copies."""
    unsized: int = 0
    """Copies that it changes whose size is not recorded."""
    blockers: tuple[Blocker, ...] = ()
    """What forbids that a region becomes one CUDA graph."""


def changes_of(details: Details, scenario: Scenario) -> tuple[Change, ...]:
    """Return what each option of a scenario that edits the program changes, also where that is nothing."""
    return tuple(_change(option, details, alone) for option, alone in _each_alone(scenario))


def _change(option: str, details: Details, alone: Scenario) -> Change:
    if alone.fused_optimizer:
        calls = calls_to_fuse(details.trace, details.syncs)
        return Change(option, len(calls) / max(int(details.trace.steps.complete.sum()), 1), None, ())
    if not alone.cuda_graph:
        return change_of(option, details, edits_of(details, alone))
    capture = capture_of(details.trace, details.syncs, alone.cuda_graph)
    return Change(option, capture.launches, None, (), blockers=capture.blockers)


def _each_alone(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    unset = Scenario()
    for option in fields(scenario):
        if option.name in FIXES and (value := getattr(scenario, option.name)):
            yield option.name, replace(unset, **{option.name: value})


def change_of(option: str, details: Details, edits: Edits) -> Change:
    """Return what the edits that an option makes change, per complete step."""
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
    known, unsized = total_bytes(trace.gpu.bytes[copies])
    sites = tuple(syncs.sites[number] for number in np.unique(syncs.site[rows]).tolist())
    return Change(option, count / steps, None if known is None else known / steps, sites, unsized)


def predict_usual(replay: Replay, given: Scenario) -> list[tuple[str, Prediction]]:
    """Return what the usual scenarios would make of the step, by name; pinned copies run at the rate `given`."""
    made = []
    for name, bare in USUAL:
        scenario = replace(bare, pinned_gbps=given.pinned_gbps, machine=given.machine) if bare.pin else bare
        made.append((name, predict_scenario(replay, scenario)))
    return made
