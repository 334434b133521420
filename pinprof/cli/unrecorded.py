"""`pinprof run --guard` and `--numbers`: scripts that run without a recording."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from click.core import ParameterSource

from pinprof.cli.terminal import fail, say, show, users_program, write
from pinprof.cli.written import rank_of_job

if TYPE_CHECKING:
    from pinprof.trial.first_numbers import Nudged

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415


def run_guarded(
    script: str, args: tuple[str, ...], most_steps: int | None, found: str | None, *, module: bool
) -> NoReturn:
    """Run the script under the guard, print what it found, and exit with the script's status."""
    ctx = click.get_current_context()
    with_guard = {"guard", "script", "args", "module", "most_steps", "found"}
    for param in ctx.command.params:
        if param.name not in with_guard and ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE:
            fail(f"--guard records nothing, so {param.opts[-1]} does not apply")
    from pinprof.races.script import run_guarded as run_script
    from pinprof.races.watching import Guard

    job = rank_of_job()
    of_rank = f"Rank {job.rank}: " if job else ""
    watching = Guard("collect", on_found=lambda found: say(of_rank + found.headline))
    with users_program():
        status = run_script(script, args, watching, module=module, most_steps=most_steps)
    show(f"{of_rank}{watching}\n")
    if found:
        from pinprof.report.guard import to_json

        write(found, to_json(watching))
    if status:
        say(f"The script failed with exit status {status}.")
    elif watching.violations:
        say(f"Next: pinprof explain {watching.violations[0].rule.id}")
    sys.exit(status)


def run_noted(
    script: str, args: tuple[str, ...], path: Path, most_steps: int | None, *, module: bool, nudged: "Nudged | None"
) -> NoReturn:
    """Note the numbers of the script's first steps, and exit with its status."""
    from pinprof.trial.first_numbers import run_noted as run_script

    with users_program():
        status = run_script(
            script, args, path, module=module, nudged=nudged, **({"steps": most_steps} if most_steps else {})
        )
    if status:
        say(f"The script failed with exit status {status}.")
    sys.exit(status)
