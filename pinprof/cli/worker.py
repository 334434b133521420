"""`pinprof worker FILE`: records a program once, in a process of its own, for `pinprof run --repeat`."""

import sys
from pathlib import Path

import click

from pinprof.cli.run import recorded
from pinprof.cli.script import outputs_of
from pinprof.cli.terminal import Spent, say


@click.command(hidden=True)
@click.argument("file", type=click.Path())
def worker(file: str) -> None:
    """Record the program of the task in FILE, write how it ended, and exit with its status."""
    import msgspec

    from pinprof.capture.repetition import WorkerTask

    task = msgspec.json.decode(Path(file).read_bytes(), type=WorkerTask)
    arguments = msgspec.structs.asdict(task)
    output = arguments.pop("output")
    outcome = recorded(outputs_of(output, output, of_job=False), None, Spent(), **arguments)
    task.outcome.write_bytes(msgspec.json.encode(outcome, enc_hook=str))
    for remark in outcome.remarks:
        say(remark)
    if outcome.exit_status:
        say(f"The script failed with exit status {outcome.exit_status}.")
    sys.exit(outcome.exit_status)
