"""`pinprof` itself: its help by use, what it says when it stands alone, and the command that a file means."""

from difflib import get_close_matches
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from pinprof.cli.terminal import Commands
from pinprof.urls import STANDARD_INPUT, local_path

WELCOME = """\
pinprof shows why a PyTorch training step is slow, and which line to change.

Try:
  pinprof run train.py --epochs 1    record a training script, and report on it
  pinprof report trace.json.gz       report on a trace of torch.profiler
  pinprof whatif trace.json.gz       predict what a change would bring

Help: pinprof --help lists all commands, pinprof explain all guides and rules.
"""
SECTIONS = (
    (
        "Record and report",
        (
            ("run", "Run a training script, record some of its steps, and report on them."),
            ("report", "Say why a recorded step is slow, and what to change."),
            ("explain", "Explain a rule, or show a guide, such as recording or what-if."),
        ),
    ),
    (
        "Change and compare",
        (
            ("whatif", "Predict the step after a change of the code."),
            ("fix", "Change the program where that is mechanical and certain."),
            ("try", "Fix a program in a copy, measure it, and prove the patch."),
            ("verify", "Compare a predicted saving with the measured one."),
            ("compare", "Show what changed between two traces."),
            ("ab", "Tell whether a program became slower: two versions in turns."),
            ("bisect", "Find the revision that made a program slower."),
            ("check", "Fail if a trace breaks a limit: a gate for CI."),
        ),
    ),
    (
        "Look closer",
        (
            ("timeline", "Draw the interactive timeline of a trace."),
            ("export", "Write a trace again with pinprof's own tracks, for Perfetto."),
            ("log", "Log the report on a trace to a run of MLflow or Weights & Biases."),
            ("schema", "Print the JSON Schema of what a command writes with --json."),
            ("mcp", "Serve these commands to AI agents (Model Context Protocol)."),
        ),
    ),
    (
        "Measure this machine",
        (
            ("bench", "Measure what copies to the GPU cost here, and which advice holds."),
            ("workload", "Run or record one experiment."),
        ),
    ),
)
"""The commands by use, each with what it does."""
OTHERS = "More"
"""Where commands stand that have no section."""
TRACE_NAMES = (".json", ".gz", ".zst")
OPTIONS = {"help": "--help", "version": "--version"}
"""Words that other tools take for commands, and what they are here."""
ALIKE = 0.6
"""A word that is less like a command than this is not taken for it."""


class Pinprof(Commands):
    """The commands by use; a trace alone is reported on, and a Python script alone is run."""

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
        """Return the command with its arguments; where a file stands instead of its name, the one for this file."""
        word = args[0]
        if self.get_command(ctx, word) or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        name = command_for(word)
        if name is None:
            raise click.UsageError(
                f"{word} is neither a command nor a file{_meant(word, self.list_commands(ctx))}", ctx
            )
        return name, self.get_command(ctx, name), args

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by use."""
        known = {name for _, commands in SECTIONS for name, _ in commands}
        more = [
            (name, command.get_short_help_str(formatter.width))
            for name in self.list_commands(ctx)
            if name not in known and (command := self.get_command(ctx, name))
        ]
        for title, commands in (*SECTIONS, (OTHERS, tuple(more))):
            if commands:
                with formatter.section(title):
                    formatter.write_dl(commands)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin so; where none does, files."""
        return super().shell_complete(ctx, incomplete) or [CompletionItem(incomplete, type="file")]


def command_for(word: str) -> str | None:
    """Return the command that a word means which is none: a script's or a trace's; None if it is neither."""
    if word.endswith(".py") and local_path(word) is not None:
        return "run"
    is_pattern = any(sign in word for sign in "*?[")
    if word == STANDARD_INPUT or local_path(word) is None or is_pattern or word.endswith(TRACE_NAMES):
        return "report"
    return "report" if Path(word).exists() else None


def _meant(word: str, commands: list[str]) -> str:
    """Return the command that a word is most like, as a question; nothing where it is like none."""
    if word.lower() in OPTIONS:
        return f"; did you mean pinprof {OPTIONS[word.lower()]}?"
    close = get_close_matches(word.lower(), commands, n=1, cutoff=ALIKE)
    return f"; did you mean pinprof {close[0]}?" if close else ""
