"""`pinprof mcp`: serve the commands to AI agents as tools."""

import sys
from pathlib import Path

import click


@click.command(short_help="Serve these commands to AI agents (Model Context Protocol).")
@click.option(
    "--folder",
    metavar="DIR",
    default=".",
    show_default="the working directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The traces and programs that the tools may see; nothing outside of it is read.",
)
@click.option("--allow-running", is_flag=True, help="Let the tools ab and try run programs of the folder.")
def mcp(folder: Path, *, allow_running: bool) -> None:
    """Serve the commands to AI agents, as tools of the Model Context Protocol over standard input and output.

    An agent's client starts it; `pinprof explain mcp` shows what to write into its configuration. The tools are
    report, evidence, compare, whatif, fix, explain, ab and try. Answers are bounded, errors are one line, and nothing
    is written: fix and try return diffs. ab and try run programs, so they are off without --allow-running.

    It needs a package of its own: pip install 'pinprof[mcp]'

    \b
    Examples:
      pinprof mcp
      pinprof mcp --folder ~/project --allow-running
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.server.import_path import import_path

    sys.path[:] = import_path(folder, sys.path)
    from pinprof.server.serve import serve

    serve(folder, allow_running=allow_running)
