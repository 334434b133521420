"""The tables of a report as pandas DataFrames: the rows of the JSON document, with its names, in milliseconds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins

from pinprof.analysis import Analysis
from pinprof.comparison import Comparison
from pinprof.documents.by_name import KernelJson, Op, Phase
from pinprof.documents.findings import FindingJson, RankRowJson
from pinprof.documents.report import TraceJson
from pinprof.documents.waits import CopiesJson, SiteJson
from pinprof.ranks.rank import Ranks
from pinprof.report.comparison.json import StepFigure, compared
from pinprof.report.trace.findings_json import ranks_of
from pinprof.units import NS_PER_MS

if TYPE_CHECKING:
    import pandas as pd


TABLES: Mapping[str, tuple[Callable[[TraceJson], Iterable[Struct]], type[Struct], tuple[str, ...]]] = {
    "kernels": (lambda document: document.kernels, KernelJson, ("name", "count", "ms", "share")),
    "ops": (lambda document: document.ops, Op, ("name", "count", "ms", "kernel_ms")),
    "copies": (lambda document: document.copies, CopiesJson, ()),
    "waits": (lambda document: document.syncs.sites, SiteJson, ("file", "line", "cause", "count", "stall_ms")),
    "phases": (lambda document: document.launches.phases if document.launches else (), Phase, ("phase",)),
    "findings": (
        lambda document: document.findings,
        FindingJson,
        ("rule", "title", "file", "line", "saving_ms", "fix"),
    ),
}
"""By name: the rows of a table of the document, their class, and the columns that stand first."""


def table(document: TraceJson, name: str) -> "pd.DataFrame":
    """Return a row for each entry of a table of a report, one of TABLES."""
    rows_of, kind, first = TABLES[name]
    return frame(rows_of(document), kind, *first)


def figures(comparison: Comparison) -> "pd.DataFrame":
    """Return a row for each figure of two traces: `name`, which ends with the unit, `before`, `after`, `outcome`."""
    rows = compared(comparison).figures
    return frame(rows, StepFigure, "name", "device", "before", "after", "difference", "fraction", "outcome")


def ranks(job: Ranks) -> "pd.DataFrame":
    """Return a row for each rank of a job: `rank`, `step_ms`, and `alone_ms`, its step if it waited for no other."""
    return frame(ranks_of(job).rows, RankRowJson, "rank", "step_ms", "alone_ms")


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
    return on_host.join(pd.concat(on_devices)) if on_devices else on_host


def frame(rows: Iterable[Struct], kind: type[Struct], *first: str) -> "pd.DataFrame":
    """Return the rows of a document, these columns first."""
    import pandas as pd  # noqa: PLC0415  slow to load

    names: Sequence[str] = kind.__struct_encode_fields__
    columns = [*first, *(name for name in names if name not in first)]
    frame = pd.DataFrame([to_builtins(row) for row in rows], columns=columns)
    return frame.astype({"line": "Int64"}) if "line" in columns else frame
