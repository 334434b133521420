"""The command line: parse the arguments, call the library, print or write; nothing else knows the terminal."""

import click

from pinprof.cli.changes import compare, verify, whatif
from pinprof.cli.check import check
from pinprof.cli.explain import explain, schema
from pinprof.cli.group import Pinprof
from pinprof.cli.machine import bench, doctor, workload
from pinprof.cli.report import export, report, timeline
from pinprof.cli.run import run, worker
from pinprof.version import VERSION


@click.group(cls=Pinprof, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name="pinprof")
def main() -> None:
    """Show why a PyTorch training step is slow: what the GPU waits for, and which line to change.

    pinprof FILE is enough: it runs a Python script, and reports on a trace.

    \b
    Examples:
      pinprof run train.py --epochs 1
      pinprof report trace.json.gz
      pinprof whatif trace.json.gz --pin --non-blocking
      pinprof compare before.json.gz after.json.gz
      pinprof explain PIN201

    \b
    Completion of commands and options, for ~/.bashrc (zsh_source, fish_source in other shells):
      eval "$(_PINPROF_COMPLETE=bash_source pinprof)"
    """  # noqa: D301  click looks for the backspace itself


for _command in (
    *(run, report, timeline, whatif, verify, compare),
    *(explain, check, export, bench, workload, doctor, schema, worker),
):
    main.add_command(_command)
