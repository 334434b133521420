"""What pinprof.hta loads: files of all kinds, ranks, frames, and where it is right and HTA's loader is not."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hta.trace_analysis import TraceAnalysis
from hta_loaders import ONLY_OF_TRACEINSIGHT, round_times
from recordings import TRACES
from trace_builder import TraceBuilder

import pinprof

RECORDING = TRACES / "pageable_blocking.json.gz"


pytestmark = pytest.mark.filterwarnings("ignore:::hta", "ignore::FutureWarning", "ignore::DeprecationWarning")


def steps(count: int = 3) -> TraceBuilder:
    """Return a trace of steps of 100 µs, each with a kernel of 40 µs; HTA leaves out the last one."""
    builder = TraceBuilder()
    for start in builder.steps(count, 100, length=100):
        builder.kernel(start + 20, 40, launch=start + 10)
    return builder


def own(path: Path, **options: Any) -> Any:
    return TraceAnalysis({0: str(path)}, **options)


def frames(analysis: Any) -> list[pd.DataFrame]:
    left_out = ["cat", "name", *ONLY_OF_TRACEINSIGHT]
    return [frame.drop(columns=left_out, errors="ignore") for frame in analysis.t.traces.values()]


def names(analysis: Any) -> list[str]:
    return [analysis.t.symbol_table.sym_table[code] for code in analysis.t.get_trace(0)["name"]]


def busy(analysis: Any) -> list[float]:
    """Return idle, computing, other and whole time of the GPU in µs."""
    return analysis.get_temporal_breakdown(visualize=False).iloc[0, 1:5].tolist()


# ---------------------------------------------------------------- files and ranks


@pytest.mark.parametrize(
    "name", ["mask_loss", "prefetch.stack", "small_kernels", "loader_pinned.stack", "ranks/pageable_rank.rank0.before"]
)
def test_frames_are_those_of_htas_loader(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    round_times(monkeypatch, exact=True)
    path = TRACES / f"{name}.json.gz"
    expected, ours = own(path), pinprof.hta.trace_analysis({0: path})
    (one,), (other,) = frames(expected), frames(ours)
    one["end"] -= expected.t.min_ts
    pd.testing.assert_frame_equal(one, other, check_dtype=False, check_like=True, rtol=0, atol=2e-3)
    assert names(expected) == names(ours)
    for column in ("cat", "name"):
        assert [expected.t.symbol_table.sym_table[code] for code in expected.t.get_trace(0)[column]] == [
            ours.t.symbol_table.sym_table[code] for code in ours.t.get_trace(0)[column]
        ]
    expected.t.meta_data[0].pop("device_type", None)  # traceinsight's guess
    assert expected.t.meta_data == ours.t.meta_data
    assert ours.t.min_ts == pytest.approx(expected.t.min_ts, abs=1e-3)
    assert ours.t.get_trace_start_unixtime_ns(0) == pytest.approx(expected.t.get_trace_start_unixtime_ns(0), abs=2)


def test_shapes_that_were_recorded_are_there(tmp_path: Path) -> None:
    builder = steps()
    dims: dict[str, Any] = {"Input Dims": [[32, 128], []], "Input type": ["float", ""], "Input Strides": [[128, 1], []]}
    builder.event("cpu_op", "aten::mm", 5, 3, **dims, **{"External id": 7})
    path = builder.write(tmp_path / "trace.json")
    expected, ours = own(path).t.get_trace(0), pinprof.hta.trace_analysis({0: path}).t.get_trace(0)
    for column in ("input_dims", "input_type", "input_strides", "external_id"):
        assert expected[column].tolist() == ours[column].tolist()
    assert ours["input_dims"].tolist().count([[32, 128], []]) == 1


def test_ranks_are_as_recorded_else_as_named(tmp_path: Path) -> None:
    builder = steps()
    builder.metadata["distributedInfo"] = {"rank": 5, "world_size": 8}
    recorded = builder.write(tmp_path / "rank2.json")
    named = steps().write(tmp_path / "run.rank_7.json.gz")
    assert pinprof.hta.trace_analysis([named, recorded]).t.get_ranks() == [5, 7]
    assert pinprof.hta.trace_analysis(tmp_path).t.trace_files == {5: str(recorded), 7: str(named)}
    assert pinprof.hta.trace_analysis({1: named, 0: recorded}).t.get_ranks() == [0, 1]
    assert pinprof.hta.trace_analysis(steps().write(tmp_path / "trace.json")).t.get_ranks() == [0]


# ---------------------------------------------------------------- where HTA's loader is wrong


def test_a_kernel_shorter_than_a_microsecond_keeps_its_times(tmp_path: Path) -> None:
    builder = steps()
    builder.kernel(70.25, 0.5, launch=65)
    path = builder.write(tmp_path / "trace.json")
    assert sorted(own(path).t.get_trace(0).query("stream == 7")["dur"]) == [-1, 40, 40]
    analysis = pinprof.hta.trace_analysis(path)
    assert sorted(analysis.t.get_trace(0).query("stream == 7")["dur"]) == [0.5, 40, 40]
    assert busy(analysis) == [140 - 80.5, 80.5, 0, 140]
