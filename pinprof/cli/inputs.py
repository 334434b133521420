"""What commands on traces share: options, and how they read, measure and report on the traces that they are given."""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import click
from click.core import ParameterSource

from pinprof.cli.terminal import fail, progress, say, show_text, write
from pinprof.ground.errors import TraceError
from pinprof.ground.host_time import HOST_TIME
from pinprof.ground.urls import STANDARD_INPUT, shown

if TYPE_CHECKING:
    from pinprof.analysis import Analysis
    from pinprof.prediction.pinning import Pinning
    from pinprof.ranks.rank import RankPart
    from pinprof.report.source import Code
    from pinprof.trace import Trace
    from pinprof.trace.metadata.info import Info

EDITOR_VARIABLE, MACHINE_VARIABLE = "PINPROF_EDITOR", "PINPROF_MACHINE"

NO_SOURCE = click.option("--no-source", is_flag=True, help="Quote no lines of your code: to share the report.")


def code_of(*, quotes: bool = True) -> "Code":
    """Return how pages show code, with the editor of the environment. Raises PinprofError if that is unknown."""
    from pinprof.report.source import Code, editor_of

    return Code(quotes, editor_of(os.environ.get(EDITOR_VARIABLE, "")))


class MachineFile(NamedTuple):
    """A file of `pinprof bench --json`, and what it says about pinned memory."""

    path: str
    pinning: "Pinning"
    is_default: bool
    """Whether the environment names it, not an option: then commands that do not need it ignore it."""

    @property
    def words(self) -> str:
        """The option that names it, to append to a command."""
        return f" --machine {shlex.quote(self.path)}"


def _read_machine(context: click.Context, option: click.Parameter, path: str | None) -> MachineFile | None:
    if path is None:
        return None
    from pinprof.bench.advice import read_machine
    from pinprof.bench.results import BenchError

    is_default = context.get_parameter_source(option.name or "") is ParameterSource.ENVIRONMENT
    try:
        return MachineFile(path, read_machine(path), is_default)
    except BenchError as error:
        fail(f"{MACHINE_VARIABLE}: {error}" if is_default else str(error))


machine_option = click.option(
    "--machine",
    metavar="BENCH.json",
    envvar=MACHINE_VARIABLE,
    show_envvar=True,
    type=click.Path(),
    callback=_read_machine,
    help="A file of pinprof bench --json: the rate of copies that become pinned, and whether pinning pays.",
)


def say_if_of_other_gpu(machine: MachineFile | None, traces: "Iterable[Info]") -> None:
    """Warn if the bench was measured on another GPU than the traces."""
    names = sorted({device.name for info in traces for device in info.devices if device.name})
    if machine and names and (gpu := machine.pinning.rates.gpu) not in names:
        say(f"Note: {machine.path} was measured on {gpu}, the trace is of {' and '.join(names)}")


Result = TypeVar("Result")
Analyzer: TypeAlias = "Callable[[Trace, Callable[[], None]], Result]"
"""A function of a trace; it calls its second argument when all is measured, before steps are replayed."""
FULL_TABLE_ROWS = 15


def read(path: str, analyze: "Analyzer[Result]", which: str = "") -> Result:
    """Read a trace, and return what `analyze` returns; `which` says in the progress which file of several it is."""
    from pinprof.ground.processes import without_collections
    from pinprof.trace import read_trace

    name = f"{PurePath(shown(path)).name}{which}"
    with without_collections(), progress(f"reading {name}") as update:
        trace = read_trace(path)
        update(f"measuring {name}")
        return analyze(trace, lambda: update(f"replaying {name}"))


def analysing(machine: MachineFile | None = None) -> "Analyzer[Analysis]":
    """Return the analysis for `read` and `read_all`, with the user's bench."""
    from pinprof.analysis import analyse

    def analysed(trace: "Trace", on_replay: "Callable[[], None]") -> "Analysis":
        say_if_of_other_gpu(machine, [trace.info])
        return analyse(trace, machine and machine.pinning, on_replay)

    return analysed


class Argument(NamedTuple):
    """An argument of the command line, and the files that it stands for."""

    text: str
    files: list[str]

    @property
    def is_file(self) -> bool:
        """Whether it names a file, and not a folder or a pattern, whose other files are skipped."""
        return self.files == [self.text]


