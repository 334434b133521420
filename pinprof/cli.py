"""The command line: parse, call, print or write; the only room that knows the terminal."""

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from pinprof.errors import PinprofError
from pinprof.version import VERSION

if TYPE_CHECKING:
    from pinprof.measure import Profile
    from pinprof.rules import Finding
    from pinprof.trace import Trace

UNUSABLE = 2
"""Exit code for unusable input and wrong usage."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as a shell gives it."""
PIPED_WIDTH = 120
"""Columns of the report where standard output is no terminal."""
TRACE_SUFFIXES = (".json", ".json.gz")
WINDOWS = ("plain", "lean", "lines")
"""Uses of the steps of a program that is recorded."""

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415


class _Commands(click.Group):
    """The commands, with errors turned into one line here and nowhere else."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002  always: errors end here
        **extra: Any,
    ) -> NoReturn:
        try:
            status = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.exceptions.Abort:
            _fail("interrupted", INTERRUPTED)
        except click.UsageError as error:
            command = error.ctx.command_path if error.ctx else "pinprof"
            _fail(f"{error.format_message()} ({command} --help explains)")
        except (PinprofError, click.ClickException) as error:
            _fail(str(error) if isinstance(error, PinprofError) else error.format_message())
        sys.exit(status if isinstance(status, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `pinprof report TRACE | head` has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except MemoryError:
            _fail("out of memory; record fewer steps, or use a machine with more")


def _fail(message: str, status: int = UNUSABLE) -> NoReturn:
    click.echo(f"Error: {_printable(message)}", err=True)
    sys.exit(status)


def _printable(message: str) -> str:
    """Return a message as one line that no terminal takes for a command, whatever file names it holds."""
    return "".join(character if character.isprintable() else " " for character in message)


force_option = click.option("--force", is_flag=True, help="Overwrite output files that exist.")


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name="pinprof")
def main() -> None:
    r"""Show why host-GPU copies do not hide behind kernels, and what makes the host wait.

    \b
    Record a training script and report on it (on a machine with a GPU):
      pinprof run train.py --epochs 1
    Report on a trace that torch.profiler's export_chrome_trace wrote:
      pinprof report trace.json.gz
      pinprof report trace.json.gz --html report.html
    """


@main.command()
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path())
@click.option("--json", "json_file", metavar="FILE", help="Also write the report as JSON; - prints only that.")
@click.option("--html", "html_file", metavar="FILE", help="Also write a page with an interactive timeline.")
@force_option
def report(traces: tuple[str, ...], json_file: str | None, html_file: str | None, *, force: bool) -> None:
    r"""Measure traces: steps, copies and their overlap, waits of the host, idle time of the GPU.

    TRACE is a Kineto (Chrome) trace, .json or .json.gz, or a folder of them, of which other files are skipped with a
    word. The numbers come first, then what they mean, then what to do. Times that the profiler inflates are never shown
    as the step's own.

    \b
    Examples:
      pinprof report trace.json.gz
      pinprof report trace.json.gz --html report.html
      pinprof report trace.json.gz --json - | jq '.traces[0].overlap'
    """
    from pinprof.report.json_report import to_json

    _check_outputs((json_file, html_file), force=force)
    measured = list(_measured(traces))
    if "-" not in (json_file, html_file):
        for _, profile, findings in measured:
            _print_report(profile, findings)
    if json_file:
        _write(json_file, to_json([(profile, findings) for _, profile, findings in measured]))
    if html_file:
        _write_page(html_file, measured)
    if not json_file and not html_file:
        _say(f"Next: pinprof report {shlex.join(traces)} --html report.html")


@main.command()
@click.argument("trace", type=click.Path())
@click.option("-o", "--output", metavar="FILE", required=True, help="The page to write; - is standard output.")
@force_option
def timeline(trace: str, output: str, *, force: bool) -> None:
    r"""Draw the interactive timeline of a trace: host threads above, GPU streams below.

    \b
    Example:
      pinprof timeline trace.json.gz -o timeline.html
    """
    from pinprof.report.html_report import timeline_page

    _check_outputs((output,), force=force)
    ((recorded, profile, _),) = _measured([trace])
    _write(output, timeline_page(recorded, profile))


@main.command(context_settings={"allow_interspersed_args": False})
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
@force_option
def run(
    script: str,
    args: tuple[str, ...],
    *,
    output: str | None,
    windows: str,
    no_stack: bool,
    memory: bool,
    force: bool,
    **options: Any,
) -> None:
    r"""Record some steps of a training SCRIPT, run with ARGS as under python, and report on them.

    Its steps are found from the batches that it draws and its optimizer steps. After a warm-up the step is timed
    without a profiler (the true step), then torch.profiler records a few steps (the trace), then a few more show the
    source line of every wait, then the script is stopped. Options of pinprof stand before SCRIPT, all after it are the
    script's own. Under torchrun each rank writes its own trace, and rank 0 reports.

    \b
    Examples:
      pinprof run train.py --epochs 1
      pinprof run -m my_package.train --epochs 1
      pinprof run --steps 3 -o slow.json.gz train.py --batch-size 64
      pinprof run --step-marker Trainer.train_step train.py
      torchrun --nproc-per-node 2 -m pinprof run train.py
    """
    chosen = _windows(windows)
    name = script.rpartition(".")[2] if options["module"] else Path(script).stem
    output, is_first = _rank_output(output or f"pinprof-{name}.json.gz")
    page = output.removesuffix(".gz").removesuffix(".json") + ".html"
    _check_outputs((output, page if is_first else None), force=force)
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
        measured = list(_measured([output]))
        for _, profile, findings in measured:
            _print_report(profile, findings)
        _write_page(page, measured)
        _say(f"Wrote {output} (steps marked by: {outcome.marker}; --step-marker chooses another)")
    if outcome.exit_status:
        _say(f"The script failed with exit status {outcome.exit_status}.")
    sys.exit(outcome.exit_status)


def _windows(text: str) -> set[str]:
    """Return the windows in a list separated by commas; `lean` is always among them."""
    chosen = {word.strip() for word in text.split(",")}
    if not chosen <= set(WINDOWS) or "lean" not in chosen:
        _fail(f"--windows {text}: name lean, and of {', '.join(WINDOWS)} what else you want")
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


def _measured(paths: Sequence[str]) -> "Iterator[tuple[Trace, Profile, tuple[Finding, ...]]]":
    """Yield each trace with its measurements and findings; of a folder what is no trace is skipped with a word."""
    from pinprof.errors import TraceError
    from pinprof.measure import measure
    from pinprof.rules import find
    from pinprof.trace import read_trace

    for argument in paths:
        inside = _traces_in(argument) if Path(argument).is_dir() else None
        usable = 0
        for number, path in enumerate(inside or [argument], start=1):
            with _progress(f"reading {Path(path).name}" + (f" ({number} of {len(inside)})" if inside else "")):
                try:
                    trace = read_trace(path)
                except TraceError as error:
                    if inside is None:
                        raise
                    _say(f"Skipped: {_printable(str(error))}")
                    continue
                profile = measure(trace)
                findings = find(profile, trace)
            usable += 1
            yield trace, profile, findings
        if not usable:
            raise TraceError(f"{argument}: no file in this folder is a trace")


def _traces_in(folder: str) -> list[str]:
    """Return the files in a folder that may be traces, by their names."""
    inside = sorted(str(path) for path in Path(folder).iterdir() if path.name.endswith(TRACE_SUFFIXES))
    if not inside:
        _fail(f"{folder}: no trace in this folder; traces end in {' or '.join(TRACE_SUFFIXES)}")
    return inside


def _print_report(profile: "Profile", findings: "tuple[Finding, ...]") -> None:
    from pinprof.report.console import to_text

    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size((PIPED_WIDTH, 24)).columns if terminal else PIPED_WIDTH
    click.echo(to_text(profile, findings, width=width, color=terminal and not os.environ.get("NO_COLOR")))


def _write_page(path: str, measured: "Sequence[tuple[Trace, Profile, tuple[Finding, ...]]]") -> None:
    from pinprof.report.html_report import to_html

    with _progress("drawing the page"):
        page = to_html(measured)
    _write(path, page)


def _check_outputs(paths: Iterable[str | None], *, force: bool) -> None:
    """Refuse outputs that could not be written, before any work is done for them."""
    for path in paths:
        if path is None or path == "-":
            continue
        if not Path(path).absolute().parent.is_dir():
            _fail(f"{path}: there is no folder {Path(path).parent}; make it first")
        if Path(path).is_dir():
            _fail(f"{path}: is a folder; name a file in it")
        if Path(path).exists() and not force:
            _fail(f"{path}: exists already; choose another name, or overwrite it with --force")


def _write(path: str, text: str) -> None:
    """Write a text whole or not at all, and say where; `-` is standard output."""
    if path == "-":
        click.echo(text, nl=False)
        return
    target = Path(path)
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=target.parent, prefix=".pinprof-", delete=False
        ) as file:
            unfinished = Path(file.name)
            file.write(text)
        unfinished.chmod(0o666 & ~_umask())
        unfinished.replace(target)
    except OSError as error:
        _fail(f"{path}: cannot be written ({error.strerror})")
    _say(f"Wrote {path}")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _say(text: str) -> None:
    click.echo(text, err=True)


@contextmanager
def _progress(text: str) -> Iterator[None]:
    """Show what is being done while it is done, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield
