from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_builder import TraceBuilder

from pinprof.analyses.host_samples import measure_host
from pinprof.trace.metadata.sampled_stacks import (
    HOST_KEY,
    MAX_KEPT_FRAMES,
    MAX_KEPT_STACKS,
    HostFrame,
    HostProfile,
    HostStack,
    host_of_metadata,
)

FRAMES: list[dict[str, Any]] = [
    {"file": "train.py", "line": 7, "function": "<module>", "origin": "user"},
    {"file": "torch/_tensor.py", "line": None, "function": "Tensor.backward", "origin": "torch"},
]
RECORD: dict[str, Any] = {
    "interval_ms": 10.0,
    "samples": 4,
    "steps": 2,
    "window_ms": 40.0,
    "frames": FRAMES,
    "stacks": [{"frames": [0, 1], "count": 3}],
    "folded": 1,
}


def recorded() -> TraceBuilder:
    builder = TraceBuilder()
    builder.op("aten::add", 0, 10)
    return builder


def test_the_samples_of_a_trace_are_read() -> None:
    builder = recorded()
    builder.metadata[HOST_KEY] = RECORD
    read = builder.read().info.host
    frames = (
        HostFrame("train.py", 7, "<module>", "user"),
        HostFrame("torch/_tensor.py", None, "Tensor.backward", "torch"),
    )
    assert read == HostProfile(10.0, 4, 2, 40.0, frames, (HostStack((0, 1), 3),), folded=1)


@pytest.mark.parametrize(
    "change",
    [
        {"samples": 5},
        {"samples": "4"},
        {"interval_ms": -1.0},
        {"interval_ms": None},
        {"window_ms": 1e400},
        {"steps": -1},
        {"folded": -1, "samples": 2},
        {"frames": FRAMES[:1]},
        {"frames": [{**FRAMES[0], "origin": "mine"}, FRAMES[1]]},
        {"frames": 5},
        {"stacks": [{"frames": [0, -1], "count": 3}]},
        {"stacks": [{"frames": [], "count": 3}]},
        {"stacks": [{"frames": [0], "count": 0}], "samples": 1},
        {"stacks": [{"frames": [0] * (MAX_KEPT_FRAMES + 1), "count": 3}]},
        {"stacks": [{"frames": [0], "count": 1}] * (MAX_KEPT_STACKS + 1), "samples": MAX_KEPT_STACKS + 2},
        {"stacks": [{"frames": [0], "count": 10**30}], "samples": 10**30 + 1},
    ],
)
def test_a_malformed_record_is_none(change: dict[str, Any]) -> None:
    assert host_of_metadata(RECORD) is not None
    assert host_of_metadata(RECORD | change) is None


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*RECORD, *FRAMES[0]]), inner, max_size=4)
    ),
)


@pytest.mark.slow
@given(st.sampled_from(list(RECORD)), ANYTHING)
def test_whatever_is_recorded_is_sound_or_none(key: str, value: object) -> None:
    read = host_of_metadata(RECORD | {key: value})
    sums = measure_host(read)
    assert sums is None or read is None or sums.samples + sums.folded == read.samples
