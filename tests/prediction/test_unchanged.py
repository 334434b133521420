"""What a change of nothing predicts, and how predictions of more and less of a change compare."""

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from recordings import OF_A_GPU, TRACES, analysis_of, each_recording, recorded_details
from trace_builder import SIDE, TraceBuilder

from pinprof.details import details_of
from pinprof.prediction import Edits, Scenario, predict_edits, predict_scenario
from pinprof.prediction.edits import NO_EDITS, edited
from pinprof.prediction.predict import paces_after
from pinprof.prediction.scenarios import changes_of
from pinprof.prediction.verification import verify
from pinprof.replay import Replay
from pinprof.replay.machine import UNCHANGED, Pace
from pinprof.replay.settings import Setting, middle

US, MS = 1000, 1_000_000
NOISE = 0.01
"""Of the step: how exact the steady pace of a replay is."""


class Parts(NamedTuple):
    """What one step does, in us."""

    kernel: int
    item: bool
    work: int
    copy: int
    pageable: bool
    side: bool


PARTS = st.builds(
    Parts,
    kernel=st.integers(200, 900),
    item=st.booleans(),
    work=st.integers(200, 900),
    copy=st.integers(5, 400),
    pageable=st.booleans(),
    side=st.booleans(),
)


def program(parts: Parts, folder: Path) -> Replay:
    """Return steps of a copy, a kernel, and perhaps an `item()` behind it, then work of the host."""
    builder = TraceBuilder()
    host = gpu = 0
    for number in range(5):
        began = host
        stream = {"stream": SIDE} if parts.side else {}
        copied = max(host + 12, gpu) + parts.copy
        call = copied + 4 - (host + 5) if parts.pageable else 5
        kind = "HtoD (Pageable -> Device)" if parts.pageable else "HtoD (Pinned -> Device)"
        builder.copy(kind, copied - parts.copy, parts.copy, launch=host + 5, call=call, size=5_000_000, **stream)
        host += 5 + call + 10
        gpu = max(copied + 1, host + 8) + parts.kernel
        builder.kernel(gpu - parts.kernel, parts.kernel, launch=host)
        host += 5
        if parts.item:
            builder.op("aten::item", host, max(gpu + 9 - host, 12))
            builder.copy("DtoH (Device -> Pinned)", gpu + 1, 2, launch=host + 2, call=3, size=4)
            builder.call("cudaStreamSynchronize", host + 6, max(gpu + 7 - (host + 6), 2))
            host = max(gpu + 9, host + 12)
            gpu += 3
        host += parts.work
        builder.step(number, began, host - began)
    return Replay([details_of(builder.read())])


def told(replay: Replay, times: float) -> Replay:
    """Return the replay of the same program if its step takes N times as long."""
    return Replay(replay.ranks, replay.before.step_ns * times)


def saved(replay: Replay, edits: Edits, **speeds: float) -> float:
    """Return the share of the step that a change saves."""
    return 1 - middle(paces_after(replay, [edits], **speeds).step_ns) / replay.step_ns


def worked_us(parts: Parts) -> int:
    """Return how long the GPU works in a step: no real step is shorter."""
    return max(parts.kernel, parts.copy) if parts.side else parts.kernel + parts.copy


def waits_of(replay: Replay) -> list[int]:
    stalls = replay.ranks[0].syncs.stalls
    return np.flatnonzero((stalls.copy == -1) | (stalls.drain_ns > 0)).tolist()


@settings(max_examples=8, deadline=None)
@given(parts=PARTS, times=st.floats(0.3, 3.0))
def test_no_change_is_no_change_whatever_the_step_is(
    tmp_path_factory: pytest.TempPathFactory, parts: Parts, times: float
) -> None:
    replay = told(program(parts, tmp_path_factory.mktemp("trace")), times)
    prediction = predict_edits(replay, [NO_EDITS], Scenario())
    assert prediction.predicted_ns == prediction.baseline_ns == replay.step_ns
    assert prediction.bound_after == prediction.bound_before
    assert prediction.range_ns[0] <= prediction.predicted_ns <= prediction.range_ns[1]


@settings(max_examples=8, deadline=None)
@given(parts=PARTS, times=st.floats(0.7, 1.2))
def test_a_wait_that_is_removed_makes_no_step_longer_and_more_of_them_save_no_less(
    tmp_path_factory: pytest.TempPathFactory, parts: Parts, times: float
) -> None:
    replay = told(program(parts, tmp_path_factory.mktemp("trace")), times)
    assume(replay.step_ns >= US * worked_us(parts))
    waits = waits_of(replay)
    some, every = (Edits(unwaited=frozenset(rows)) for rows in (waits[::2], waits))
    assert -NOISE <= saved(replay, some) <= saved(replay, every) + NOISE
    assert saved(replay, every) < 1


