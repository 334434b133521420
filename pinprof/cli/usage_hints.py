"""What to add to click's own words about a wrong usage, so that one line mends it."""

from pathlib import Path

import click
from click.core import ParameterSource

OUTPUTS = {"json_file", "html_file", "output"}
"""Parameters that name a file to write."""
PAGE = {"-o", "--output", "-f", "--out"}
"""What people try for the file to write, where it has another name."""


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
