"""`pinprof log`: log the report on a trace or a job to a run of MLflow or Weights & Biases."""

import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from pinprof.cli.options import NO_SOURCE, JobOptions, MachineFile, code_of, job_options, jobs_option, machine_option
from pinprof.cli.report import job_page
from pinprof.cli.terminal import fail, progress, say
from pinprof.cli.traces import (
    analysing,
    chosen_job,
    expanded,
    measured_ranks,
    read,
    say_skipped,
    say_what_has_no_effect,
)
from pinprof.units import counted

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pinprof.report.source import Code
    from pinprof.tracking import Destination, Logged

OF_MLFLOW = ("tracking_uri", "experiment")
OF_WANDB = ("project", "entity", "offline")
"""Options that only one tracker has."""


@click.command(short_help="Log the report on a trace to a run of MLflow or Weights & Biases.")
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path())
@click.option("--mlflow", is_flag=True, help="Log to MLflow.")
@click.option("--tracking-uri", metavar="URI", help="MLflow's server or store  [env var: MLFLOW_TRACKING_URI].")
@click.option(
    "--experiment", metavar="NAME", help="MLflow's experiment, made if it is new  [env var: MLFLOW_EXPERIMENT_NAME]."
)
@click.option("--wandb", is_flag=True, help="Log to Weights & Biases.")
@click.option("--project", metavar="NAME", help="W&B's project  [env var: WANDB_PROJECT].")
@click.option("--entity", metavar="NAME", help="W&B's user or team  [env var: WANDB_ENTITY].")
@click.option("--offline", is_flag=True, help="Let W&B write to a folder, for wandb sync  [env var: WANDB_MODE].")
@click.option(
    "--run-id", metavar="ID", help="Log to this run instead of a new one  [env vars: MLFLOW_RUN_ID, WANDB_RUN_ID]."
)
@click.option("--run-name", metavar="NAME", help="What to call a new run  [env vars: MLFLOW_RUN_NAME, WANDB_NAME].")
@NO_SOURCE
@machine_option
@job_options
@jobs_option
def log(
    traces: tuple[str, ...], *, no_source: bool, machine: MachineFile | None, job: JobOptions, **tracker: Any
) -> None:
    """Log the report on a TRACE, or on the ranks of a job, to a run of MLflow or Weights & Biases.

    The run gets the figures, named as in the JSON of pinprof report: pinprof/steps/step_ms, pinprof/overlap/fraction,
    pinprof/joint/saving_ms. It gets the verdict in words, and report.html and report.json as artifacts. A figure that
    the trace does not show is not logged, and pinprof/withheld says why. Of a job it gets the figures of the rank that
    the report shows.

    Each library finds its server, its credentials and its defaults as it always does, environment variables included.
    With --run-id the report goes into an existing run, such as that of the training; MLflow keeps its status.

    \b
    Examples:
      pinprof log trace.json.gz --mlflow
      pinprof log trace.json.gz --mlflow --tracking-uri sqlite:///mlflow.db
      pinprof log trace.json.gz --mlflow --experiment bert --run-name baseline
      pinprof log trace.json.gz --mlflow --run-id 5c3a0f4e1d2b
      pinprof log trace.json.gz --wandb --project bert
      pinprof log trace.json.gz --wandb --offline
      pinprof log run/ --wandb --project bert --run-id 1x2y3z
    """  # noqa: D301  click looks for the backspace itself
    runs = list(_runs(**tracker))
    logged = _logged(traces, code_of(quotes=not no_source), machine, job)
    with ExitStack() as stack, progress("logging"):
        opened = [stack.enter_context(run) for run in runs]
        for run in opened:
            run.take(logged)
            say(f"Logged {counted(len(logged.numbers), 'figure')}, {' and '.join(logged.files)} to {run}")
    for run in opened:
        if run.see:
            say(f"Next: {run.see}")


def _runs(
    *, mlflow: bool, wandb: bool, run_id: str | None, run_name: str | None, **options: Any
) -> "Iterator[AbstractContextManager[Destination]]":
    """Yield the runs to log to, not yet open. Refuses options that do not fit, and a library that is not installed."""
    from pinprof import tracking

    if not mlflow and not wandb:
        fail("say where to log to: --mlflow or --wandb")
    if mlflow and wandb and run_id:
        fail("--run-id is of one tracker; log to --mlflow and --wandb one after the other")
    for chosen, tracker, names in ((mlflow, "--mlflow", OF_MLFLOW), (wandb, "--wandb", OF_WANDB)):
        other = next((name for name in names if options[name]), None)
        if other and not chosen:
            fail(f"--{other.replace('_', '-')} is an option of {tracker}")
    if mlflow:
        tracking.mlflow()
        set_options = {name: options[name] for name in OF_MLFLOW}
        yield tracking.opened_in_mlflow(**set_options, run_id=run_id, run_name=run_name)
    if wandb:
        tracking.wandb()
        set_options = {name: options[name] for name in OF_WANDB}
        yield tracking.opened_in_wandb(**set_options, run_id=run_id, run_name=run_name)


def _logged(traces: tuple[str, ...], code: "Code", machine: MachineFile | None, job: JobOptions) -> "Logged":
    """Return what to log of a trace, or of the ranks of a job."""
    from pinprof.report.scalars import to_logged
    from pinprof.report.trace.json import traces_to_json
    from pinprof.report.trace.page import to_html

    files = [path for argument in expanded(traces) for path in argument.files]
    if len(files) > 1:
        return _logged_of_job(files, code, machine, job)
    analysis = read(files[0], analysing(machine))
    say_what_has_no_effect(job)
    with progress("drawing the page"):
        page = to_html([analysis], code)
    return to_logged(traces_to_json([(analysis.profile, analysis.findings)]), page)


def _logged_of_job(files: list[str], code: "Code", machine: MachineFile | None, job: JobOptions) -> "Logged":
    from pinprof.ranks.compare import compare_ranks
    from pinprof.report.scalars import to_logged
    from pinprof.report.trace.json import traces_to_json

    measured_files, skipped = measured_ranks(files, job, machine)
    say_skipped(skipped)
    of_job = chosen_job(measured_files, job)
    if of_job is None:
        fail(f"a run gets one report; log these traces one by one, e.g. {shlex.quote(files[0])}")
    measured, remarks = of_job
    for remark in remarks:
        say(remark)
    parts = [part for _, part in measured]
    ranks = compare_ranks(parts, remarks)
    document = traces_to_json([(part.profile, part.findings) for part in parts], ranks)
    return to_logged(document, job_page(ranks, measured, machine, code))
