"""`pinprof bench`: the seed experiments on this machine, their progress, and what there is to show without a GPU."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from pinprof.bench.catalogue import EXPERIMENTS, experiment
from pinprof.bench.experiment import Experiment
from pinprof.cli.terminal import (
    check_outputs,
    fail,
    force_option,
    json_option,
    page_options,
    progress,
    say,
    show,
    write,
)

if TYPE_CHECKING:
    from pinprof.bench.results import Bench
    from pinprof.workloads.runner import OnProgress

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415


@click.command(short_help="Check published claims about copies to the GPU on this machine.")
@click.option("--only", metavar="LIST", help="Run only these, by number or name: E1,E4 or copy_overlap.")
@click.option(
    "--quick",
    is_flag=True,
    help="Run smaller sizes in one round: in a quarter of the time, but with a less reliable spread.",
)
@json_option("the results")
@click.option("--html", "html_file", metavar="FILE", help="Also write a page with charts.")
@force_option
def bench(only: str | None, json_file: str | None, html_file: str | None, *, quick: bool, force: bool) -> None:
    """Check published claims about copies with fifteen experiments on this machine's GPU.

    pinprof times each experiment repeatedly after a warm-up, in up to seven rounds, each in a new process; then it
    records some as traces. If one fails, the others still run. On an H100 all take about five minutes, or 70 to 85
    seconds with --quick. They need torch with CUDA and a GPU that nothing else uses. Without one, pinprof shows the
    recorded result of an H100, writes no file, and exits with 2.

    \b
    Examples:
      pinprof bench
      pinprof bench --quick --only E1,E4
      pinprof bench --json bench.json --html bench.html
      pinprof bench --only copy_overlap --json | jq '.results[0].figures'
      pinprof workload --list                # what the experiments are
    """  # noqa: D301  click looks for the backspace itself
    chosen = [experiment(name) for name in only.split(",")] if only is not None else list(EXPERIMENTS)
    if len(set(chosen)) < len(chosen):
        fail(f"--only {only}: names an experiment twice")
    check_outputs((json_file, html_file), force=force)
    need_gpu(chosen, on_paper="-" not in (json_file, html_file))
    results = measured(chosen, quick=quick)
    if "-" not in (json_file, html_file):
        print_bench(results)
    if json_file:
        from pinprof.report.bench.json import to_json

        write(json_file, to_json(results))
    if html_file:
        from pinprof.report.bench.page import to_html

        with progress("drawing the page"):
            page = to_html(results)
        write(html_file, page)
    if not json_file and not html_file:
        say("Next: pinprof bench --json bench.json --html bench.html")
    if not any(result.figures for result in results.results):
        fail("none of the experiments gave a figure")


def measured(experiments: Sequence[Experiment], *, quick: bool) -> "Bench":
    """Return what the experiments measure on this machine."""
    from pinprof.workloads.runner import run_bench

    with _shown() as tell:
        return run_bench(experiments, quick=quick, on_progress=tell)


@contextmanager
def _shown() -> "Iterator[OnProgress]":
    with progress("starting the GPU") as tell:

        def show(far: str, known: Experiment, last: str) -> None:
            tell(f"{known.number} {known.name} ({far})" + (f": {last}" if last else ""))

        yield show


def print_bench(bench: "Bench", *, recorded: bool = False) -> None:
    """Print the figures, as wide as the terminal; `recorded` marks the figures that pinprof ships."""
    from pinprof.report.bench.view import to_text

    width, color = page_options()
    show(to_text(bench, width=width, color=color, recorded=recorded))


def need_gpu(experiments: Sequence[Experiment], *, on_paper: bool = True) -> None:
    """Without a GPU, print the figures of another machine, marked as such, and exit.

    The exit status is that of unusable input, so that no script takes these figures for its own; `on_paper` is false
    if standard output is for a program.
    """
    from pinprof.bench.results import BenchError
    from pinprof.workloads.gpu import why_no_gpu

    why = why_no_gpu()
    if why is None:
        return
    if on_paper:
        with suppress(BenchError):  # the missing GPU is the error to report
            _show_recorded({known.number for known in experiments})
    fail(f"nothing was measured: {why}")


def _show_recorded(numbers: AbstractSet[str]) -> None:
    from msgspec.structs import replace

    from pinprof.bench import recorded

    bench = recorded()
    shown = replace(bench, results=[result for result in bench.results if result.number in numbers])
    print_bench(shown, recorded=True)