@settings(max_examples=8, deadline=None)
@given(parts=PARTS, times=st.floats(0.7, 1.2))
def test_what_runs_faster_makes_no_step_longer(
    tmp_path_factory: pytest.TempPathFactory, parts: Parts, times: float
) -> None:
    replay = told(program(parts, tmp_path_factory.mktemp("trace")), times)
    for name in ("host_speed", "gpu_speed"):
        savings = [saved(replay, NO_EDITS, **{name: speed}) for speed in (0.5, 1.0, 2.0, 4.0)]
        assert savings[1] == 0
        assert all(less <= more + NOISE for less, more in pairwise(savings))


@pytest.mark.parametrize(
    ("step_ms", "before_ms", "after_ms", "expected_ms"),
    [
        pytest.param(1.0, (2.0, 0.1), (1.0, 0.1), 0.5, id="a replay that is slower than the step is so all over"),
        pytest.param(3.0, (2.0, 0.1), (1.0, 0.1), 2.0, id="what a replay does not explain stays"),
        pytest.param(1.0, (2.0, 0.9), (0.9, 0.9), 0.9, id="no step is shorter than the work of the GPU"),
        pytest.param(1.0, (2.0, 0.9), (1.5, 1.4), 1.0, id="unless it was before"),
    ],
)
def test_the_step_after_is_the_step_less_the_difference_of_two_replays(
    tmp_path: Path, step_ms: float, before_ms: tuple[float, float], after_ms: tuple[float, float], expected_ms: float
) -> None:
    replay = program(Parts(kernel=100, item=True, work=500, copy=10, pageable=False, side=False), tmp_path)
    before, after = (Pace(step * MS, busy * MS) for step, busy in (before_ms, after_ms))
    setting = Setting(UNCHANGED, step_ms * MS, before)
    assert replay.pace_after(setting, after, batch_ns=0.0).step_ns == expected_ms * MS


@pytest.mark.parametrize(
    "changes",
    [{"pin": True}, {"drop_allocs": True}, {"fused_optimizer": True}, {"non_blocking": True}, {"overlap_copies": True}],
    ids=lambda changes: next(iter(changes)),
)
def test_a_change_that_finds_nothing_in_the_trace_predicts_nothing(changes: dict[str, bool]) -> None:
    builder = TraceBuilder()
    for start in builder.steps(5):
        builder.kernel(start + 20, 300, launch=start + 10)
    replay = Replay([details_of(builder.read())], 0.93 * MS)
    scenario = Scenario(**changes)  # type: ignore[arg-type]
    assert predict_scenario(replay, scenario).predicted_ns == replay.step_ns
    assert all(not change.per_step for change in changes_of(replay.ranks[0], scenario))


@pytest.mark.parametrize("path", each_recording(OF_A_GPU))
def test_a_recording_that_is_not_changed_predicts_its_step(path: Path) -> None:
    """Also where the replay takes longer than the measured step: by 7 % of e2.blocking."""
    replay = Replay([recorded_details(path)])
    assert replay.runs
    assert predict_edits(replay, [NO_EDITS], Scenario()).predicted_ns == replay.step_ns


@pytest.mark.parametrize("name", ["experiments/e12.pinned-sent-to-the-child.process0", "loader_pinned", "clean.stack"])
def test_a_trace_verified_against_itself_shows_no_change(name: str) -> None:
    analysis = analysis_of(TRACES / f"{name}.json.gz")
    result = verify(analysis.details, analysis.profile, analysis.details, analysis.profile)
    assert result.changes == ()
    assert result.predicted_saving_ns == result.measured_saving_ns == result.error == 0


@pytest.mark.parametrize("launches", [False, True])
def test_an_op_that_is_removed_takes_its_time_and_its_calls_with_it(*, launches: bool) -> None:
    """From the launch at 10 to the one at 700 us, 500 are in the op; what is before a call in the op stays."""
    builder = TraceBuilder()
    for start in builder.steps(3):
        builder.kernel(start + 20, 50, launch=start + 10)
        builder.op("aten::sort", start + 100, 500)
        if launches:
            builder.kernel(start + 310, 50, launch=start + 300)
        builder.kernel(start + 720, 50, launch=start + 700)
    details = details_of(builder.read())
    (program,) = Replay([details]).programs
    after = edited(program, details, Edits(removed_ops=frozenset(range(len(details.trace.ops)))))
    assert [call.gap_ns for call in after.calls[1::2]] == pytest.approx([190 * US] * (len(after.calls) // 2))
    assert len(program.calls) == len(after.calls) * (3 if launches else 2) // 2
