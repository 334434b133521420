"""`pinprof report`, `timeline` and `export`: what a trace shows, as a report, as a page, and in Perfetto."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias, cast

import click

from pinprof.cli import inputs, terminal
from pinprof.ground.errors import PinprofError, TraceError
from pinprof.ground.urls import STANDARD_INPUT, redacted, shown

if TYPE_CHECKING:
    from pinprof.analysis import Analysis
    from pinprof.hta.breakdowns import Breakdown
    from pinprof.ranks.rank import RankPart, Ranks
    from pinprof.report.source import Code

    HtaFigures: TypeAlias = dict[str, Breakdown]
    """HTA's figures on traces, by the paths that the report shows."""

LONGEST_TRACE_LIST_CHARS = 60
"""Characters: a command names several traces if their names are no longer than this together, else only the first."""
EXPORT_GZIP_LEVEL = 2
"""Of isal's levels 0 to 3, the best that still packs faster than Perfetto unpacks."""


@click.command(short_help="Say why a recorded step is slow, and what to change.")
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path())
@terminal.json_option("the report")
@click.option("--brief", is_flag=True, help="With --json: only what to know and to do, in at most 6 kB.")
@click.option(
    "--html",
    "html_file",
    metavar="FILE",
    help=f"Also write a page with charts and an interactive timeline. {inputs.EDITOR_VARIABLE} names the editor that "
    "its places open in: vscode, cursor, zed, pycharm, ..., or a template.",
)
@click.option("--md", "md_file", metavar="FILE", help="Also write verdict and findings as Markdown for a pull request.")
@inputs.NO_SOURCE
@click.option("--hta", "with_hta", is_flag=True, help="Add the breakdowns of HolisticTraceAnalysis, to the JSON too.")
@click.option(
    "--full",
    "is_full",
    is_flag=True,
    help="Print the tables: the step, copies, waits, idle time, kernels, ops; at most the "
    f"{inputs.FULL_TABLE_ROWS} largest rows of each.",
)
@inputs.machine_option
@click.option(
    "--rank-from",
    metavar="PATTERN",
    help="Regular expression whose group is the rank in a trace's path, or 'order' to number the files in their order  "
    "[the recorded rank, else the number after rank or worker in the path].",
)
@click.option("--jobs", metavar="N", type=click.IntRange(min=1), help="Processes that measure traces [one per core].")
@terminal.force_option
def report(
    traces: tuple[str, ...], *, no_source: bool, machine: inputs.MachineFile | None, force: bool, **options: Any
) -> None:
    """Say why the step of a trace is slow, and what to change.

    TRACE is a Kineto (Chrome) trace, .json, .json.gz or .json.zst: a file, a URL (s3://, gs://, https://), - for
    standard input, or a folder or a quoted pattern. The report says in a few lines why the step is slow, where its time
    goes, and what to change; --full prints the tables, with the 15 largest rows of each; the JSON has all rows.

    If several traces are the ranks of one job, pinprof compares them: which rank holds up the others, by how much, and
    why. The report on that rank follows. If a folder holds several runs, it reports on the last of those with the most
    ranks. Traces that are not of one job have a line each: the step, what limits it, the first change, and what that
    saves; --full prints their reports one after the other. pinprof names and skips files that it cannot read.

    \b
    Examples:
      pinprof report trace.json.gz
      pinprof report 's3://bucket/run/*.json.gz'
      ssh host cat trace.json.gz | pinprof report -
      pinprof report trace.json.gz --html report.html
      pinprof report trace.json.gz --json | jq '.traces[0].overlap'
      pinprof report trace.json.gz --md - | gh pr comment --body-file -
      pinprof report run/ --html job.html --json job.json
    """  # noqa: D301  click looks for the backspace itself
    code, again = inputs.code_of(quotes=not no_source), _arguments(traces, machine)
    wanted = _Wanted(code=code, machine=machine, again=again, **options)
    if wanted.brief and not wanted.json_file:
        terminal.fail("--brief is about the JSON; add --json")
    if wanted.brief and wanted.with_hta:
        terminal.fail("--brief has no room for HTA's figures; leave out --hta or --brief")
    files = (wanted.json_file, wanted.html_file, wanted.md_file)
    terminal.check_outputs(files, force=force, reads=(*traces, machine and machine.path))
    arguments = inputs.expanded(traces)
    paths = [path for argument in arguments for path in argument.files]
    if len(paths) > 1 and STANDARD_INPUT not in paths:
        _report_several(paths, wanted)
    else:
        hta = hta_of(paths) if wanted.with_hta else {}
        analyses = list(inputs.read_all(arguments, inputs.analysing(machine)))
        _report_each(analyses, lambda: analyses, hta, wanted)
        if wanted.rank_from is not None:
            terminal.say("--rank-from: no effect, as a job has several files")
    terminal.say_written(wanted.files)
    if wanted.is_full and not wanted.files and STANDARD_INPUT not in paths:  # which can be read once
        terminal.say(f"Next: pinprof report {wanted.again} --html report.html")


