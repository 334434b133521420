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
from click.core import ParameterSource
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
OTHER_COMMANDS = "More"
"""The section of all other commands."""
TRACE_ENDINGS = (".json", ".gz", ".zst")
HELP, VERSION = "help", "version"
"""Options that can also be written as commands."""
COMMANDS_OF_OTHERS = {"diff": "compare"}
"""Commands of other tools, and what does the same here."""
MIN_COMMAND_SIMILARITY = 0.6
"""Of difflib: a word less like a command than this is not taken for a mistyped one."""

OUTPUT_PARAMETERS = {"json_file", "html_file", "output"}
"""Parameters that name a file to write."""
TRIED_PAGE_OPTIONS = {"-o", "--output", "-f", "--out"}
"""Options that people try for the page, which is --html."""
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
            fail(f"{error.format_message()}{_correction(error)} ({self._command_path(error, args)} --help explains)")
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

    def _command_path(self, error: click.UsageError, args: Sequence[str] | None) -> str:
        """Return the command that was used wrongly; click does not name it for an option without its value."""
        if error.ctx:
            return error.ctx.command_path
        words = sys.argv[1:] if args is None else args
        return " ".join(("pinprof", *(word for word in words[:1] if word in self.commands)))

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
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        if not args:
            click.echo(WELCOME, nl=False)
            ctx.exit()
        if args[0] == HELP:
            args = [*(name for name in args[1:2] if name in self.commands), f"--{HELP}"]
        elif args[0] == VERSION:
            args = [f"--{VERSION}"]
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
            raise click.UsageError(
                f"{word} is neither a command nor a file{_did_you_mean(word, self.list_commands(ctx))}", ctx
            )
        command = self.get_command(ctx, name)
        if name == "run" and command is not None:
            from pinprof.cli.script import with_own_options_first

            args = with_own_options_first(command, word, args[1:])
        return name, command, args

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by use."""
        named = {name for names in SECTIONS.values() for name in names}
        others = tuple(name for name in self.list_commands(ctx) if name not in named)
        for title, names in (*SECTIONS.items(), (OTHER_COMMANDS, others)):
            commands = [(name, self.commands[name].get_short_help_str(formatter.width)) for name in names]
            if commands:
                with formatter.section(title):
                    formatter.write_dl(commands)

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


def _did_you_mean(word: str, commands: list[str]) -> str:
    """Ask for the most similar command; empty if none is similar."""
    word = word.lower()
    known = [*commands, HELP, VERSION, *COMMANDS_OF_OTHERS]
    close = get_close_matches(word.lower(), known, n=1, cutoff=MIN_COMMAND_SIMILARITY)
    return f"; did you mean pinprof {COMMANDS_OF_OTHERS.get(close[0], close[0])}?" if close else ""


def _correction(error: click.UsageError) -> str:
    """Return how to correct a wrong usage, to append to click's message; empty if that message is enough."""
    ctx = error.ctx
    if ctx is None:
        return ""
    if isinstance(error, click.MissingParameter) and isinstance(error.param, click.Argument):
        output = next((param for param in ctx.command.params if _took_a_file(ctx, param)), None)
        return f" {output.opts[-1]} took {ctx.params[output.name or '']} for the file to write" if output else ""
    options = {name for param in ctx.command.params for name in param.opts}
    if isinstance(error, click.NoSuchOption) and error.option_name in TRIED_PAGE_OPTIONS and "--html" in options:
        return " --html FILE writes the page, and --json FILE the figures"
    return ""


def _took_a_file(ctx: click.Context, param: click.Parameter) -> bool:
    """Return whether an option for an output got the name of a file that exists."""
    name = param.name or ""
    value = ctx.params.get(name)
    is_given = name in OUTPUT_PARAMETERS and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    return is_given and isinstance(value, str) and Path(value).exists()


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
    """Say that pinprof itself failed, and how to report that."""
    if os.environ.get(TRACEBACK_VARIABLE):
        with suppress(OSError):
            traceback.print_exception(error)
    fail(unexpected(error))
