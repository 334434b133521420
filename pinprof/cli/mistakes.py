"""Usual mistakes on the command line: what to add to click's own words so that one line mends them."""

import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import click
from click.core import ParameterSource

OUTPUTS = {"json_file", "html_file", "output"}
"""Parameters that name a file to write."""
PAGE = {"-o", "--output", "-f", "--out"}
"""What people try for the file to write, where it has another name."""
PYTHONS = ("python", "python3")
LAUNCHERS = {
    "torchrun": "torchrun ... -m pinprof run {script}",
    "accelerate": "pinprof run -m accelerate.commands.launch {script}",
    "deepspeed": "pinprof run -m deepspeed.launcher.runner {script}",
}
"""Programs that start scripts, and how they go together with pinprof."""
ALIKE = 0.7
"""A file whose name is less like the given one is not taken for it."""


def way_out(error: click.UsageError) -> str:
    """Return what mends a wrong usage, to follow what click says of it; nothing where that says it all."""
    ctx = error.ctx
    if ctx is None:
        return ""
    if isinstance(error, click.MissingParameter) and isinstance(error.param, click.Argument):
        taken = next((param for param in ctx.command.params if _took_a_file(ctx, param)), None)
        return f" {taken.opts[-1]} took {ctx.params[taken.name or '']} for the file to write" if taken else ""
    options = {name for param in ctx.command.params for name in param.opts}
    if isinstance(error, click.NoSuchOption) and error.option_name in PAGE and "--html" in options:
        return " --html FILE writes the page, and --json FILE the figures"
    return ""


def _took_a_file(ctx: click.Context, param: click.Parameter) -> bool:
    """Return whether the value of an option for an output is a file that is there."""
    value = ctx.params.get(param.name or "")
    given = param.name in OUTPUTS and ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    return given and isinstance(value, str) and Path(value).exists()


def not_a_script(word: str, args: Sequence[str]) -> str:
    """Return what to write instead of a script that is not there: without `python`, or the name that it is like."""
    script = next((each for each in args if each.endswith(".py")), None)
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
    """Return the script beside it whose name is most like this one; nothing where none is."""
    folder = Path(word).parent
    scripts = [path.name for path in folder.glob("*.py")] if folder.is_dir() else []
    close = get_close_matches(Path(word).name, scripts, n=1, cutoff=ALIKE)
    return str(folder / close[0]) if close else ""
