"""What stalls leave idle against the causes of idle time: two ways to the same figure, on every recording."""

from pathlib import Path

import numpy as np
import pytest
from recordings import OF_OTHERS, RECORDINGS, each_recording, recorded_details

from pinprof.analyses.idle import IDLE_CAUSES, IdleGaps
from pinprof.analyses.syncs.stalls import Stalls
from pinprof.ground.intervals import intersect, length, subtract, union
from pinprof.trace import Trace
from pinprof.trace.calls import ALLOCATING

SYNC_BUBBLE = IDLE_CAUSES.index("sync_bubble")
FOR_OTHERS = IDLE_CAUSES.index("input_wait"), IDLE_CAUSES.index("communication_wait")
"""What the host may spend most of a gap after a wait with."""

every_recording = pytest.mark.parametrize("path", each_recording([*RECORDINGS, *OF_OTHERS]))


def measured(path: Path) -> tuple[Trace, Stalls, tuple[IdleGaps, ...]]:
    details = recorded_details(path)
    return details.trace, details.syncs.stalls, details.gaps


@every_recording
def test_the_idle_time_that_a_wait_caused_is_the_bubble_of_a_stall(path: Path) -> None:
    _, stalls, devices = measured(path)
    for gaps in devices:
        lasts = gaps.times.end - gaps.times.start
        rows = (stalls.device == gaps.device) & (stalls.bubble_ns > 0)
        left = np.isin(gaps.times.start, stalls.awaited_end_ns[rows])
        assert stalls.bubble_ns[rows].sum() == lasts[left].sum()
        assert set(gaps.cause[left].tolist()) <= {SYNC_BUBBLE, *FOR_OTHERS}
        assert np.all(left[gaps.cause == SYNC_BUBBLE])


@every_recording
def test_every_bubble_is_a_whole_gap_and_no_gap_is_the_bubble_of_two_stalls(path: Path) -> None:
    _, stalls, devices = measured(path)
    for gaps in devices:
        mine = np.flatnonzero((stalls.device == gaps.device) & (stalls.bubble_ns > 0))
        begins = stalls.awaited_end_ns[mine]
        bubbles = sorted(zip(begins.tolist(), (begins + stalls.bubble_ns[mine]).tolist(), strict=True))
        assert len(set(bubbles)) == len(bubbles)
        assert set(bubbles) <= set(zip(gaps.times.start.tolist(), gaps.times.end.tolist(), strict=True))


@every_recording
def test_idle_time_of_stalls_is_that_of_their_bubbles_and_within_calls_that_hold_the_host(path: Path) -> None:
    trace, stalls, devices = measured(path)
    for gaps in devices:
        mine = stalls.device == gaps.device
        holding = mine & np.isin(stalls.kind, ALLOCATING) & (stalls.drain_ns + stalls.own_ns == 0) & ~stalls.profiler
        bubbles = union(stalls.awaited_end_ns[mine], (stalls.awaited_end_ns + stalls.bubble_ns)[mine])
        held = union(trace.calls.start_ns[stalls.call[holding]], trace.calls.end_ns[stalls.call[holding]])
        beside = length(subtract(intersect(gaps.times, held), bubbles))
        assert stalls.idle_ns[mine].sum() == stalls.bubble_ns[mine].sum() + beside


@pytest.mark.recordings
def test_there_are_recordings_with_bubbles_with_work_in_flight_and_of_several_gpus() -> None:
    ours = [measured(path) for path in RECORDINGS]
    assert len(ours) >= 80
    assert sum(stalls.bubble_ns.sum() > 0 for _, stalls, _ in ours) >= 40
    assert sum(bool(trace.links.in_flight.any()) for trace, _, _ in ours) >= 20
    assert any(len(devices) > 1 for _, _, devices in ours)
