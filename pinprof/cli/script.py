"""The script on the command line of `pinprof run`: which options are its own, and what to say where it cannot run."""

import shlex
from pathlib import Path

import click

from pinprof.cli.mistakes import not_a_script
from pinprof.cli.terminal import fail

WRONG_USAGE = 2
"""Exit status of a script that refuses its arguments, as argparse does."""
TRACE_NAMES = (".json", ".json.gz", ".json.zst")


class BeforeScript(click.Command):
    """A command whose own options come before the script, and the script's after it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; an option that is not pinprof's is taken to be the script's."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            script = next((word for word in args if word.endswith(".py")), "SCRIPT")
            raise click.UsageError(
                f"{error.option_name} is not an option of pinprof run; options of the script come after the script: "
                f"{ctx.command_path} {script} {error.option_name} ...",
                ctx,
            ) from error


def as_given(script: str, args: tuple[str, ...], *, module: bool) -> str:
    """Return the script as it was given, without its arguments."""
    return ("-m " if module else "") + shlex.quote(script) + (" ..." if args else "")


def refuse_no_script(script: str, args: tuple[str, ...]) -> None:
    """Refuse what cannot be run before torch is loaded, which takes seconds."""
    if not Path(script).is_file():
        fail(f"{script}: {not_a_script(script, args)}")
    if script.endswith(TRACE_NAMES):
        fail(f"{script}: is no Python script; to report on a trace: pinprof report {shlex.quote(script)}")


def sent_to_script(args: tuple[str, ...], script: str, status: int) -> str:
    """Return that options of pinprof stand behind a script that refused its arguments; nothing if none does."""
    own = {name for param in click.get_current_context().command.params for name in param.opts}
    wrong = next((word for word in args if word.partition("=")[0] in own), None)
    if status != WRONG_USAGE or wrong is None:
        return ""
    return f" {wrong} went to it: options of pinprof come before the script, pinprof run {wrong} ... {script}"
