"""`pinprof worker CONFIG.json`: runs a program for `ab` or `run --repeat`, in a process of its own."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pinprof.cli.run import recorded
from pinprof.cli.script import outputs_of
from pinprof.cli.terminal import Spent, say

if TYPE_CHECKING:
    from pinprof.ab.turns import QuickExit
    from pinprof.ab.worker import TurnPlan, WorkerConfig
    from pinprof.capture.window.recording import TimeSteps


@click.command(hidden=True)
@click.argument("config", type=click.Path())
def worker(config: str) -> None:
    """Do what the file CONFIG says, and exit with the status of the program that it names."""
    import msgspec

    from pinprof.ab.worker import WorkerConfig

    work = msgspec.json.decode(Path(config).read_bytes(), type=WorkerConfig)
    time_steps, leaving = _turns(work.task.turns)
    status = _record(work, time_steps)
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


def _record(work: "WorkerConfig", time_steps: "TimeSteps | None") -> int:
    import msgspec

    from pinprof.capture.job import agreement_of_process

    task = work.task
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
