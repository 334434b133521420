"""The tables of a report as pandas DataFrames: rows of the JSON document with its names, in ms; steps; and events."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins

from pinprof.analysis import Analysis
from pinprof.comparison import Comparison
from pinprof.documents.by_name import KernelJson, MemoryPeakJson, Op, Phase
from pinprof.documents.findings import FindingJson, RankRowJson
from pinprof.documents.report import GpuJson, TraceJson
from pinprof.documents.waits import CopiesJson, IdleJson, Loader, SiteJson
from pinprof.ground.units import NS_PER_MS
from pinprof.ranks.rank import Ranks
from pinprof.report.comparison.json import StepFigure, compared
from pinprof.report.findings.json import ranks_of
from pinprof.trace.spans.step_names import numbers_of_steps

if TYPE_CHECKING:
    import pandas as pd

    from pinprof.report.python.events import EventTable


ROWS_PER_STEP, ROWS_PER_TRACE = "mean step", "whole trace"
"""What the rows of a table are of: its `attrs["per"]`."""


def _rows(meaning: str, per: str, kind: type[Struct], place: str, first: str = "") -> Any:
    """Return the property of a report that has the rows at a place of its document as a table.

    `first` names the columns that stand first.
    """

    def table(report: "ReportTables") -> "pd.DataFrame":
        rows: Any = report._document  # noqa: SLF001  its own
        for name in place.split("."):
            rows = getattr(rows, name) if rows is not None else ()
        return frame([rows] if isinstance(rows, Struct) else rows or (), kind, *first.split(), per=per)

    return property(table, doc=meaning)


class ReportTables(ABC):
    """The tables of a report.

    They are DataFrames: a column's name ends with its unit, or it is a number or a share of 1; `attrs["per"]` says
    whether the rows are of a mean step or of the whole trace. Steps have the numbers of their names in the trace
    (`ProfilerStep#7`), as on the page, or count from 1.
    """

    @property
    @abstractmethod
    def analysis(self) -> Analysis:
        """All that is known of the trace."""

    @property
    @abstractmethod
    def _document(self) -> TraceJson: ...

    @cached_property
    def events(self) -> "EventTable":
        """A row for each kernel, copy, memset, call of the GPU's runtime, and op, in the order of their starts.

            report.events.kernels.groupby("name").duration_ms.sum()
            report.events.query("step == 2 and kind == 'op'")

        `start_ms` counts from the start of the first step; `op`, `file`, `line` and `function` say what made it, as far
        as the trace shows that. `.kernels`, `.copies`, `.calls` and `.ops` are the rows of one kind, with its columns.
        """
        from pinprof.report.python.events import events_of  # noqa: PLC0415  pandas is slow to load

        return events_of(self.analysis.details, knows_exposed=self._document.overlap.exposed_ms is not None)

    @property
    def copies(self) -> "pd.DataFrame":
        """A row for each copy: `direction`, `host_memory`, `bytes`, `duration_ms`, `exposed_ms`, `line`, ..."""
        return self.events.copies

    @property
    def collectives(self) -> "pd.DataFrame":
        """A row for each collective of torch.distributed in the complete steps: `name`, `step`, `bytes`, ..."""
        from pinprof.report.python.events import collectives  # noqa: PLC0415  pandas is slow to load

        return collectives(self.analysis.details)

    kernels = _rows(
        "Sums by name of the kernels of a step: `count`, `ms`, `mean_us`, `share` of their time.",
        *(ROWS_PER_STEP, KernelJson, "kernels", "name count ms share"),
    )
    ops = _rows(
        "Sums by name of the ops of a step, as traced: `count`, `ms` on the host, `kernel_ms`.",
        *(ROWS_PER_STEP, Op, "ops", "name count ms kernel_ms"),
    )
    phases = _rows(
        "The phases of a step, as traced: `launches`, `host_ms`, `kernel_ms`.",
        *(ROWS_PER_STEP, Phase, "launches.phases", "phase"),
    )
    findings = _rows(
        "The findings, the best saving first; `analysis.findings` has them as objects.",
        *(ROWS_PER_STEP, FindingJson, "findings", "rule title file line saving_ms fix"),
    )
    copy_sums = _rows(
        "Sums of the copies by direction and host memory: `count`, `bytes`, `exposed_ms`.",
        *(ROWS_PER_TRACE, CopiesJson, "copies"),
    )
    waits = _rows(
        "Sums of the host's waits by place: `file`, `line`, `cause`, `stall_ms`.",
        *(ROWS_PER_TRACE, SiteJson, "syncs.sites", "file line cause count stall_ms"),
    )
    idle = _rows("Idle time of each GPU by cause: `device`, `cause`, `time_ms`.", ROWS_PER_TRACE, IdleJson, "idle")
    gpu = _rows("Each GPU: `busy_ms`, `kernel_ms`, `memcpy_ms`, `idle_ms`, `span_ms`.", ROWS_PER_TRACE, GpuJson, "gpu")
    loader = _rows("One row on the DataLoader: `waits`, `wait_ms`, `pinned`, ...", ROWS_PER_TRACE, Loader, "loader")
    memory = _rows(
        "The peak of each GPU's memory, if that was recorded (`profile_memory=True`).",
        *(ROWS_PER_TRACE, MemoryPeakJson, "memory"),
    )

    @property
    def steps(self) -> "pd.DataFrame":
        """The steps of the trace on the host and on each GPU."""
        return steps(self.analysis)


def figures_of(comparison: Comparison) -> "pd.DataFrame":
    """Return a row for each figure of two traces: `name`, which ends with the unit, `before`, `after`, `outcome`."""
    first = ("name", "device", "before", "after", "difference", "fraction", "outcome")
    return frame(compared(comparison).figures, StepFigure, *first, per=ROWS_PER_STEP)


def ranks_of_job(job: Ranks) -> "pd.DataFrame":
    """Return a row for each rank of a job: `rank`, `step_ms`, and `alone_ms`, its step if it waited for no other."""
    return frame(ranks_of(job).rows, RankRowJson, "rank", "step_ms", "alone_ms", per=ROWS_PER_STEP)


def steps(analysis: Analysis) -> "pd.DataFrame":
    """Return a row for each step of the trace and GPU, as traced: when it is on the host, and how its time divides.

    `start_ms` counts from the first step, `host_ms` is how long the host takes to issue it, and `device_ms` the time
    between the ends of the GPU's work, whose parts are the columns after it; NaN where a step is cut off.
    """
    import pandas as pd  # noqa: PLC0415  slow to load

    steps, numbers = analysis.trace.steps, numbers_of_steps(analysis.trace)
    start_ns = steps.start_ns[0] if len(steps) else 0
    on_host = pd.DataFrame(
        {
            "start_ms": (steps.start_ns - start_ns) / NS_PER_MS,
            "host_ms": (steps.end_ns - steps.start_ns) / NS_PER_MS,
            "complete": steps.complete,
        },
        index=pd.Index(numbers, name="step"),
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
            index=numbers[parts.step],
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
