"""The group of all commands: its help by use, the command for a file alone, and errors in one line."""

import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from pinprof.cli.terminal import Ended, ended_by_signals, fail, give_up_output, make_writable
from pinprof.ground.errors import TRACEBACK_VARIABLE, PinprofError, unexpected
from pinprof.ground.packages import missing
from pinprof.ground.standard_streams import is_terminal
from pinprof.ground.urls import STANDARD_INPUT, local_path

WELCOME = """\
pinprof shows why a PyTorch training step is slow, and which line to change.

Try:
  pinprof run train.py --epochs 1    record a training script, and report on it
  pinprof report trace.json.gz       report on a trace of torch.profiler
  pinprof whatif trace.json.gz       predict what a change would bring

Help: pinprof --help lists all commands, pinprof explain all guides and rules.
"""
SECTIONS = {
    "Record and report": ("run", "report", "explain"),
    "Change and compare": ("whatif", "verify", "compare", "check"),
    "Look closer": ("timeline", "export", "schema"),
    "Look at this machine": ("bench", "workload", "doctor"),
}
"""The commands by use; `short_help` of each says what it does."""
TRACE_ENDINGS = (".json", ".gz", ".zst")
MIN_COMMAND_SIMILARITY = 0.6
"""Of difflib: a word less like a command than this is not taken for a mistyped one."""

OUTPUT_PARAMETERS = {"json_file", "html_file", "output"}
SIGNAL_STATUS_BASE = 128
"""What a shell adds to the number of the signal that ended a program, for its exit code."""


class Pinprof(click.Group):
    """The commands by use; a trace alone is reported on, a Python script alone is run, and errors end as one line."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002  always: errors end here
        **extra: Any,
    ) -> NoReturn:
        """Run a command and exit with its status."""
        make_writable()
        try:
            with ended_by_signals():
                status = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.exceptions.Abort as abort:  # click's own, of an interruption before a command runs
            _interrupted(abort.__cause__)
        except click.UsageError as error:
            command = error.ctx.command_path if error.ctx else "pinprof"
            fail(f"{error.format_message()}{_correction(error)} ({command} --help explains)")
        except click.ClickException as error:
            fail(error.format_message())
        except PinprofError as error:
            fail(str(error))
        except ModuleNotFoundError as error:
            fail(text) if (text := missing(error)) else _unexpected(error)
        except MemoryError:
            fail("out of memory; record fewer steps, or use a machine with more")
        except OSError as error:  # a full disk, a file that went away
            fail(str(error))
        except Exception as error:  # noqa: BLE001  exit status 1 is that of a limit that was not kept
            _unexpected(error)
        sys.exit(status if isinstance(status, int) else 0)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the arguments; click prints the help here."""
        with _quiet_if_unread():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command."""
        with _quiet_if_unread():
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt as interruption:
                _interrupted(interruption)
            except EOFError as error:  # which click would take for an interruption
                _unexpected(error)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; without any, say what pinprof is and exit."""
        if not args and not ctx.resilient_parsing:
            click.echo(WELCOME, nl=False)
            ctx.exit()
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands for people."""
        return [name for name in super().list_commands(ctx) if not self.commands[name].hidden]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command with its arguments; if a file stands in place of its name, the command for that file."""
        word = args[0]
        if self.get_command(ctx, word) or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        name = command_for(word)
        if name is None:
            close = get_close_matches(word.lower(), self.list_commands(ctx), n=1, cutoff=MIN_COMMAND_SIMILARITY)
            meant = f"; did you mean pinprof {close[0]}?" if close else ""
            raise click.UsageError(f"{word} is neither a command nor a file{meant}", ctx)
        return name, self.get_command(ctx, name), args

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's own
        """Write the commands by use."""
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(formatter.width)) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin like this; if there are none, files."""
        return super().shell_complete(ctx, incomplete) or [CompletionItem(incomplete, type="file")]


def command_for(word: str) -> str | None:
    """Return the command for a word that is not a command but names a script or a trace; None if it names neither."""
    if word.endswith(".py") and local_path(word) is not None:
        return "run"
    is_pattern = any(sign in word for sign in "*?[")
    if word == STANDARD_INPUT or local_path(word) is None or is_pattern or word.endswith(TRACE_ENDINGS):
        return "report"
    return "report" if Path(word).exists() else None


def _correction(error: click.UsageError) -> str:
    """Return which option took the missing argument for the file to write; empty if none did."""
    if error.ctx and isinstance(error, click.MissingParameter) and isinstance(error.param, click.Argument):
        for param in error.ctx.command.params:
            value = error.ctx.params.get(param.name or "")
            if param.name in OUTPUT_PARAMETERS and isinstance(value, str) and Path(value).exists():
                return f" {param.opts[-1]} took {value} for the file to write"
    return ""


@contextmanager
def _quiet_if_unread() -> Iterator[None]:
    """Exit quietly if the reader of standard output has closed it, as in `pinprof ... | head`."""
    try:
        yield
    except BrokenPipeError:
        give_up_output()
        sys.exit(0)


def _interrupted(by: BaseException | None) -> NoReturn:
    with suppress(OSError, ValueError):
        if is_terminal(sys.stderr):
            click.echo(err=True)  # after the ^C that the terminal shows
    fail("interrupted", SIGNAL_STATUS_BASE + (by.number if isinstance(by, Ended) else signal.SIGINT))


def _unexpected(error: Exception) -> NoReturn:
    if os.environ.get(TRACEBACK_VARIABLE):
        with suppress(OSError):
            traceback.print_exception(error)
    fail(unexpected(error))
