"""What the commands that run experiments share: their progress, and what they show without a GPU."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pinprof.bench.experiment import Experiment
from pinprof.cli.terminal import fail, page_options, progress, show

if TYPE_CHECKING:
    from pinprof.bench.results import Bench
    from pinprof.workloads.runner import OnProgress

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415


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
