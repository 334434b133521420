"""The script on the command line of `pinprof run`: which options are its own, and what to say where it cannot run."""

import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import click

from pinprof.cli.terminal import fail

WRONG_USAGE = 2
"""Exit status of a script that refuses its arguments, as argparse does."""
TRACE_NAMES = (".json", ".json.gz", ".json.zst")
PYTHONS = ("python", "python3")
LAUNCHERS = {
    "torchrun": "torchrun ... -m pinprof run {script}",
    "accelerate": "pinprof run -m accelerate.commands.launch {script}",
    "deepspeed": "pinprof run -m deepspeed.launcher.runner {script}",
}
"""Programs that start scripts, and how they go together with pinprof."""
ALIKE = 0.7
"""A file whose name is less like the given one is not taken for it."""


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
        fail(f"{script}: {_not_a_script(script, args)}")
    if script.endswith(TRACE_NAMES):
        fail(f"{script}: is no Python script; to report on a trace: pinprof report {shlex.quote(script)}")


def _not_a_script(word: str, args: Sequence[str]) -> str:
    """Return what to write instead of a script that is not there: without `python`, or the name that it is like."""
    script = next((arg for arg in args if arg.endswith(".py")), None)
    shown = shlex.quote(script) if script else "SCRIPT"
    if Path(word).name in PYTHONS:
        return f"pinprof starts Python itself: pinprof run {shown}"
    if word in LAUNCHERS:
        return f"is no Python script; write: {LAUNCHERS[word].format(script=shown)}"
    if Path(word).is_dir():
        return "is a folder; name the script in it"
    near = _like(word)
    return f"no such script; did you mean {near}?" if near else "no such script"


def _like(word: str) -> str:
    """Return the script in the same folder with the most similar name; nothing where none is similar."""
    folder = Path(word).parent
    scripts = [path.name for path in folder.glob("*.py")] if folder.is_dir() else []
    close = get_close_matches(Path(word).name, scripts, n=1, cutoff=ALIKE)
    return str(folder / close[0]) if close else ""


def sent_to_script(args: tuple[str, ...], script: str, status: int) -> str:
    """Return that options of pinprof stand behind a script that refused its arguments; nothing if none does."""
    own = {name for param in click.get_current_context().command.params for name in param.opts}
    wrong = next((word for word in args if word.partition("=")[0] in own), None)
    if status != WRONG_USAGE or wrong is None:
        return ""
    return f" {wrong} went to it: options of pinprof come before the script, pinprof run {wrong} ... {script}"
