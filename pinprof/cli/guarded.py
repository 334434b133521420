"""`pinprof run --guard`: a script that runs under the guard, without a recording."""

import sys
from typing import NoReturn

import click
from click.core import ParameterSource

from pinprof.cli.output_files import rank_of_job
from pinprof.cli.terminal import fail, say, show, users_program

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415


def guard_script(script: str, args: tuple[str, ...], *, module: bool) -> NoReturn:
    """Run the script under the guard, print what it found, and exit with the script's status."""
    ctx = click.get_current_context()
    with_guard = {"guard", "script", "args", "module"}
    for param in ctx.command.params:
        if param.name not in with_guard and ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE:
            fail(f"--guard records nothing, so {param.opts[-1]} does not apply")
    from pinprof.races.guard import Guard
    from pinprof.races.script import run_guarded

    job = rank_of_job()
    of_rank = f"Rank {job.rank}: " if job else ""
    guard = Guard("collect", on_found=lambda violation: say(of_rank + violation.headline))
    with users_program():
        status = run_guarded(script, args, guard, module=module)
    show(f"{of_rank}{guard}\n")
    if status:
        say(f"The script failed with exit status {status}.")
    elif guard.violations:
        say(f"Next: pinprof explain {guard.violations[0].rule.id}")
    sys.exit(status)