def _arguments(traces: Sequence[str], machine: inputs.MachineFile | None) -> str:
    """Return the arguments of `pinprof report` for the same report, without the secrets of URLs."""
    named = shlex.join(traces)
    if len(traces) > 1 and len(named) > LONGEST_TRACE_LIST_CHARS:
        named = f"{shlex.join(traces[:1])} ..."
    return redacted(named + (machine.words if machine else ""))


class _Wanted(NamedTuple):
    """The outputs that the user asked for, and how much each has."""

    json_file: str | None
    html_file: str | None
    md_file: str | None
    code: "Code"
    with_hta: bool
    machine: inputs.MachineFile | None
    is_full: bool
    brief: bool
    rank_from: str | None
    jobs: int | None
    again: str

    @property
    def files(self) -> list[str]:
        """The files to write."""
        return [file for file in (self.json_file, self.html_file, self.md_file) if file]

    @property
    def prints_text(self) -> bool:
        """Whether standard output is free for the text."""
        return "-" not in self.files

    def write_figures(
        self,
        measured: "Sequence[Analysis | RankPart]",
        hta: "HtaFigures",
        ranks: "Ranks | None" = None,
        shown: int | None = None,
    ) -> None:
        """Print HTA's figures; write JSON and Markdown, as wanted. `shown` is the index of a job's rank to look at."""
        if hta and self.prints_text:
            from pinprof.report.trace.hta import hta_to_text

            terminal.show_text(hta_to_text, list(hta.values()), end="\n")
        entries = [(part.profile, part.findings) for part in measured]
        if self.json_file:
            from pinprof.report.trace.brief_json import traces_to_brief_json
            from pinprof.report.trace.json import traces_to_json

            text = traces_to_json(entries, ranks, hta)
            if self.brief:
                text = traces_to_brief_json(entries, ranks, self.code, shown)
            terminal.write(self.json_file, text, is_said=False)
        if self.md_file:
            from pinprof.report.job.view import verdict_line
            from pinprof.report.trace.markdown import traces_to_markdown

            headline = f"{verdict_line(ranks)}." if ranks else ""
            text = traces_to_markdown(entries if shown is None else [entries[shown]], headline, self.code)
            terminal.write(self.md_file, text, is_said=False)

    def has_overview(self, traces: int) -> bool:
        """Return whether the text of traces that are no job is a line for each."""
        return traces > 1 and self.prints_text and not self.is_full

    def print(self, part: "Analysis | RankPart", again: str) -> None:
        """Print the report on one trace; `again` is as for `to_brief`."""
        inputs.print_report(part, self.code, is_full=self.is_full, again=again, has_page=bool(self.html_file))


def _report_several(files: Sequence[str], wanted: _Wanted) -> None:
    from pinprof.ranks.runs import checked_pattern, job_of, numbered

    checked_pattern(wanted.rank_from)
    measured, skipped = inputs.measured_ranks(files, wanted.jobs, wanted.machine)
    try:
        job = job_of(numbered(measured, wanted.rank_from))
    except TraceError as error:
        if wanted.rank_from:
            raise
        terminal.say(f"Not the ranks of one job: {error}")
    else:
        inputs.say_skipped(skipped)
        _report_job(job.parts, job.remarks, wanted)
        return
    if not wanted.has_overview(len(measured)):
        inputs.say_skipped(skipped)
    hta = hta_of([part.file for part in measured]) if wanted.with_hta else {}
    _report_each(measured, lambda: [_read_again(part.file, wanted.machine) for part in measured], hta, wanted, skipped)


