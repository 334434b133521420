"""What all commands share at the terminal: errors in one line, what is said meanwhile, and outputs."""

import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from pinprof import outputs
from pinprof.errors import PinprofError
from pinprof.urls import local_path, redacted

UNUSABLE = 2
"""Exit code for unusable input and wrong usage."""
PIPED_WIDTH = 120
"""Columns of texts where standard output is no terminal."""
BY_SIGNAL = 128
"""What a shell adds to the number of the signal that ended a program, for its exit code."""
ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals that ask a program to end."""
TRACEBACK = "PINPROF_TRACEBACK"
"""If this is set in the environment, an error that nobody thought of is shown with its traceback."""


class Commands(click.Group):
    """The commands, with errors turned into one line here and nowhere else."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002  always: errors end here
        **extra: Any,
    ) -> NoReturn:
        """Run a command and exit with its status."""
        _make_writable()
        try:
            with _ended_by_signals():
                status = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.exceptions.Abort as abort:  # click's own, of an interruption before a command runs
            _interrupted(abort.__cause__)
        except click.UsageError as error:
            command = error.ctx.command_path if error.ctx else "pinprof"
            fail(f"{error.format_message()} ({command} --help explains)")
        except click.ClickException as error:
            fail(error.format_message())
        except PinprofError as error:
            fail(str(error))
        except MemoryError:
            fail("out of memory; record fewer steps, or use a machine with more")
        except OSError as error:  # a full disk, a file that went away
            fail(str(error))
        except Exception as error:  # noqa: BLE001  exit status 1 is that of a limit that was not kept
            _unexpected(error)
        sys.exit(status if isinstance(status, int) else 0)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the words; the help is printed here."""
        with _unread():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command."""
        with _unread():
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt as interruption:
                _interrupted(interruption)
            except EOFError as error:  # which click would take for an interruption
                _unexpected(error)


class _Ended(KeyboardInterrupt):
    """A signal that asks to end, raised as Ctrl-C is, so that all is cleared away alike."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    raise _Ended(number)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let signals that ask to end interrupt the block, unless somebody ignores or handles them already."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = {signal.SIG_DFL, signal.default_int_handler}
    before = {number: signal.getsignal(number) for number in ENDING}
    ours = [number for number in ENDING if before[number] in usual]
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])


@contextmanager
def usual_signals() -> Iterator[None]:
    """Let signals do in the block what they do in a program of Python's: it is the user's that runs there."""
    ours = [number for number in ENDING if signal.getsignal(number) is _end]
    for number in ours:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, _end)


@contextmanager
def _unread() -> Iterator[None]:
    """End the block quietly if nobody reads standard output any more: `pinprof ... | head` has seen enough."""
    try:
        yield
    except BrokenPipeError:
        _give_up_output()
        sys.exit(0)


def _interrupted(by: BaseException | None) -> NoReturn:
    with suppress(OSError, ValueError):
        if sys.stderr.isatty():
            click.echo(err=True)  # behind the ^C that the terminal shows
    fail("interrupted", BY_SIGNAL + (by.number if isinstance(by, _Ended) else signal.SIGINT))


def _unexpected(error: Exception) -> NoReturn:
    """Say that pinprof itself failed, and how to tell its makers."""
    if os.environ.get(TRACEBACK):
        with suppress(OSError):
            traceback.print_exception(error)
    what = f"{type(error).__name__}: {error}".removesuffix(": ")
    fail(f"pinprof failed here ({what}); please report that, with what {TRACEBACK}=1 shows")


def _make_writable() -> None:
    """Let every text be written to standard output and error, whatever their encoding, even if they are closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  as long as we run
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _give_up_output() -> None:
    """Let standard output lead to nowhere, also what is in its buffer: at the end Python would complain of that."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str, status: int = UNUSABLE) -> NoReturn:
    """Say what is wrong in one line, without the secrets of a URL, and exit."""
    say(f"Error: {message}")
    sys.exit(status)


def on_one_line(message: str) -> str:
    """Return a message as one line that no terminal takes for a command, whatever file names it holds."""
    return "".join(character if character.isprintable() else " " for character in message)


force_option = click.option("--force", is_flag=True, help="Overwrite output files that exist.")


def check_outputs(paths: Iterable[str | None], *, force: bool, reads: Iterable[str | None] = ()) -> None:
    """Refuse outputs that could not be written, or that the command reads, before any work is done for them.

    What is read are files, URLs, folders or patterns.
    """
    files = [path for path in paths if path is not None]
    outputs.check_outputs(files, _local_files(read for read in reads if read is not None), force=force)


def _local_files(reads: Iterable[str]) -> Iterator[str]:
    """Yield the files of this machine that are read."""
    from pinprof.trace.files import trace_files  # noqa: PLC0415  `pinprof --help` does not need it

    for read in reads:
        if local_path(read) is None:
            continue
        try:
            files = trace_files(read)
        except PinprofError:  # said where it is read
            files = [read]
        yield from filter(None, map(local_path, files))


def write(path: str, text: str) -> None:
    """Write a text whole or not at all, and say where; `-` is standard output."""
    if path == outputs.STANDARD:
        show(text)
        return
    outputs.write_whole(Path(path), text)
    say(f"Wrote {path}")


def show(text: str | bytes) -> None:
    """Write to standard output. If nobody reads it any more, all else goes on; PinprofError if it is full."""
    try:
        click.echo(text, nl=False)
    except BrokenPipeError:
        _give_up_output()
    except OSError as error:
        _give_up_output()
        raise PinprofError(f"standard output: cannot be written ({error.strerror or error})") from error


def page_options() -> tuple[int, bool]:
    """Return the columns that standard output has, and whether it takes colours."""
    if not sys.stdout.isatty():
        return PIPED_WIDTH, False
    return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns, not os.environ.get("NO_COLOR")


def say(text: str) -> None:
    """Say something in one line that is no result, on standard error, without the secrets of a URL."""
    with suppress(OSError):  # nobody would hear that it cannot be said
        click.echo(on_one_line(redacted(text)), err=True)


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Show what is being done while it is done, on a terminal only; what is given puts another text there."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415  `pinprof --help` does not need it
    from rich.text import Text  # noqa: PLC0415

    with Console(stderr=True).status(Text(on_one_line(text))) as status:  # what is a str, rich takes for its markup
        yield lambda text: status.update(Text(on_one_line(text)))
