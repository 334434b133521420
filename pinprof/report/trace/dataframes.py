"""The tables of a report as pandas DataFrames: the rows of the JSON document, with its names, in milliseconds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, to_builtins

from pinprof.analysis import Analysis
from pinprof.comparison import Comparison
from pinprof.documents.by_name import KernelJson, MemoryPeakJson, Op, Phase
from pinprof.documents.findings import FindingJson, RankRowJson
from pinprof.documents.report import GpuJson, TraceJson
from pinprof.documents.waits import CopiesJson, IdleJson, Loader, SiteJson
from pinprof.ranks.rank import Ranks
from pinprof.report.comparison.json import StepFigure, compared
from pinprof.report.trace.findings_json import ranks_of
from pinprof.units import NS_PER_MS

if TYPE_CHECKING:
    import pandas as pd


class TableOfRows(NamedTuple):
    """Where a table has its rows in the document, what these are of, and the columns that stand first."""

    rows: Callable[[TraceJson], Iterable[Struct]]
    kind: type[Struct]
    per: str
    first: tuple[str, ...] = ()


PER_STEP, PER_TRACE = "mean step", "whole trace"
"""What the rows of a table are of: its `attrs["per"]`."""

TABLES_OF_DOCUMENT: Mapping[str, TableOfRows] = {
    "kernels": TableOfRows(lambda trace: trace.kernels, KernelJson, PER_STEP, ("name", "count", "ms", "share")),
    "ops": TableOfRows(lambda trace: trace.ops, Op, PER_STEP, ("name", "count", "ms", "kernel_ms")),
    "copy_sums": TableOfRows(lambda trace: trace.copies, CopiesJson, PER_TRACE),
    "waits": TableOfRows(
        lambda trace: trace.syncs.sites, SiteJson, PER_TRACE, ("file", "line", "cause", "count", "stall_ms")
    ),
    "idle": TableOfRows(lambda trace: trace.idle, IdleJson, PER_TRACE),
    "gpu": TableOfRows(lambda trace: trace.gpu, GpuJson, PER_TRACE),
    "loader": TableOfRows(lambda trace: [trace.loader], Loader, PER_TRACE),
    "memory": TableOfRows(lambda trace: trace.memory, MemoryPeakJson, PER_TRACE),
    "phases": TableOfRows(lambda trace: trace.launches.phases if trace.launches else (), Phase, PER_STEP, ("phase",)),
    "findings": TableOfRows(
        lambda trace: trace.findings, FindingJson, PER_STEP, ("rule", "title", "file", "line", "saving_ms", "fix")
    ),
}
"""The tables of a report by name."""


def table(document: TraceJson, name: str) -> "pd.DataFrame":
    """Return a row for each entry of a table of a report, one of TABLES_OF_DOCUMENT."""
    of = TABLES_OF_DOCUMENT[name]
    return frame(of.rows(document), of.kind, *of.first, per=of.per)


def figures(comparison: Comparison) -> "pd.DataFrame":
    """Return a row for each figure of two traces: `name`, which ends with the unit, `before`, `after`, `outcome`."""
    first = ("name", "device", "before", "after", "difference", "fraction", "outcome")
    return frame(compared(comparison).figures, StepFigure, *first, per=PER_STEP)


def ranks(job: Ranks) -> "pd.DataFrame":
    """Return a row for each rank of a job: `rank`, `step_ms`, and `alone_ms`, its step if it waited for no other."""
    return frame(ranks_of(job).rows, RankRowJson, "rank", "step_ms", "alone_ms", per=PER_STEP)


def steps(analysis: Analysis) -> "pd.DataFrame":
    """Return a row for each step of the trace and GPU, as traced: when it is on the host, and how its time divides.

    `start_ms` counts from the first step, `host_ms` is how long the host takes to issue it, and `device_ms` the time
    between the ends of the GPU's work, whose parts are the columns after it; NaN where a step is cut off.
    """
    import pandas as pd  # noqa: PLC0415  slow to load

    steps = analysis.trace.steps
    start_ns = steps.start_ns[0] if len(steps) else 0
    on_host = pd.DataFrame(
        {
            "start_ms": (steps.start_ns - start_ns) / NS_PER_MS,
            "host_ms": (steps.end_ns - steps.start_ns) / NS_PER_MS,
            "complete": steps.complete,
        },
        index=pd.RangeIndex(1, len(steps) + 1, name="step"),
    )
    on_devices = [
        pd.DataFrame(
            {
                "device": parts.device,
                "device_ms": parts.length_ns / NS_PER_MS,
                "compute_ms": parts.compute_ns / NS_PER_MS,
                "overlapped_ms": parts.both_ns / NS_PER_MS,
                "exposed_ms": parts.copy_ns / NS_PER_MS,
                "memset_ms": parts.memset_ns / NS_PER_MS,
                "idle_ms": parts.idle_ns / NS_PER_MS,
            },
            index=parts.step + 1,
        )
        for parts in analysis.details.parts
    ]
    joined = on_host.join(pd.concat(on_devices)) if on_devices else on_host
    joined.attrs["per"] = "step"
    return joined


def frame(rows: Iterable[Struct], kind: type[Struct], *first: str, per: str) -> "pd.DataFrame":
    """Return the rows of a document, these columns first."""
    import pandas as pd  # noqa: PLC0415  slow to load

    names: Sequence[str] = kind.__struct_encode_fields__
    columns = [*first, *(name for name in names if name not in first)]
    frame = pd.DataFrame([to_builtins(row) for row in rows], columns=columns)
    frame = frame.astype({"line": "Int64"}) if "line" in columns else frame
    frame.attrs["per"] = per
    return frame