def _report_each(
    measured: "Sequence[Analysis | RankPart]",
    analyses: "Callable[[], Sequence[Analysis]]",
    hta: "HtaFigures",
    wanted: _Wanted,
    skipped: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Report on traces that are not a job; `analyses` returns them with their rows, which only the page needs."""
    if wanted.has_overview(len(measured)):
        from pinprof.report.trace_list import overview_to_text

        reasons = {shown(path): reason for path, reason in skipped.items()}
        terminal.show_text(overview_to_text, measured, reasons, wanted.again, end="\n")
    elif wanted.prints_text:
        for part in measured:
            wanted.print(part, wanted.again if len(measured) == 1 else "")
    wanted.write_figures(measured, hta)
    if wanted.html_file:
        inputs.write_page(wanted.html_file, analyses(), wanted.code)


def _report_job(parts: "Sequence[RankPart]", remarks: list[str], wanted: _Wanted) -> None:
    from pinprof.ranks.compare import compare_ranks
    from pinprof.ranks.rank import number_of
    from pinprof.report.job.text import job_to_text, to_brief

    ranks = compare_ranks(parts, remarks)
    for remark in () if wanted.prints_text else remarks:
        terminal.say(remark)
    numbers = [number_of(part, index) for index, part in enumerate(parts)]
    index = numbers.index(ranks.shown_rank)
    hta = hta_of([part.file for part in parts], numbers) if wanted.with_hta else {}
    if wanted.prints_text:
        terminal.show_text(job_to_text if wanted.is_full else to_brief, ranks, parts, end="\n")
        wanted.print(parts[index], wanted.again)
    wanted.write_figures(parts, hta, ranks, index)
    if wanted.html_file:
        from pinprof.report.job.page import files_to_draw, to_html

        others = {rank: _read_again(path, wanted.machine) for rank, path in files_to_draw(ranks, parts).items()}
        slowest = others.pop(ranks.shown_rank)
        with terminal.progress("drawing the page"):
            page = to_html(ranks, parts, slowest, wanted.code, others=others)
        terminal.write(wanted.html_file, page, is_said=False)


def hta_of(files: Sequence[str], ranks: Sequence[int] = ()) -> "HtaFigures":
    """Return HTA's figures on each file that is a trace; without `ranks` it finds their ranks itself."""
    from pinprof.hta.breakdowns import breakdown_of

    figures = {}
    for number, path in enumerate(files):
        if path == STANDARD_INPUT:
            terminal.fail("--hta reads a trace twice, and standard input can be read once; name a file")
        with terminal.progress(f"asking HTA about {PurePath(shown(path)).name} ({number + 1} of {len(files)})"):
            try:
                figures[shown(path)] = breakdown_of(path, ranks[number] if ranks else None)
            except TraceError:
                continue
    return figures


def _read_again(path: str, machine: inputs.MachineFile | None) -> "Analysis":
    """Return a trace with its rows, which a page needs and measuring several traces does not keep."""
    from pinprof.analysis import analyse

    return inputs.read(path, lambda trace, on_replay: analyse(trace, machine and machine.pinning, on_replay))


@click.command(short_help="Draw the interactive timeline of a trace.")
@click.argument("trace", type=click.Path())
@click.option("-o", "output", metavar="FILE", required=True, help="The page to write; - is standard output.")
@click.option("--plotly", is_flag=True, help="Draw the complete steps as a plotly figure, up to 20,000 bars.")
@terminal.force_option
def timeline(trace: str, output: str, *, plotly: bool, force: bool) -> None:
    """Draw the interactive timeline of a trace: host threads above, GPU streams below.

    TRACE is one trace, a file, a URL or - for standard input, as for pinprof report. By default the page has all
    events, up to a million; keys, search and sums of a selection work as in Perfetto. With --plotly it has a plotly
    figure of the complete steps, the first that fit into 20,000 bars: each copy in its overlapped and exposed parts,
    the waits of the host by cause, and a button for each step. Both are one file that needs no network.

    \b
    Examples:
      pinprof timeline trace.json.gz -o timeline.html
      pinprof timeline trace.json.gz -o timeline.html --plotly
    """  # noqa: D301  click looks for the backspace itself
    if plotly:
        from pinprof.report.timeline.figure import timeline_page
    else:
        from pinprof.report.trace.page import timeline_page

    terminal.check_outputs((output,), force=force, reads=(trace,))
    analysis = inputs.read(inputs.one_trace(trace), inputs.analysing())
    with terminal.progress("drawing the timeline"):
        page = timeline_page(analysis)
    terminal.write(output, page)


@click.command(short_help="Write a trace again with pinprof's own tracks, for Perfetto.")
@click.argument("trace", type=click.Path())
@click.option("-o", "output", metavar="FILE", required=True, help="The trace to write: .json.gz, .json or -.")
@terminal.force_option
def export(trace: str, output: str, *, force: bool) -> None:
    """Write the trace again with pinprof's own tracks, to look at in Perfetto.

    Drop the file on https://ui.perfetto.dev, which uploads nothing. The process "pinprof" is at the top:

    \b
      stalls     of each host thread, by cause, with the line and what the host waited for
      idle       all idle time of the GPU, by cause
      exposed    copies during which no kernel runs, with the reason

    The bytes of the trace itself stay as they are. pinprof leaves out a track if the trace lacks what it shows, and
    says so. TRACE is one trace, a file, a URL or - for standard input, as for pinprof report.

    \b
    Examples:
      pinprof export trace.json.gz -o annotated.json.gz
      pinprof export s3://bucket/trace.json.gz -o - | jq '.traceEvents | length'
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.trace.files import readable_twice

    terminal.check_outputs((output,), force=force, reads=(trace,))
    if output.lower().endswith(".zst"):
        terminal.fail(f"{output}: Perfetto cannot open zstd; name it .json.gz or .json")
    path = inputs.one_trace(trace)
    with readable_twice(path) as file:
        _export(file, shown(path), output)
    if output != "-":
        terminal.say(f"Wrote {output}")
        terminal.say("Next: open https://ui.perfetto.dev and drop the file on it; nothing is uploaded")


def _export(file: str, name: str, output: str) -> None:
    from pinprof.analysis import analyse
    from pinprof.report.perfetto import SLICE_CATEGORY, events, notes
    from pinprof.report.words import capitalized
    from pinprof.trace import read_trace
    from pinprof.trace.files import open_trace
    from pinprof.trace.reader.append import with_events
    from pinprof.trace.reader.unpack import Unpacked

    sentences: list[str] = []
    try:
        with terminal.progress(f"reading {Path(name).name}") as update:
            trace = replace(read_trace(file), path=name)
            if trace.counts.get(SLICE_CATEGORY):
                terminal.fail(f"{name}: already has pinprof's tracks; export the original trace")
            update(f"measuring {Path(name).name}")
            analysis = analyse(trace, None, lambda: update(f"replaying {Path(name).name}"))
            sentences += map(capitalized, notes(analysis))
        with open_trace(file) as stream, terminal.progress(f"writing {Path(output).name}"):
            ends_early = "The trace ends too early: the export stops after its last complete event"
            text = with_events(Unpacked(stream), events(analysis), lambda: sentences.append(ends_early))
            _write_text(text, output)
    except TraceError as error:
        raise TraceError(f"{name}: {str(error).removeprefix(f'{file}: ')}") from error  # a copy has another name
    for sentence in sentences:
        terminal.say(sentence)


def _write_text(text: Iterable[bytes], output: str) -> None:
    """Write a text whole or not at all, packed if the name says so; to standard output as it is."""
    from isal import igzip

    from pinprof.ground.outputs import opened

    if output == "-":
        for piece in text:
            terminal.show(piece)
        return
    options = {"mode": "wb", "compresslevel": EXPORT_GZIP_LEVEL, "mtime": 0}
    is_packed = output.lower().endswith(".gz")
    try:
        with (
            opened(Path(output)) as plain,
            igzip.IGzipFile("", fileobj=plain, **options) if is_packed else nullcontext(plain) as file,
        ):
            cast("BinaryIO", file).writelines(text)
    except OSError as error:
        raise PinprofError(f"{output}: cannot be written ({error.strerror or error})") from error
