import numpy as np
import pytest
from trace_builder import SIDE, TraceBuilder

from pinprof.trace import Trace
from pinprof.trace.collectives import Meeting, collectives_of, is_collective_kernel, match_collectives


def traces_of(*ranks: TraceBuilder) -> list[Trace]:
    return [rank.read() for rank in ranks]


def stepped(steps: int = 2) -> TraceBuilder:
    builder = TraceBuilder()
    for number in range(steps):
        builder.step(number, 1000 * number, 990)
    return builder


def matched(traces: list[Trace]) -> list[Meeting]:
    tables = [collectives_of(trace, np.flatnonzero(trace.steps.complete).tolist()) for trace in traces]
    return [
        {rank: int(tables[rank].row[index]) for rank, index in meeting.items()} for meeting in match_collectives(tables)
    ]


def test_what_a_collective_is_called_and_its_group_are_columns() -> None:
    builder = stepped()
    builder.kernel(20, 10, launch=10)
    builder.collective(40, 10, launch=30, called="allreduce", group="[0, 1]")
    builder.collective(1040, 10, launch=1030, called="")
    (trace,) = traces_of(builder)
    gpu = trace.gpu
    assert [gpu.names[code] if code >= 0 else None for code in gpu.collective] == [None, "allreduce", None]
    assert [gpu.names[code] if code >= 0 else None for code in gpu.group] == [None, "[0, 1]", None]
    assert is_collective_kernel(gpu).tolist() == [False, True, True]
    table = gpu.to_pandas()
    assert table["collective"].tolist()[1] == "allreduce"
    assert table["group"].isna().tolist() == [True, False, True]


def test_the_collectives_of_a_step_match_in_order_of_launch() -> None:
    first, second = stepped(), stepped()
    for start in (0, 1000):
        first.collective(start + 40, 10, launch=start + 10)
        first.collective(start + 60, 10, launch=start + 20)
        second.collective(start + 90, 10, launch=start + 30, stream=SIDE)  # on another stream, which starts later
        second.collective(start + 80, 10, launch=start + 40)
    traces = traces_of(first, second)
    rows = [
        tuple(int(traces[rank].links.launched_ns[row]) % 1_000_000 for rank, row in sorted(meeting.items()))
        for meeting in matched(traces)
    ]
    assert rows == [(10_000, 30_000), (20_000, 40_000)] * 2


@pytest.mark.parametrize(
    ("around", "kernel", "name"),
    [
        ("c10d::alltoall_base_", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "alltoall_base_"),
        ("c10d::gather_", "ncclDevKernel_Generic_4", "gather_"),
        ("nccl:all_to_all", "ncclDevKernel_SendRecv", "all_to_all"),
        ("aten::mm", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        ("nccl:send 0->1", "ncclDevKernel_SendRecv", None),
        ("nccl:coalesced", "ncclDevKernel_SendRecv", None),  # of all ranks or of two
        ("aten::mm", "ncclDevKernel_Generic_4", None),
    ],
)
def test_a_kernel_without_a_name_has_that_of_the_range_around_its_launch(
    around: str, kernel: str, name: str | None
) -> None:
    builder = stepped()
    builder.event("user_annotation" if around.startswith("nccl") else "cpu_op", around, 5, 20)
    builder.op("record_param_comms", 6, 18)
    builder.kernel(40, 10, launch=10, name=kernel)
    (trace,) = traces_of(builder)
    assert collectives_of(trace, [0]).name == (() if name is None else (name,))


def test_groups_are_matched_apart() -> None:
    ranks = [stepped(), stepped(), stepped()]
    for rank, builder in enumerate(ranks):
        if rank != 1:
            builder.collective(30, 10, launch=10, group="[0, 2]")
        builder.collective(50, 10, launch=20, group="[0, 1, 2]")
        builder.kernel(1020, 10, launch=1010)
    members = sorted(sorted(meeting) for meeting in matched(traces_of(*ranks)))
    assert members == [[0, 1, 2], [0, 2]]


def test_a_group_that_ranks_use_differently_often_does_not_match_nor_do_sends() -> None:
    first, second = stepped(), stepped()
    first.collective(30, 10, launch=10)
    first.collective(50, 10, launch=20)
    second.collective(30, 10, launch=10)  # once only
    for builder, called in ((first, "send"), (second, "recv")):
        builder.collective(1030, 10, launch=1010, called=called)
    assert matched(traces_of(first, second)) == []
