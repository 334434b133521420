"""`pinprof bench`, `workload` and `doctor`: all experiments on this machine, one of them, and what is installed."""

import platform
import re
import shlex
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pinprof.cli import terminal
from pinprof.ground.errors import CaptureError
from pinprof.ground.packages import PACKAGES
from pinprof.version import VERSION

if TYPE_CHECKING:
    from pinprof.bench.experiment import Experiment, Size
    from pinprof.bench.results import Bench

CASE_TIMEOUT_S = 300.0
RECORDED_CASE_SUFFIXES = (".json.gz", ".json")
PACKAGE_NAME_COLUMNS = 22


@click.command(short_help="Measure what copies to the GPU cost here, and which advice holds.")
@click.option("--only", metavar="LIST", help="Run only these, by number or name: E1,E4 or copy_overlap.")
@click.option("--quick", is_flag=True, help="Run smaller sizes in one round: faster, with a less reliable spread.")
@click.option("--rates", is_flag=True, help="Measure only what predictions use, in half a minute.")
@terminal.json_option("the results")
@click.option("--html", "html_file", metavar="FILE", help="Also write a page.")
@terminal.force_option
def bench(
    only: str | None, json_file: str | None, html_file: str | None, *, quick: bool, rates: bool, force: bool
) -> None:
    """Check published claims about copies with fifteen experiments on this machine's GPU.

    pinprof times each experiment repeatedly after a warm-up, in up to seven rounds, each in a new process; then it
    records some as traces. If one fails, the others still run. On an H100 all take about five minutes, or 70 to 85
    seconds with --quick. They need torch with CUDA and a GPU that nothing else uses. Without one, pinprof shows the
    recorded result of an H100, writes no file, and exits with 2.

    \b
    Examples:
      pinprof bench
      pinprof bench --json bench.json --html bench.html
      pinprof bench --rates --json rates.json  # for pinprof report --machine rates.json
      pinprof workload --list                # what the experiments are
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.bench import EXPERIMENTS, experiment_of
    from pinprof.bench.catalogue.bandwidth import RATES

    if rates and (only is not None or quick):
        terminal.fail("--rates measures what predictions use, and no experiment: leave out --only and --quick")
    chosen = [experiment_of(name) for name in only.split(",")] if only is not None else list(EXPERIMENTS)
    chosen = [RATES] if rates else chosen
    if len({experiment.number for experiment in chosen}) < len(chosen):
        terminal.fail(f"--only {only}: names an experiment twice")
    terminal.check_outputs((json_file, html_file), force=force)
    need_gpu(chosen, to_people="-" not in (json_file, html_file))
    results = measured(chosen, quick=quick)
    if "-" not in (json_file, html_file):
        print_bench(results)
    if json_file:
        from pinprof.report.bench import bench_to_json

        terminal.write(json_file, bench_to_json(results))
    if html_file:
        from pinprof.report.bench import to_html

        with terminal.progress("drawing the page"):
            page = to_html(results)
        terminal.write(html_file, page)
    if not json_file and not html_file:
        terminal.say("Next: pinprof bench --json bench.json --html bench.html")
    if not any(result.figures for result in results.results):
        terminal.fail("none of the experiments gave a figure")


def measured(experiments: Sequence["Experiment"], *, quick: bool) -> "Bench":
    """Return what the experiments measure on this machine."""
    from pinprof.bench.runner import run_bench

    with terminal.progress("starting the GPU") as update:

        def on_progress(place: str, experiment: "Experiment", last: str) -> None:
            update(f"{experiment.number} {experiment.name} ({place})" + (f": {last}" if last else ""))

        return run_bench(experiments, quick=quick, on_progress=on_progress)


def print_bench(bench: "Bench", *, recorded: bool = False) -> None:
    """Print the figures, as wide as the terminal; `recorded` marks the figures that pinprof ships."""
    from pinprof.report.bench import bench_to_text

    width, color = terminal.page_options()
    terminal.show(bench_to_text(bench, width=width, color=color, recorded=recorded))


def need_gpu(experiments: Sequence["Experiment"], *, to_people: bool = True) -> None:
    """Without a GPU, print the recorded figures of another machine, marked as such, and exit as for unusable input."""
    from msgspec.structs import replace

    from pinprof.bench.results import BenchError, recorded
    from pinprof.gpu import why_no_gpu

    why = why_no_gpu()
    if why is None:
        return
    if to_people:
        with suppress(BenchError):  # the missing GPU is the error to report
            bench, numbers = recorded(), {experiment.number for experiment in experiments}
            shown = [result for result in bench.results if result.number in numbers]
            print_bench(replace(bench, results=shown), recorded=True)
    terminal.fail(f"nothing was measured: {why}")


class Experiments(click.Group):
    """The experiments as commands, by name or number."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's own signature
        """Return the numbers, in order."""
        from pinprof.bench import EXPERIMENTS

        return [experiment.number for experiment in EXPERIMENTS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:  # noqa: ARG002
        """Return the command of an experiment. Raises UnknownExperimentError."""
        from pinprof.bench import experiment_of

        return _command(experiment_of(cmd_name))


@click.group(
    cls=Experiments,
    invoke_without_command=True,
    subcommand_metavar="NAME [OPTIONS]",
    short_help="Run or record one experiment.",
)
@click.option("--list", "listed", is_flag=True, help="List the experiments, one line each.")
@click.pass_context
def workload(context: click.Context, *, listed: bool) -> None:
    """Run one of the experiments by its NAME or number and print its figures, or record its cases as traces.

    Each is a module of pinprof/bench. `pinprof workload NAME --help` says what one does, what its text
    claims, and which sizes it takes.

    \b
    Examples:
      pinprof workload --list
      pinprof workload copy_overlap --record e4.json.gz
      pinprof report e4.side-stream-pinned.json.gz
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.bench import EXPERIMENTS

    if listed:
        width = max(len(experiment.name) for experiment in EXPERIMENTS)
        for experiment in EXPERIMENTS:
            terminal.show(f"{experiment.number:<4} {experiment.name:<{width}}  {experiment.summary}\n")
    elif context.invoked_subcommand is None:
        terminal.fail("name an experiment; pinprof workload --list lists them")


def _command(experiment: "Experiment") -> click.Command:
    options = [
        click.Option(["--record"], metavar="FILE", help="Record each case as a trace, with the case in its name."),
        click.Option(["--quick"], is_flag=True, help="Run smaller sizes in fewer rounds."),
        click.Option(["--force"], is_flag=True, help="Overwrite output files that exist."),
    ]
    return click.Command(
        experiment.name,
        params=[*map(_option, experiment.sizes), *options],
        callback=lambda **chosen: _run_experiment(experiment, **chosen),
        help=_help(experiment),
        short_help=experiment.summary,
    )


def _option(size: "Size") -> click.Option:
    return click.Option(
        [f"--{size.name}"],
        type=click.IntRange(min=1),
        help=f"{size.means[:1].upper()}{size.means[1:]}.  [default: {size.default}"
        + (f", with --quick {size.quick}]" if size.quick else "]"),
    )


def _help(experiment: "Experiment") -> str:
    figures = "; ".join(f"{figure.name} {value:g}" for figure, value in (experiment.published or {}).items())
    parts = (
        f"{experiment.number}: {experiment.summary}.",
        *(f"Claim ({claim.sources}): {claim.text}." for claim in experiment.claims),
        f"Published: {figures}." if figures else "",
        f"Different from the text: {experiment.changed}." if experiment.changed else "",
        f"Cases that --record records: {'; '.join(case.name for case in experiment.cases)}.",
    )
    return "\n\n".join(filter(None, parts))


def _run_experiment(
    experiment: "Experiment", *, record: str | None, quick: bool, force: bool, **sizes: int | None
) -> None:
    chosen = experiment.resized({name: value for name, value in sizes.items() if value is not None})
    files = [_case_file(record, case.name) for case in chosen.cases] if record is not None else []
    traces = [str(trace) for file in files for trace in chosen.traces(file)]
    terminal.check_outputs(traces, force=force)
    need_gpu([experiment])
    if record is None:
        print_bench(measured([chosen], quick=quick))
        terminal.say(f"Next: pinprof workload {experiment.number} --record {experiment.name}.json.gz")
        return
    for number, file in enumerate(files):
        _record(chosen, number, file, quick=quick)
    terminal.say(f"Next: pinprof report {shlex.quote(traces[-1])}")


def _case_file(record: str, case: str) -> Path:
    """Return the file for the trace of a case: the name of the case, made safe for file names, precedes the suffix."""
    suffix = next((suffix for suffix in RECORDED_CASE_SUFFIXES if record.endswith(suffix)), None)
    if suffix is None:
        terminal.fail(f"{record}: a trace's name must end in {' or '.join(RECORDED_CASE_SUFFIXES)}")
    slug = re.sub(r"[^a-z0-9_]+", "-", case.lower()).strip("-")
    return Path(f"{record.removesuffix(suffix)}.{slug}{suffix}")


def _record(experiment: "Experiment", case: int, file: Path, *, quick: bool) -> None:
    """Record a case in a new process: a process that has recorded one cannot time the next."""
    from pinprof.bench.runner import OtherProcess, OtherProcessError, recorded_case

    name = experiment.cases[case].name
    with terminal.progress(f"recording {experiment.number}: {name}"), closing(OtherProcess()) as process:
        arguments = experiment.name, experiment.defaults(quick=quick), case, str(file.absolute())
        try:
            list(process.call(recorded_case, *arguments, timeout_s=CASE_TIMEOUT_S))
        except OtherProcessError as error:
            raise CaptureError(f"{experiment.number}, {name}: {error}") from error
    for trace in experiment.traces(file):
        terminal.say(f"Wrote {trace}")


@click.command(short_help="Say what is installed here, what is missing, and what each is for.")
def doctor() -> None:
    """Say which packages are installed, what each missing one is for, and whether torch and the GPU's driver fit.

    On a machine with a GPU it records one small kernel, which shows whether torch's profiler works there. Reading and
    reporting need neither torch nor HTA: `pip install --no-deps pinprof`, with pinprof/reading.txt for the rest.

    \b
    Examples:
      pinprof doctor
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.gpu import gpu_of_torch, why_no_gpu

    system = f"{platform.system()} {platform.machine()}"
    terminal.show(f"pinprof {VERSION} on Python {platform.python_version()}, {system}\n")
    for title, is_extra in (("With pinprof", False), ("By its extras", True)):
        terminal.show(f"\n{title}\n")
        for package in PACKAGES:
            if package.is_needed and bool(package.extra) == is_extra:
                state = package.version or f"missing, for {package.use.replace('`', '')}: {package.install}"
                terminal.show(f"  {package.name:{PACKAGE_NAME_COLUMNS}} {state}\n")
    terminal.show(f"\nGPU\n  {why_no_gpu() or gpu_of_torch()}\n")
