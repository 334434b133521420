"""`pinprof run`: records a training script."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from pinprof.cli.terminal import check_outputs, fail, force_option, say
from pinprof.cli.traces import measured_traces, print_report, write_page

WINDOWS = ("plain", "lean", "lines")
"""Uses of the steps of a program that is recorded."""

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("script", type=click.Path())
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("-m", "--module", is_flag=True, help="SCRIPT is the name of a module, as with python -m.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="The trace to write; the report gets the same name with .html. Default: pinprof-SCRIPT.json.gz.",
)
@click.option(
    "--step-marker",
    default="auto",
    show_default=True,
    metavar="MARKER",
    help="What marks a step: loader (a batch is drawn), optimizer (it steps), a function or Class.method of the "
    "script, or MODULE:FUNCTION (it is called); auto finds out, unless the script calls pinprof.step().",
)
@click.option("--steps", default=5, show_default=True, type=click.IntRange(min=1), help="Steps to record.")
@click.option(
    "--warmup", default=10, show_default=True, type=click.IntRange(min=1), help="Steps to skip first, or more."
)
@click.option(
    "--max-warmup",
    default=100,
    show_default=True,
    type=click.IntRange(min=1),
    help="Steps until which to wait for steady ones.",
)
@click.option(
    "--windows",
    default=",".join(WINDOWS),
    show_default=True,
    metavar="LIST",
    help="What to do with the steps after the warm-up: plain times them without a profiler, lean records the trace, "
    "lines learns the source lines of waits.",
)
@click.option("--no-stack", is_flag=True, help="Learn the lines without Python stacks: quicker, causes less exact.")
@click.option("--record-shapes", is_flag=True, help="Record the shapes of the ops' inputs.")
@click.option("--memory", is_flag=True, help="Record allocations.")
@click.option("--keep-going", is_flag=True, help="Let the script finish after the recording.")
@click.option(
    "--guard",
    is_flag=True,
    help="Record nothing; run the script to its end and find host memory that is used before its asynchronous copy "
    "has ended.",
)
@force_option
def run(
    script: str,
    args: tuple[str, ...],
    *,
    output: str | None,
    windows: str,
    no_stack: bool,
    memory: bool,
    guard: bool,
    force: bool,
    **options: Any,
) -> None:
    """Record some steps of a training SCRIPT, run with ARGS as under python, and report on them.

    Its steps are found from the batches that it draws and its optimizer steps. After a warm-up the step is timed
    without a profiler (the true step), then torch.profiler records a few steps (the trace), then a few more show the
    source line of every wait, then the script is stopped. Options of pinprof stand before SCRIPT, all after it are the
    script's own. Under torchrun each rank writes its own trace, and rank 0 reports.

    With --guard nothing is recorded: the script runs to its end, slower, and what it does with host memory that a
    non-blocking copy still reads or writes is reported, with both lines. The exit status is the script's own then, too.

    \b
    Examples:
      pinprof run train.py --epochs 1
      pinprof run -m my_package.train --epochs 1
      pinprof run --steps 3 -o slow.json.gz train.py --batch-size 64
      pinprof run --step-marker Trainer.train_step train.py
      torchrun --nproc-per-node 2 -m pinprof run train.py
      pinprof run --guard train.py --epochs 1
    """  # noqa: D301  click looks for the backspace itself
    if guard:
        _run_guarded(script, args, module=options["module"])
    chosen = _windows(windows)
    name = script.rpartition(".")[2] if options["module"] else Path(script).stem
    if output == "-":
        fail("a recording does not go to standard output; name a file")
    output, is_first = _rank_output(output or f"pinprof-{name}.json.gz")
    page = output.removesuffix(".gz").removesuffix(".json") + ".html"
    check_outputs((output, page if is_first else None), force=force)
    from pinprof.capture.script import run_script

    with _step_counter() as show:
        outcome = run_script(
            script,
            args,
            path=output,
            on_progress=show if is_first else None,
            plain_steps=20 if "plain" in chosen else 0,
            line_steps=3 if "lines" in chosen else 0,
            line_stack=not no_stack,
            profile_memory=memory,
            force=force,
            **options,
        )
    if outcome.path and is_first:
        measured = list(measured_traces([output]))
        for _, profile, findings in measured:
            print_report(profile, findings)
        write_page(page, measured)
        say(f"Wrote {output} (steps marked by: {outcome.marker}; --step-marker chooses another)")
    if outcome.exit_status:
        say(f"The script failed with exit status {outcome.exit_status}.")
    sys.exit(outcome.exit_status)


def _run_guarded(script: str, args: tuple[str, ...], *, module: bool) -> NoReturn:
    """Run the script under the guard, print what it found, and exit with the script's status."""
    ctx = click.get_current_context()
    given = [name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if others := sorted(set(given) - {"guard", "script", "args", "module"}):
        fail(f"--guard records nothing, so --{others[0].replace('_', '-')} does not go with it")
    from pinprof.guard.script import run_guarded
    from pinprof.guard.watching import Guard

    watching = Guard("collect")
    status = run_guarded(script, args, watching, module=module)
    click.echo(str(watching))
    if status:
        say(f"The script failed with exit status {status}.")
    elif watching.violations:
        say(f"Next: pinprof explain {watching.violations[0].rule.id}")
    sys.exit(status)


def _windows(text: str) -> set[str]:
    """Return the windows in a list separated by commas; `lean` is always among them."""
    chosen = {word.strip() for word in text.split(",")}
    if not chosen <= set(WINDOWS) or "lean" not in chosen:
        fail(f"--windows {text}: name lean, and of {', '.join(WINDOWS)} what else you want")
    return chosen


def _rank_output(output: str) -> tuple[str, bool]:
    """Return the output's name, under torchrun with the rank in it, and whether this process reports."""
    from pinprof.capture.job import path_of_rank, rank_of_process

    process = rank_of_process()
    if process is None or process.world_size == 1:
        return output, True
    return str(path_of_rank(Path(output), process.rank)), process.rank == 0


WINDOW_NAMES = {
    "warm-up": "warming up",
    "plain": "timing without profiler",
    "profiler warm-up": "starting the profiler",
    "recorded": "recording",
    "lines": "learning source lines",
}


@contextmanager
def _step_counter() -> Iterator[Callable[[str, int, int], None]]:
    """Give a callback that shows what the steps are used for, on one line of the terminal, taken away at the end."""

    def write(text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    def show(window: str, step: int, of: int) -> None:
        write(f"pinprof: {WINDOW_NAMES.get(window, window)}, step {step}" + (f" of {of}" if step <= of else ""))

    try:
        yield show
    finally:
        write("")
