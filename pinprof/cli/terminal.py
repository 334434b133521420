"""What all commands share at the terminal: errors in one line, what is said meanwhile, and outputs."""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any, NoReturn

import click

from pinprof.errors import PinprofError
from pinprof.outputs import write_whole
from pinprof.urls import redacted

UNUSABLE = 2
"""Exit code for unusable input and wrong usage."""
PIPED_WIDTH = 120
"""Columns of texts where standard output is no terminal."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as a shell gives it."""


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
        try:
            status = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.exceptions.Abort:
            fail("interrupted", INTERRUPTED)
        except click.UsageError as error:
            command = error.ctx.command_path if error.ctx else "pinprof"
            fail(f"{error.format_message()} ({command} --help explains)")
        except (PinprofError, click.ClickException) as error:
            fail(str(error) if isinstance(error, PinprofError) else error.format_message())
        sys.exit(status if isinstance(status, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command; what no command can help becomes an error here, too."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `pinprof report TRACE | head` has seen enough
            _close_output()
            return 0
        except MemoryError:
            fail("out of memory; record fewer steps, or use a machine with more")


def fail(message: str, status: int = UNUSABLE) -> NoReturn:
    """Say what is wrong in one line, without the secrets of a URL, and exit."""
    click.echo(f"Error: {printable(redacted(message))}", err=True)
    sys.exit(status)


def printable(message: str) -> str:
    """Return a message as one line that no terminal takes for a command, whatever file names it holds."""
    return "".join(character if character.isprintable() else " " for character in message)


force_option = click.option("--force", is_flag=True, help="Overwrite output files that exist.")


def check_outputs(paths: Iterable[str | None], *, force: bool, reads: Iterable[str | None] = ()) -> None:
    """Refuse outputs that could not be written, or that the command reads, before any work is done for them."""
    files = [path for path in paths if path is not None]
    for one, other in combinations(files, 2):
        if _is_same(one, other):
            fail(f"{'standard output' if one == '-' else one}: is named for two outputs; give each its own")
    for path in files:
        if path == "-":
            continue
        folder = Path(path).parent
        if not folder.absolute().is_dir():
            fail(
                f"{path}: {f'{folder} is a file' if folder.exists() else f'there is no folder {folder}; make it first'}"
            )
        if Path(path).is_dir():
            fail(f"{path}: is a folder; name a file in it")
        if any(_is_same(path, read) for read in reads if read is not None):
            fail(f"{path}: is what is read; choose another name")
        if Path(path).exists() and not force:
            fail(f"{path}: exists already; choose another name, or overwrite it with --force")


def _is_same(one: str, other: str) -> bool:
    return one == other or (other != "-" and os.path.realpath(one) == os.path.realpath(other))  # URLs never are


def write(path: str, text: str) -> None:
    """Write a text whole or not at all, and say where; `-` is standard output."""
    if path == "-":
        _print(text)
        return
    write_whole(Path(path), text)
    say(f"Wrote {path}")


def _print(text: str) -> None:
    """Print a text; a reader that has seen enough changes nothing about the exit status of the command."""
    try:
        click.echo(text, nl=False)
    except BrokenPipeError:
        _close_output()
    except (OSError, UnicodeEncodeError) as exc:
        _close_output()
        why = exc.strerror if isinstance(exc, OSError) else f"{exc.encoding} has not all characters of it"
        fail(f"standard output: cannot be written ({why})")


def _close_output() -> None:
    """Let nothing more reach standard output, not even what it holds when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def page_options() -> tuple[int, bool]:
    """Return the columns that standard output has, and whether it takes colours."""
    if not sys.stdout.isatty():
        return PIPED_WIDTH, False
    return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns, not os.environ.get("NO_COLOR")


def say(text: str) -> None:
    """Say something that is no result, on standard error, without the secrets of a URL."""
    click.echo(redacted(text), err=True)


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Show what is being done while it is done, on a terminal only; what is given puts another text there."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415  `pinprof --help` does not need it

    with Console(stderr=True).status(text) as status:
        yield status.update
