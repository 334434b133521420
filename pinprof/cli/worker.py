"""`pinprof worker CONFIG.json`: runs a program for `ab`, `try` or `run --repeat`, in a process of its own."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pinprof.cli.run import recorded
from pinprof.cli.script import outputs_of
from pinprof.cli.terminal import Spent, say, show, users_program, write

if TYPE_CHECKING:
    from pinprof.ab.turns import QuickExit
    from pinprof.ab.worker import GuardCopies, NoteNumbers, Record, TurnPlan, WorkerConfig
    from pinprof.capture.window.recording import TimeSteps


@click.command(hidden=True)
@click.argument("config", type=click.Path())
def worker(config: str) -> None:
    """Do what the file CONFIG says, and exit with the status of the program that it names."""
    import msgspec

    from pinprof.ab.worker import GuardCopies, Record, WorkerConfig

    work = msgspec.json.decode(Path(config).read_bytes(), type=WorkerConfig)
    task, leaving = work.task, None
    if isinstance(task, Record):
        time_steps, leaving = _turns(task.turns)
        status = _record(work, task, time_steps)
    elif isinstance(task, GuardCopies):
        status = _guard(work, task)
    else:
        status = _note(work, task)
    if status:
        say(f"The script failed with exit status {status}.")
    if leaving:
        leaving.status = status
    sys.exit(status)


def _turns(turns: "TurnPlan | None") -> "tuple[TimeSteps | None, QuickExit | None]":
    """Wait for the first turn, if there are any; return what times the steps in turns, and what ends this process."""
    if turns is None:
        return None, None
    from pinprof.ab.turns import Cores, QuickExit, turn_window, wait_for_turn

    leaving = QuickExit()
    wait_for_turn(turns, Cores())  # torch is loaded, the program has not begun
    return partial(turn_window, turns), leaving


def _record(work: "WorkerConfig", task: "Record", time_steps: "TimeSteps | None") -> int:
    import msgspec

    from pinprof.capture.job import agreement_of_process

    outcome = recorded(
        outputs_of(work.output, work.output, of_job=False),
        agreement_of_process(),
        Spent(),
        script=work.script,
        args=work.args,
        module=work.module,
        step_marker=task.step_marker,
        options=task.options,
        time_steps=time_steps,
        beyond_epoch=task.beyond_epoch,
        keep_going=task.keep_going,
        **({} if task.stretch_after is None else {"stretch_after": task.stretch_after}),
    )
    if task.outcome:
        Path(task.outcome).write_bytes(msgspec.json.encode(outcome, enc_hook=str))
    for remark in outcome.remarks:
        say(remark)
    return outcome.exit_status


def _note(work: "WorkerConfig", task: "NoteNumbers") -> int:
    from pinprof.trial.first_numbers import run_noted

    path = Path(work.output)
    with users_program():
        return run_noted(work.script, work.args, path, module=work.module, steps=task.steps, nudged=task.nudged)


def _guard(work: "WorkerConfig", task: "GuardCopies") -> int:
    from pinprof.document import encoded
    from pinprof.races.guard import Guard, result_of, run_guarded

    guard = Guard("collect", on_found=lambda violation: say(violation.headline))
    with users_program():
        status = run_guarded(work.script, work.args, guard, module=work.module, most_steps=task.steps)
    show(f"{guard}\n")
    write(work.output, encoded(result_of(guard)))
    return status
