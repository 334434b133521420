"""Calls for notebooks and Python sessions: each records or reads traces, and returns a report that shows itself."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from dataclasses import replace as with_fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from pinprof.analysis import Analysis, analyse
from pinprof.bench.advice import read_machine
from pinprof.comparison import Comparison
from pinprof.comparison import compare as compared
from pinprof.documents.report import TraceJson as Document
from pinprof.ground.errors import PinprofError, TraceError
from pinprof.ground.standard_streams import is_terminal
from pinprof.ground.units import counted
from pinprof.measurement.profile import Profile
from pinprof.prediction import Prediction, Scenario, predict
from pinprof.prediction.pinning import Pinning
from pinprof.ranks.compare import compare_ranks
from pinprof.ranks.rank import RankPart, Ranks, rank_of
from pinprof.ranks.runs import checked_pattern, job_of, numbered
from pinprof.report.comparison import page as comparison_page
from pinprof.report.comparison.json import comparison_to_json
from pinprof.report.comparison.text import comparison_to_text
from pinprof.report.comparison.words import verdict
from pinprof.report.job.page import page_of_files
from pinprof.report.job.text import job_to_text
from pinprof.report.job.view import verdict_line
from pinprof.report.python.dataframes import ReportTables, figures_of, ranks_of_job
from pinprof.report.python.objects import Contents, ReportObject, scalars_of
from pinprof.report.trace.json import trace_of, traces_to_json
from pinprof.report.trace.markdown import traces_to_markdown
from pinprof.report.trace.page import to_html
from pinprof.report.trace.text import trace_to_text
from pinprof.rules.rule import Findings
from pinprof.trace import Trace, read_trace
from pinprof.trace.files import trace_files
from pinprof.trace_pool import measure_all

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


TraceOrUrl: TypeAlias = str | os.PathLike[str] | Trace
"""A trace, or the file or URL of one."""
StepRange: TypeAlias = int | tuple[int, int]
MsRange: TypeAlias = tuple[float, float]
"""One step, or the first and the last one, by their numbers on the page; start and end in ms from the first step on."""


class Report(ReportTables, ReportObject):
    """A trace, its measurements and findings; prints the text of the command, and shows the page in a notebook."""

    _title = "pinprof report"

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis

    @property
    def analysis(self) -> Analysis:
        """All that is known of the trace: as rows (`details`), summed up (`profile`), and the findings as objects."""
        return self._analysis

    @property
    def profile(self) -> Profile:
        """What was measured of it."""
        return self.analysis.profile

    @property
    def _findings(self) -> Findings:
        return self.analysis.findings

    @property
    def step_ms(self) -> float | None:
        """The step without the profiler; None if the trace does not show it."""
        return self._document.steps.step_ms

    @property
    def step_range_ms(self) -> tuple[float, float] | None:
        """Where the step lies; of several recorded runs, where it lies in another one; None as for `step_ms`."""
        bounds = self._document.steps.range_ms
        return None if bounds is None else (bounds[0], bounds[1])

    @property
    def bound(self) -> str | None:
        """What sets the pace of the step: `gpu`, `host`, `input` or `communication`; None as for `step_ms`."""
        return self._document.steps.bound

    @property
    def verdict(self) -> str | None:
        """What limits the step, in a sentence; None if the trace does not show it."""
        return self._document.verdict.headline

    def compare(self, after: "TraceOrUrl | Report") -> "ComparisonReport":
        """Return what changed from this trace to another one; see `pinprof.compare`."""
        return compare(self, after)

    def scalars(self) -> dict[str, float]:
        """Return the numbers of the report by name, times in ms, for a tracker of experiments.

            mlflow.log_metrics(report.scalars())
            wandb.log(report.scalars())

        A name is a place in the JSON, behind `pinprof/`: `pinprof/steps/step_ms`, `pinprof/findings/PIN201/saving_ms`.
        Numbers that the trace does not tell are left out.
        """
        return scalars_of(self._document)

    def whatif(self, scenario: Scenario | None = None, **changes: Any) -> Prediction:
        """Return the step after a change of the code, by replay.

            report.whatif(drop_syncs="all", pin=True).saving_ms

        The `changes` are the fields of `Scenario`, named as the options of `pinprof whatif`, or a `Scenario` itself.

        Raises TraceError as `predict` does, TypeError for a change that is none of these.
        """
        possible = Scenario.__struct_fields__
        if unknown := [change for change in changes if change not in possible]:
            raise TypeError(f"{', '.join(unknown)}: no such change; there are {', '.join(possible)}")
        return predict(self.analysis.trace, replace(scenario or Scenario(), **changes))

    @cached_property
    def _document(self) -> Document:
        return trace_of(self.profile, self._findings)

    def __str__(self) -> str:
        return trace_to_text(self.profile, self._findings)

    def to_markdown(self, path: str | os.PathLike[str] | None = None, *, force: bool = False) -> str:
        """Return the verdict and three findings as Markdown, and write it to `path`, if given."""
        return self._written(self._contents.markdown(), path, force=force)

    def timeline(self, *, steps: StepRange | None = None, range_ms: MsRange | None = None) -> "go.Figure":
        """Return the timeline as a plotly figure; see `pinprof.timeline`."""
        from pinprof.report.timeline.figure import timeline_figure  # noqa: PLC0415  plotly is slow to load

        return timeline_figure(self.analysis, steps, range_ms)

    @property
    def _contents(self) -> Contents:
        return Contents(
            f"report on {self.profile.path!r}: {counted(len(self.analysis.findings), 'finding')}",
            [self.profile],
            lambda: traces_to_json([(self.profile, self.analysis.findings)]),
            lambda: to_html([self.analysis]),
            lambda: traces_to_markdown([(self.profile, self._findings)]),
        )


def load(
    source: TraceOrUrl | Iterable[str | os.PathLike[str]],
    *,
    machine: str | os.PathLike[str] | None = None,
    rank_from: str | None = None,
    jobs: int | None = None,
) -> Report:
    """Return the report on a trace, its file or URL; for a folder, a pattern or files, the `JobReport` on the ranks.

    `machine` is a file of `pinprof bench --json`: copies that become pinned are predicted at its rates, and the report
    shows what that bench measured of pinning. Ranks are measured by `jobs` processes, by default one for each core;
    `rank_from` is as for `pinprof report`.

    Raises TraceError if the source cannot be read as a trace, or the traces are not the ranks of a job, PinprofError if
    `machine` cannot be used.
    """
    checked_pattern(rank_from)
    pinning = None if machine is None else read_machine(machine)
    if isinstance(source, Trace):
        return Report(analyse(source, pinning))
    sources = [source] if isinstance(source, str | os.PathLike) else source
    if not isinstance(sources, Iterable):
        raise TypeError("a trace is a file, a URL, a folder, files or a Trace")
    files = [path for name in sources for path in trace_files(os.fspath(name))]
    if len(files) == 1:
        return Report(analyse(read_trace(files[0]), pinning))
    measured, skipped = measure_all(files, jobs, pinning)
    if not measured:
        raise TraceError(str(next(iter(skipped.values()), "no traces are given")))
    if len(measured) == 1:
        return Report(analyse(read_trace(measured[0].profile.path), pinning))
    job = job_of(numbered(measured, rank_from))
    reasons = {path: str(error) for path, error in skipped.items()}
    return JobReport(compare_ranks(job.parts, job.remarks), tuple(job.parts), pinning, reasons)


@dataclass(frozen=True, eq=False, repr=False)
class ComparisonReport(ReportObject):
    """Two traces and what changed; prints the text of the command, and shows the page in a notebook."""

    before: Report
    after: Report
    comparison: Comparison
    _title = "pinprof comparison"

    @property
    def verdict(self) -> str:
        """How the step changed, in a sentence; `comparison.verdict` is one word."""
        return verdict(self.comparison)

    @property
    def table(self) -> "pd.DataFrame":
        """The figures before and after, the step first: times in ms."""
        return figures_of(self.comparison)

    def __str__(self) -> str:
        return comparison_to_text(self.comparison)

    @property
    def _contents(self) -> Contents:
        old, new = self.before, self.after
        return Contents(
            f"comparison of {old.profile.path!r} and {new.profile.path!r}: {self.comparison.verdict}",
            [old.profile, new.profile],
            lambda: comparison_to_json(self.comparison),
            lambda: comparison_page.to_html(old.analysis, new.analysis, self.comparison),
        )


def compare(before: TraceOrUrl | Report, after: TraceOrUrl | Report) -> ComparisonReport:
    """Return what changed between two traces, each a file, a URL, a Trace, or the report on one.

    Raises TraceError if a file cannot be read as a trace, PinprofError if one side is a job.
    """
    old, new = (side if isinstance(side, Report) else load(side) for side in (before, after))
    if any(isinstance(side, JobReport) for side in (old, new)):
        raise PinprofError("a comparison is of two traces; of a job take the report on a rank: report.rank(0)")
    return ComparisonReport(old, new, compared(old.analysis, new.analysis))


class JobReport(Report):
    """The ranks of a job side by side, with the report on the shown rank, whose tables and figures it has.

    It prints the text of the command, and shows the page in a notebook. `rank` returns the report on another rank.
    """

    _title = "pinprof report on a job"

    def __init__(
        self, ranks: Ranks, parts: tuple[RankPart, ...], pinning: Pinning | None, skipped: dict[str, str]
    ) -> None:
        self.ranks = ranks
        self.parts = parts
        """The profile and the findings of each rank, by number."""
        self.skipped = skipped
        """Files that could not be measured, with the reason."""
        self._pinning = pinning
        self._shown = next((part for part in parts if rank_of(part) == ranks.shown_rank), parts[0])

    @cached_property
    def analysis(self) -> Analysis:
        """The analysis of the shown rank, whose trace it reads again."""
        return self._analysed(self._shown.profile.path)

    def _analysed(self, path: str) -> Analysis:
        return analyse(read_trace(path), self._pinning)

    @property
    def profile(self) -> Profile:
        """What was measured of the shown rank."""
        return self._shown.profile

    @property
    def _findings(self) -> Findings:
        return self._shown.findings

    def rank(self, number: int) -> Report:
        """Return the report on one rank, whose trace it reads. Raises PinprofError if the job has no such rank."""
        paths = {rank_of(part): part.profile.path for part in self.parts}
        if number not in paths:
            raise PinprofError(f"the job has no rank {number}; it has {', '.join(map(str, paths))}")
        return Report(self._analysed(paths[number]))

    @property
    def verdict(self) -> str:
        """Which rank holds up the others, and by how much, in a sentence."""
        return verdict_line(self.ranks)

    @property
    def table(self) -> "pd.DataFrame":
        """The ranks: the step of each, the step that it would have alone, and its waits, in ms per step."""
        return ranks_of_job(self.ranks)

    def __str__(self) -> str:
        return job_to_text(self.ranks, self.parts) + super().__str__()

    @property
    def _contents(self) -> Contents:
        return Contents(
            f"report on a job: {self.ranks.summary}",
            [part.profile for part in self.parts],
            lambda: traces_to_json([(part.profile, part.findings) for part in self.parts], self.ranks),
            lambda: page_of_files(self.ranks, self.parts, self._analysed),
            lambda: traces_to_markdown([(self.profile, self._findings)], f"{self.verdict}."),
        )


def timeline(
    source: TraceOrUrl | Report, *, steps: StepRange | None = None, range_ms: MsRange | None = None
) -> "go.Figure":
    """Return the timeline of a trace, or of its file or URL, as a plotly figure, which shows itself in a notebook.

        fig = pinprof.timeline("trace.json.gz", steps=(3, 4))
        fig.update_traces(marker_color="teal", selector={"name": "kernel"})

    It is the figure of `pinprof timeline --plotly`: the lanes, colours and texts of the page, a plotly trace for each
    kind of event, copies in their exposed and overlapped parts, and ms from the start of the first step that is drawn.
    By default the figure shows all complete steps, or the first of them that have no more than 20,000 bars, which its
    subtitle says. `steps` is one step, or the first and the last one, by their numbers on the page; the figure also
    shows the GPU work that they launched. `range_ms` is the start and the end in ms since the start of the first step.
    If these have more bars, short events are merged, which the subtitle says. `fig.show(config={"scrollZoom": True})`
    lets the wheel zoom.

    Raises PinprofError if the trace has no such step or the range is empty, TraceError if the source is not a trace.
    """
    return (source if isinstance(source, Report) else load(source)).timeline(steps=steps, range_ms=range_ms)


def profile_step(
    fn: Callable[..., object], *args: Any, steps: int = 5, path: str | os.PathLike[str] | None = None, **options: Any
) -> Report:
    """Return the report on the training step `fn(*args)`, called until the step is timed and `steps` are recorded.

        pinprof.profile_step(train_step, model, batch)

    The `options` are those of `profile()`. Without `path` the trace is removed after it is read. An exception of `fn`
    passes through; the trace at `path` then holds the steps recorded before it, if any.

    Raises CaptureError as `profile()` does.
    """
    from pinprof.capture.window.recording import profile  # noqa: PLC0415  loads torch, which reading does not need

    def record(file: Path) -> Path:
        with profile(file, **{"on_progress": _say_window, **options, "steps": steps}) as recording:
            while not recording.done:
                fn(*args)
                recording.step()
        return recording.path

    if path is not None:
        return load(record(Path(path)))
    with tempfile.TemporaryDirectory(prefix="pinprof-") as folder:
        trace = read_trace(record(Path(folder) / "trace.json"))
    return load(with_fields(trace, path=getattr(fn, "__qualname__", type(fn).__name__)))


def _say_window(window: str, step: int, of: int) -> None:
    """Name each window on the terminal as it begins; a line per step would cost the step time."""
    if step == 1 and is_terminal(sys.stderr):
        print(f"pinprof: {window} ({counted(of, 'step')})", file=sys.stderr)  # noqa: T201
