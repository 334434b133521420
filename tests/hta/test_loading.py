"""What pinprof.hta loads: files of all kinds, ranks, frames, and where it is right and HTA's loader is not."""

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hta.trace_analysis import TraceAnalysis
from hta_loaders import ONLY_OF_TRACEINSIGHT, round_times
from packed import zstd
from recordings import TRACES
from trace_builder import TraceBuilder

import pinprof
from pinprof.ground.errors import TraceError

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


def test_shapes_and_cuptis_counters_that_were_recorded_are_there(tmp_path: Path) -> None:
    builder = steps()
    dims: dict[str, Any] = {"Input Dims": [[32, 128], []], "Input type": ["float", ""], "Input Strides": [[128, 1], []]}
    builder.event("cpu_op", "aten::mm", 5, 3, **dims, **{"External id": 7})
    builder.event("cuda_profiler_range", "gemm", 20, 40, dram__bytes_read=4096)
    path = builder.write(tmp_path / "trace.json")
    expected, ours = own(path).t.get_trace(0), pinprof.hta.trace_analysis({0: path}).t.get_trace(0)
    for column in ("input_dims", "input_type", "input_strides", "external_id", "dram__bytes_read"):
        assert expected[column].tolist() == ours[column].tolist()
    assert ours["input_dims"].tolist().count([[32, 128], []]) == 1
    assert sorted(set(ours["dram__bytes_read"])) == [-1, 4096]


def test_a_file_packed_with_zstd_does_and_can_be_written_back(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.zst"
    path.write_bytes(zstd.compress(gzip.decompress(RECORDING.read_bytes())))
    analysis = pinprof.hta.trace_analysis(path)
    pd.testing.assert_frame_equal(analysis.t.get_trace(0), pinprof.hta.trace_analysis(RECORDING).t.get_trace(0))
    analysis.generate_trace_with_counters()
    (written,) = tmp_path.glob("*_with_counters*")
    assert "Queue Length" in {
        event["name"] for event in json.loads(gzip.decompress(written.read_bytes()))["traceEvents"]
    }


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("cut.json.gz", r"cut\.json\.gz: HTA copies the whole file, and the gzip data ends too early"),
        ("broken.json", r"broken\.json: HTA copies the whole file, which is not JSON"),
    ],
)
def test_a_file_that_is_cut_off_does_but_cannot_be_copied(tmp_path: Path, name: str, why: str) -> None:
    path, data = tmp_path / name, RECORDING.read_bytes()
    path.write_bytes(data[:-5000] if name.endswith(".gz") else gzip.decompress(data)[:-50_000])
    analysis = pinprof.hta.trace_analysis(path)
    assert 0 < len(analysis.t.get_trace(0)) < len(pinprof.hta.trace_analysis(RECORDING).t.get_trace(0))
    with pytest.raises(TraceError, match=why):
        analysis.generate_trace_with_counters()


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


def test_times_are_rounded_inward_as_hta_does_unless_asked(tmp_path: Path) -> None:
    builder = steps()
    builder.kernel(70.25, 2.5, launch=65)  # to 72.75
    path = builder.write(tmp_path / "trace.json")
    for analysis in (own(path), pinprof.hta.trace_analysis(path)):
        assert analysis.t.get_trace(0).query("dur < 10 and stream == 7")[["ts", "dur"]].to_numpy().tolist() == [[71, 1]]
    exact = pinprof.hta.trace_analysis(path, exact=True)
    assert busy(exact) == [140 - 82.5, 82.5, 0, 140]
