"""Jobs of many ranks by hand: two small traces, and as many ranks as wanted that are like the one or the other."""

from dataclasses import replace
from pathlib import Path

from trace_builder import TraceBuilder

from pinprof.ranks.rank import Alone, RankPart, measure_rank
from pinprof.trace import Trace, read_trace

STEPS = 6


def rank_trace(number: int, late: float, *, world_size: int = 2, pageable: bool = True) -> TraceBuilder:
    """Steps of 1000 µs: a kernel from `late` + 20 for 100, from its 80th on beside it a collective that ends at 800.

    Then, if it is `pageable`, a copy of pageable memory from 820 to 870, in whose call the host stands from 815 to 871.
    """
    builder = TraceBuilder()
    builder.metadata["distributedInfo"] = {"rank": number, "world_size": world_size}
    for start in builder.steps(STEPS):
        begin = start + late + 10
        builder.op("aten::mm", begin, 20)
        builder.kernel(begin + 10, 100, launch=begin + 5)
        builder.collective(begin + 90, start + 800 - (begin + 90), launch=begin + 15, stream=20)
        builder.call("cudaDeviceSynchronize", begin + 30, start + 805 - (begin + 30))
        if pageable:
            builder.op("aten::to", start + 812, 65)
            builder.copy("HtoD (Pageable -> Device)", start + 820, 50, launch=start + 815, call=56)
    return builder


def job(folder: Path, count: int, *, slowest: int | None = None) -> tuple[list[RankPart], Trace]:
    """Return so many ranks, each of which needs a little more alone than the one before it, and a trace of one.

    The `slowest` begins 600 µs late, the others 10 µs.
    """
    traces = [read_trace(rank_trace(0, late).write(folder / f"late{late}.json")) for late in (10, 600)]
    measured = [measure_rank(trace) for trace in traces]
    chosen = [int(number == slowest) for number in range(count)]
    parts = [like(measured[kind], number, count) for number, kind in enumerate(chosen)]
    return parts, traces[max(chosen)]


def like(part: RankPart, number: int, count: int) -> RankPart:
    """Return a rank like another one, with a number of its own."""
    assert part.alone
    profile = replace(
        part.profile,
        path=f"run/train.rank{number}.json.gz",
        info=replace(part.profile.info, rank=number, world_size=count),
    )
    alone = Alone(*(time * (1 + number / count / 100) for time in part.alone))
    return replace(part, profile=profile, alone=alone)
