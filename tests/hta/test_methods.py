"""The methods of TraceAnalysis that pinprof changes, or that read and write files, against those of HTA.

Both are called on a job, as pinprof loads it and as HTA's own loader does. The other methods see only what was loaded,
which `test_loading` compares.
"""

import gzip
import json
import logging
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest
from hta.trace_analysis import TraceAnalysis
from hta_loaders import ONLY_OF_TRACEINSIGHT
from trace_builder import COMPUTE, SIDE, TraceBuilder

import pinprof
from pinprof.hta.analysis import Pandas2Frame, RecordedAnalysis

pytestmark = pytest.mark.filterwarnings("ignore:::hta", "ignore::FutureWarning", "ignore::DeprecationWarning")


def overlaid(path: str | Path) -> Any:
    with gzip.open(path, "rt") as file:
        return json.load(file)


def sequences(analysis: Any, folder: Path) -> Any:
    ranks = analysis.t.get_ranks()
    options = {"output_dir": str(folder), "min_pattern_len": 1, "rank": ranks[-1], "compress_other_kernels": False}
    table = analysis.get_frequent_cuda_kernel_sequences("aten::", **options)
    return table, [overlaid(path) for path in folder.iterdir()]


def counted(analysis: Any, folder: Path) -> Any:
    for rank in analysis.t.get_ranks():  # they are written next to the trace
        copy = folder / f"{rank}.json.gz"
        copy.write_bytes(Path(analysis.t.trace_files[rank]).read_bytes())
        analysis.t.trace_files[rank] = str(copy)
    analysis.generate_trace_with_counters(ranks=analysis.t.get_ranks())
    return [overlaid(path) for path in sorted(folder.glob("*_with_counters*"))]


def critical(analysis: Any) -> Any:
    graph, success = analysis.critical_path_analysis(analysis.t.get_ranks()[0], "ProfilerStep", 0)
    return graph, success


def path_of(analysis: Any, _: Path) -> Any:
    graph, success = critical(analysis)
    edges = in_order(graph.get_critical_path_breakdown())
    return success, sorted(graph.critical_path_events_set), graph.summary(), edges


def in_order(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows in an order of their own: that of HTA is that of a set."""
    columns = ["event_idx", "duration", "type"]
    return table.sort_values(columns, ignore_index=True)


def overlaid_path(analysis: Any, folder: Path) -> Any:
    graph, _ = critical(analysis)
    rank = analysis.t.get_ranks()[0]
    events = overlaid(analysis.overlay_critical_path_analysis(rank, graph, str(folder)))["traceEvents"]
    return sorted(json.dumps({**event, "id": 0}, sort_keys=True) for event in events)


CALLS: dict[str, Callable[[Any, Path], Any]] = {
    "critical_path_analysis": path_of,
    "generate_trace_with_counters": counted,
    "get_comm_comp_overlap": lambda analysis, _: analysis.get_comm_comp_overlap(visualize=False),
    "get_frequent_cuda_kernel_sequences": sequences,
    "get_gpu_kernel_breakdown": lambda analysis, _: analysis.get_gpu_kernel_breakdown(visualize=False),
    "get_temporal_breakdown": lambda analysis, _: analysis.get_temporal_breakdown(visualize=False),
    "overlay_critical_path_analysis": overlaid_path,
}
WITHOUT_SYNCS = {
    "get_comm_comp_overlap",
    "get_frequent_cuda_kernel_sequences",
    "get_gpu_kernel_breakdown",
    "get_temporal_breakdown",
}
"""To these HTA's loader gives synchronizations as work of the GPU."""


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(go.Figure, "show", lambda *_, **__: None)  # one method draws unasked
    logging.getLogger("hta").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("hta").setLevel(logging.INFO)


TOLERANCE_US = 2e-3
"""Times of a file are doubles in HTA, which are exact to about a nanosecond."""


def own(files: dict[int, Path]) -> Any:
    """Return the analysis on what HTA's own loader loads."""
    return TraceAnalysis({rank: str(path) for rank, path in files.items()})


def drop_syncs(analysis: Any) -> None:
    sync = analysis.t.symbol_table.sym_index.get("cuda_sync", -1)
    analysis.t.traces = {rank: frame[frame["cat"] != sync] for rank, frame in analysis.t.traces.items()}


def assert_same(one: Any, other: Any, tolerance: float) -> None:
    """Compare what methods return, whatever it is made of."""
    if isinstance(one, pd.DataFrame | pd.Series):
        assert isinstance(other, pd.DataFrame | pd.Series)
        compare = pd.testing.assert_frame_equal if isinstance(one, pd.DataFrame) else pd.testing.assert_series_equal
        compare(plain(one), plain(other), check_dtype=False, rtol=tolerance, atol=tolerance)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key, value in one.items():
            assert_same(value, other[key], tolerance)
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right, tolerance)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=tolerance, abs=tolerance)
    else:
        assert one == other