def expanded(arguments: Sequence[str]) -> list[Argument]:
    """Return the arguments with their files. A remote folder is listed only here, once."""
    from pinprof.trace.files import trace_files

    refuse_two_inputs(arguments)
    return [Argument(text, trace_files(text)) for text in arguments]


def read_all(arguments: Sequence[Argument], analyze: "Analyzer[Result]") -> Iterator[Result]:
    """Yield what `analyze` returns of each trace; name and skip files of a folder or a pattern that are not traces."""
    for argument in arguments:
        usable = 0
        for _, outcome in _outcomes(argument, analyze):
            if isinstance(outcome, TraceError):
                if argument.is_file:
                    raise outcome
                say(f"Skipped: {outcome}")
                continue
            usable += 1
            yield outcome
        if not usable:
            raise TraceError(f"{shown(argument.text)}: none of the files here is a trace")


def each_outcome(arguments: Sequence[str], analyze: "Analyzer[Result]") -> "Iterator[tuple[str, Result | TraceError]]":
    """Yield the name of each trace with what `analyze` returns of it, or with the reason why it cannot be read."""
    from pinprof.trace.files import trace_files

    refuse_two_inputs(arguments)
    for text in arguments:
        try:
            argument = Argument(text, trace_files(text))
        except TraceError as error:
            yield shown(text), error
            continue
        yield from _outcomes(argument, analyze)


def _outcomes(argument: Argument, analyze: "Analyzer[Result]") -> "Iterator[tuple[str, Result | TraceError]]":
    for number, path in enumerate(argument.files, start=1):
        outcome: Result | TraceError
        try:
            outcome = read(path, analyze, "" if argument.is_file else f" ({number} of {len(argument.files)})")
        except TraceError as error:
            outcome = error
        yield shown(path), outcome


def refuse_two_inputs(arguments: Sequence[str]) -> None:
    """Refuse arguments if several are standard input."""
    if list(arguments).count(STANDARD_INPUT) > 1:
        fail("standard input can be read once; name the other traces")


def measured_ranks(
    paths: Sequence[str], jobs: int | None, machine: MachineFile | None
) -> "tuple[list[RankPart], dict[str, str]]":
    """Return what `jobs` processes measure of the traces; and, by path, why a file was skipped. Raises TraceError."""
    from pinprof.trace_pool import measure_all

    with progress(f"measuring {len(paths)} traces") as update:
        begin = HOST_TIME.monotonic()

        def on_measured(done: int, _: object) -> None:
            left_s = (HOST_TIME.monotonic() - begin) / done * (len(paths) - done)
            update(f"measuring: {done} of {len(paths)} traces, about {left_s:,.0f} s left")

        measured, errors = measure_all(paths, jobs, machine and machine.pinning, on_measured)
    skipped = {path: str(errors[path]) for path in paths if path in errors}
    if not measured:
        say_skipped(skipped)
        raise TraceError(f"{shown(paths[0])}: neither this nor any of the {len(paths) - 1} other files is a trace")
    say_if_of_other_gpu(machine, (part.profile.info for part in measured))
    return measured, skipped


def say_skipped(skipped: Mapping[str, str]) -> None:
    """Name files that are not traces, with the reason."""
    for reason in skipped.values():
        say(f"Skipped: {reason}")


def one_trace(argument: str) -> str:
    """Return the file of an argument that must stand for one trace."""
    from pinprof.trace.files import trace_files

    paths = trace_files(argument)
    if len(paths) > 1:
        fail(f"{shown(argument)}: has {len(paths)} traces, and this command takes one; name it, e.g. {shown(paths[0])}")
    return paths[0]


def print_report(
    measured: "Analysis | RankPart",
    code: "Code",
    *,
    is_full: bool = False,
    again: str = "",
    has_page: bool = False,
) -> None:
    """Print the report on a trace, with its tables if `is_full`. `again` is `report_arguments` of `to_brief`."""
    from pinprof.report.trace.text import to_brief, trace_to_text

    entry = measured.profile, measured.findings
    if is_full:
        show_text(trace_to_text, *entry, rows=FULL_TABLE_ROWS, end="\n")
    else:
        show_text(to_brief, *entry, code=code, report_arguments=again, has_page=has_page, end="\n")


def write_page(path: str, measured: "Sequence[Analysis]", code: "Code") -> None:
    """Write the page on the traces."""
    from pinprof.ground.processes import without_collections
    from pinprof.report.trace.page import to_html

    with without_collections(), progress("drawing the page"):
        page = to_html(measured, code)
    write(path, page, is_said=False)
