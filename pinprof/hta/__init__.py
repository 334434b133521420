"""HolisticTraceAnalysis (HTA) on traces as pinprof reads them: many times faster, and from wherever they are.

    analysis = pinprof.hta.trace_analysis(["rank0.json.gz", "rank1.json.gz"])
    analysis.get_temporal_breakdown(visualize=False)

What comes is an `hta.trace_analysis.TraceAnalysis` with all its methods. Their results are those of HTA 0.5 with its
own loader, except where that is wrong:

- Times. HTA rounds both ends of an event inward to whole microseconds, and so gives one within a microsecond the
  duration -1. Here such a kernel, copy or memset keeps its own times, and what the host does is 0 long. All other times
  are rounded as HTA does, unless `exact=True`, or HTA's own switch HTA_DISABLE_NS_ROUNDING=1, asks for all nanoseconds.
- Synchronizations (`cuda_sync`) are no work of the GPU. HTA takes those of streams for kernels: as busy time in the
  temporal breakdown, `Stream Wait Event` as computation in the kernel breakdown and in the overlap of communication,
  and as members of kernel sequences. Critical paths need them, and have them.
- Stream 0. HTA gives its work no iteration. Here it has that of its launch, as on other streams. Numbers that ROCm
  writes as text (`"9216"`, `"0x0"`) are numbers. An op of the host that tells the stream it launches to, as those of
  torch.compile do, is no work of the GPU.
- `end` is on the axis of `ts`, where HTA leaves it on the file's clock. So `include_last_profiler_step=True` ends with
  the last step, where HTA goes on to the end of the trace.
- Events with corrupt times (0, years away, negative durations) are left out, as in pinprof's own tables.

What is wrong in HTA behind the loading is as it is there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pinprof.hta.sources import Source, recorded_ranks


def trace_analysis(
    traces: Source | Sequence[Source] | Mapping[int, Source],
    *,
    include_last_profiler_step: bool = False,
    exact: bool = False,
    jobs: int | None = None,
) -> Any:
    """Return a TraceAnalysis of HTA on traces: paths, URLs, folders, patterns, or traces that were read.

    The rank of a trace is that of the mapping, else as recorded, else as the file's name says (`rank3`); a single trace
    that tells none is rank 0. Of a trace that was read the file is read again: HTA needs more columns than pinprof
    keeps. HTA leaves out the last step unless told otherwise. Times are in microseconds, see above for `exact`; up to
    `jobs` threads read.

    Methods that write a copy of the trace (overlays, counters) read the file once more, which then must be whole; they
    raise PinprofError where that cannot be, or where they would write over the trace.

    Raises TraceError if a trace cannot be read, PinprofError if ranks are unknown or given twice.
    """
    from pinprof.hta.analysis import analysis_of  # noqa: PLC0415  HTA is slow to load

    return analysis_of(recorded_ranks(traces, jobs), include_last=include_last_profiler_step, exact=exact)