def plain(table: Any) -> Any:
    """Return a table without HTA's numbers of texts, others in every process, and what one loader lacks."""
    if isinstance(table, pd.Series):
        return table
    numbers = ["cat", "name", "user_annotation"] if "s_name" in table else []
    return pd.DataFrame(table).drop(columns=["end", *numbers, *ONLY_OF_TRACEINSIGHT], errors="ignore")


def returned(method: str, analysis: Any, folder: Path) -> Any:
    """Return what a method returns, or what it raises."""
    folder.mkdir()
    try:
        return CALLS[method](analysis, folder)
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
        return type(error), str(error)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """Return the analyses of a job, as `recorded` does."""
    files = built(tmp_path_factory.mktemp("job"))
    return own(files), pinprof.hta.trace_analysis(files)


def built(folder: Path) -> dict[int, Path]:
    """Write a job of two ranks in whole µs, with what the recordings lack: collectives as HTA knows them."""
    return {rank: built_rank(rank).write(folder / f"rank{rank}.json.gz") for rank in (0, 1)}


def built_rank(rank: int) -> TraceBuilder:
    builder = TraceBuilder()
    for number, start in enumerate(range(0, 4000, 1000)):
        builder.step(number, start, 1000)
        builder.event("gpu_user_annotation", "forward", start + 50, 300).update(pid=0, tid=COMPUTE)
        builder.op("aten::mm", start + 5, 30)
        builder.kernel(start + 50, 200, launch=start + 10)
        builder.copy("HtoD (Pinned -> Device)", start + 260, 80, launch=start + 20)
        builder.events[-1]["args"]["memory bandwidth (GB/s)"] = 12.5
        builder.op("nccl:all_reduce", start + 40, 30)
        correlation = builder.call("cudaLaunchKernelExC", start + 45, 5)
        name, begin = "ncclKernel_AllReduce_RING_LL_Sum_float", start + 150 + 100 * rank * number
        builder.activity("kernel", name, begin, 600 - begin + start, correlation=correlation, device=0, stream=SIDE)
    return builder


def test_every_method_of_our_own_is_compared() -> None:
    ours = {name for name in vars(RecordedAnalysis) if not name.startswith("_")}
    assert set(CALLS) == ours | {"generate_trace_with_counters", "overlay_critical_path_analysis"}


@pytest.mark.parametrize("method", CALLS)
def test_a_method_gives_the_same_on_a_job_with_collectives(method: str, job: tuple[Any, Any], tmp_path: Path) -> None:
    result = compare(method, *deepcopy(job), tmp_path)
    assert not (isinstance(result, tuple) and isinstance(result[0], type)), result


def compare(method: str, expected: Any, ours: Any, folder: Path) -> Any:
    """Compare what a method returns on both, and return it."""
    if method in WITHOUT_SYNCS:
        drop_syncs(expected)
    expected.t.traces = {rank: Pandas2Frame(frame) for rank, frame in expected.t.traces.items()}
    one, other = (returned(method, analysis, folder / name) for analysis, name in ((expected, "a"), (ours, "b")))
    assert_same(one, other, TOLERANCE_US)
    return one
