"""The script of `pinprof run`: its options, errors if it cannot run, the files named after it, and the guard."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import click
from click.core import ParameterSource

from pinprof.cli.terminal import fail, say, show, users_program
from pinprof.ground.outputs import STANDARD
from pinprof.program.user_program import is_script

if TYPE_CHECKING:
    from pinprof.capture.job import Rank

WRONG_USAGE = 2
"""Exit status of a script that refuses its arguments, as argparse does."""
LAUNCHERS = {
    "torchrun": "torchrun ... -m pinprof run {script}",
    "accelerate": "pinprof run -m accelerate.commands.launch {script}",
    "deepspeed": "pinprof run -m deepspeed.launcher.runner {script}",
}


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
    if not is_script(script):
        fail(f"{script}: {_not_a_script(script, args)}")
    if script.endswith((".json", ".json.gz", ".json.zst")):
        fail(f"{script}: is not a Python script; to report on a trace: pinprof report {shlex.quote(script)}")


def _not_a_script(word: str, args: Sequence[str]) -> str:
    script = next((arg for arg in args if arg.endswith(".py")), None)
    shown = shlex.quote(script) if script else "SCRIPT"
    if Path(word).name in {"python", "python3"}:
        return f"pinprof starts Python itself: pinprof run {shown}"
    if word in LAUNCHERS:
        return f"is not a Python script; write: {LAUNCHERS[word].format(script=shown)}"
    if word == STANDARD:
        return "pinprof runs no program from standard input; write it to a file"
    if Path(word).is_dir():
        return "is a folder without a __main__.py; name the script in it"
    return "is not a regular file; write the program to one" if Path(word).exists() else "no such script"


def advice_on_options(args: tuple[str, ...], script: str, status: int) -> str:
    """Return advice if an option of pinprof follows a script that refused its arguments; otherwise nothing."""
    own = {name for param in click.get_current_context().command.params for name in param.opts}
    wrong = next((word for word in args if word.partition("=")[0] in own), None)
    if status != WRONG_USAGE or wrong is None:
        return ""
    return f" {wrong} went to it: options of pinprof come before the script, pinprof run {wrong} ... {script}"


class Outputs(NamedTuple):
    """The files that a process writes; in a job of several ranks their names contain its rank."""

    trace: str
    page: str
    is_first: bool
    again: str
    """The command that reports on the traces of all ranks again."""


def outputs_of(output: str | None, name: str, *, of_job: bool) -> Outputs:
    """Return the files of this process; make their folder if the user names one."""
    from pinprof.capture.job import path_of_rank

    base, rank = _base(output, name), rank_of_job()
    trace = str(base if rank is None else path_of_rank(base, rank.rank))
    traces = f"{base.parent}/" if _is_folder(output) else str(path_of_rank(base, "*"))
    again = f"pinprof report {shlex.quote(traces)}"
    page = str(base if of_job else trace).removesuffix(".gz").removesuffix(".json") + ".html"
    return Outputs(trace, page, rank is None or rank.rank == 0, again)


def name_of(script: str, args: tuple[str, ...], *, module: bool) -> str:
    """Return the name for the outputs: that of the script, also if a launcher starts it, or of the module."""
    from pinprof.capture.children.commands import FOLLOWED_LAUNCHERS

    if module:
        started = next((word for word in args if word.endswith(".py")), None) if script in FOLLOWED_LAUNCHERS else None
        return Path(started).stem if started else script.rpartition(".")[2]
    return Path(script).absolute().stem


def _base(output: str | None, name: str) -> Path:
    """Return the trace to write, without the number of a rank; in a folder, which this makes, it has this name."""
    if output == "-":
        fail("standard output cannot hold a recording; name a file")
    if output is None or not _is_folder(output):
        return Path(output or name)
    folder = Path(output)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        fail(f"{output}: cannot make this folder ({error.strerror})")
    return folder / name


def has_default_name(output: str | None) -> bool:
    """Return whether the files are named after the script; then those of its last run are overwritten."""
    return output is None or _is_folder(output)


def _is_folder(output: str | None) -> bool:
    return output is not None and (output.endswith(("/", os.sep)) or Path(output).is_dir())


def rank_of_job() -> "Rank | None":
    """Return the rank of this process if its job has several."""
    from pinprof.capture.job import rank_of_process

    rank = rank_of_process()
    return rank if rank and rank.world_size > 1 else None


def guard_script(script: str, args: tuple[str, ...], *, module: bool) -> NoReturn:
    """Run the script under the guard, print what it found, and exit with the script's status."""
    ctx = click.get_current_context()
    with_guard = {"guard", "script", "args", "module"}
    for param in ctx.command.params:
        if param.name not in with_guard and ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE:
            fail(f"--guard records nothing, so {param.opts[-1]} does not apply")
    from pinprof.races.guard import Guard, run_guarded

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
