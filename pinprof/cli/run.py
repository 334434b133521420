"""`pinprof run`: records a training script; for `--repeat` by `pinprof worker`, in processes of their own."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
import msgspec

from pinprof.capture.options import RecordingOptions, on_command_line
from pinprof.capture.steps.sources import AUTO, SOURCES_BY_OPTION, STEP_CALLS
from pinprof.cli.inputs import NO_SOURCE, MachineFile, code_of, machine_option
from pinprof.cli.run_report import give_up, report_outcome, say_verdict
from pinprof.cli.script import (
    BeforeScript,
    Outputs,
    advice_on_options,
    as_given,
    guard_script,
    has_default_name,
    name_of,
    outputs_of,
    refuse_no_script,
)
from pinprof.cli.terminal import check_outputs, fail, force_option, say, step_counter, users_program
from pinprof.ground.errors import CaptureError, TooFewSteps
from pinprof.ground.host_time import HOST_TIME
from pinprof.ground.units import counted

if TYPE_CHECKING:
    from pinprof.capture.job import Agreement
    from pinprof.capture.script import ScriptRun

OFFERED_OPTIONS = {field.name: field for field in msgspec.structs.fields(RecordingOptions) if get_args(field.type)}
MAX_RERUN_S = 120.0
"""A script that has too few steps, and took no longer than this, runs once more to record fewer."""


HELP = """Run a training SCRIPT with ARGS as python does, record some of its steps, and report on them.

Options of pinprof come before SCRIPT; all options after it belong to the script. The short form is
pinprof SCRIPT.

pinprof finds the steps by the batches and the optimizer steps of the script. Without these it takes calls of
backward, then calls of the outermost module, and last, after 30 s of work, a stretch of 3 s. After a warm-up it times
steps without a profiler, until the mean of the regular steps is known to 2 %, for 5 s at most. Then torch.profiler
records a few steps (the trace), and a few more show the source line of every wait. Further steps at full speed show
which lines wait only now and then. Then pinprof stops the script.

Under torchrun each rank writes its own trace (out.rank3.json.gz), and all ranks record the same steps: through the
store of the job they agree when to start and stop. Rank 0 reports on itself; with --job-report, on all ranks.
Give -o a folder that all machines share; otherwise each machine keeps its own traces.

pinprof follows the processes that the script starts: torch.multiprocessing.spawn, multiprocessing, and launchers
and scripts that it starts as Python programs (not through a shell). Each process that makes steps writes its own
trace: out.rank3.json.gz in a job, else out.child0.json.gz. pinprof stops these processes after the recording, all
ranks at the same step; the script itself runs to its end. Then pinprof reports on all ranks.

With --repeat N pinprof runs the script N times, each time in a fresh process, and reports on the run whose step is
in the middle. The steps of two processes may differ by some 15 %; N runs show by how much. A run that fails or is
interrupted ends the series, and does not count.

With --every N the script runs to its end, and pinprof records 5 steps again after every N steps. It says in a line how
long a step takes now, and why. The latest trace is out.latest.json.gz.

With --guard pinprof records nothing. The script runs to its end, but slower. pinprof reports each use of host
memory that a non-blocking copy still reads or writes: in one line when it happens, and at the end with both stacks
and the fix. The exit status is the script's own. The guard sees only the script's own process, not its children.

\b
Examples:
  pinprof run train.py --epochs 1
  pinprof run -m my_package.train --epochs 1
  pinprof run --repeat 3 train.py
  pinprof run --every 1000 train.py
  pinprof run --step-marker Trainer.train_step train.py
  torchrun --nproc-per-node 8 -m pinprof run -o run/ --job-report train.py
  pinprof run -m torch.distributed.run --nproc-per-node 2 train.py
  pinprof run --guard train.py --epochs 1
"""


def offered_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that these fields of `RecordingOptions` offer."""

    def offer(command: Callable[..., None]) -> Callable[..., None]:
        for name in reversed(names):
            kind, meta = get_args(OFFERED_OPTIONS[name].type)
            option, metavar = meta.extra["name"] or name.replace("_", "-"), meta.extra["metavar"]
            number = {"type": click.IntRange(min=meta.extra["least"]), "show_default": not metavar, "metavar": metavar}
            settings = {"is_flag": True} if kind is bool else number
            default = None if metavar else OFFERED_OPTIONS[name].default
            command = click.option(f"--{option}", name, default=default, help=meta.description, **settings)(command)
        return command

    return offer


@click.command(
    cls=BeforeScript,
    help=HELP,
    context_settings={"allow_interspersed_args": False},
    short_help="Run a training script, record some of its steps, and report on them.",
)
@click.argument("script", type=click.Path())
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("-m", "--module", is_flag=True, help="SCRIPT is the name of a module, as with python -m.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="The trace to write, or FOLDER/; the report gets the same name with .html. Default: pinprof-SCRIPT.json.gz.",
)
@click.option(
    "--step-marker",
    default=AUTO,
    show_default=True,
    metavar="MARKER",
    help="What marks a step: "
    f"{', '.join(f'{source.option} ({source.step})' for source in SOURCES_BY_OPTION.values())}, a call of a function "
    f"or Class.method of the script, or of MODULE:FUNCTION; {AUTO} finds out, unless {STEP_CALLS.step}.",
)
@offered_options("steps", "warmup", "record_shapes", "profile_memory")
@click.option(
    "--repeat",
    default=1,
    show_default=True,
    metavar="N",
    type=click.IntRange(min=1),
    help="Record the script N times, each time in a fresh process: the report gives a range that holds for other runs.",
)
@offered_options("every")
@click.option("--keep-going", is_flag=True, help="Let the script finish after the recording.")
@click.option("--job-report", is_flag=True, help="Report on all ranks of the job together.")
@click.option(
    "--guard",
    is_flag=True,
    help="Record nothing; run the script to its end and find host memory that it uses before an asynchronous copy has "
    "ended.",
)
@NO_SOURCE
@machine_option
@force_option
def run(
    script: str,
    args: tuple[str, ...],
    *,
    output: str | None,
    job_report: bool,
    guard: bool,
    machine: MachineFile | None,
    force: bool,
    **options: Any,
) -> None:
    """Record the script, or guard it, and report; end with its exit status."""
    module, repeat = options["module"], options["repeat"]
    if guard:
        guard_script(script, args, module=module)
    outputs = _checked_outputs(script, args, output, machine, module=module, of_job=job_report, force=force)
    from pinprof.capture.job import agreement_of_process
    from pinprof.program.machine import sees_gpu

    agreement = agreement_of_process()
    if repeat > 1:
        _refuse_repeat(agreement, options["every"])
    if outputs.is_first and not sees_gpu():
        say("torch finds no GPU here: the report names the lines that take the host's time, but no waits for a GPU")
    code = code_of(quotes=not options.pop("no_source"))
    options["replaces_own"] = has_default_name(output)
    options["keep_going"] |= bool(options["every"])
    task = {name: options[name] for name in ("module", "step_marker", "keep_going")}
    task |= {"script": script, "args": args, "options": _recording_options(options, force=force)}
    if repeat > 1:
        outcome, status = _repeated(repeat, output=outputs.trace, **task)
    else:
        begin_s = HOST_TIME.monotonic()
        try:
            outcome = recorded(outputs, agreement, on_recorded=say_verdict, **task)
        except TooFewSteps as error:
            took_s = HOST_TIME.monotonic() - begin_s
            is_fixed = agreement is not None or options["warmup"] is not None or options["every"]
            if is_fixed or not error.recordable or took_s > MAX_RERUN_S:
                raise
            say(
                f"The script has too few steps to record {options['steps']} of them: it runs once more, for "
                f"{error.recordable} (--warmup 1 --steps {error.recordable})"
            )
            task["options"] = _recording_options(options | {"warmup": 1, "steps": error.recordable}, force=force)
            outcome, _ = _repeated(1, output=outputs.trace, **task)
        status = outcome.exit_status
        for remark in outcome.remarks:
            say(remark)
    report_outcome(outcome, outputs, agreement, machine, code, job_report=job_report)
    if status and repeat == 1:
        advice = advice_on_options(args, script, status)
        say(f"The script failed with exit status {status}{_what_is_kept(outcome)}.{advice}")
    if outputs.is_first and outcome.stopped:
        say(f"Stopped after step {outcome.steps}; --keep-going runs to the end")
    sys.exit(status)


def _what_is_kept(outcome: "ScriptRun") -> str:
    """Return after how many steps a script failed, and that nothing was recorded of it, if so."""
    after = f" after {counted(outcome.steps, 'step')}" if outcome.steps else ""
    if outcome.path or outcome.remarks or any(child.path for child in outcome.children):
        return after
    fewer = on_command_line(outcome.steps)
    return f"{after}, before one was recorded: nothing was written" + (f"; {fewer} records sooner" if fewer else "")


def _refuse_repeat(agreement: "Agreement | None", every: int | None) -> None:
    if agreement is not None:
        fail("--repeat: a launcher starts the ranks once; let pinprof start it: pinprof run --repeat N -m torch...")
    if every:
        fail("--every records again and again; leave out --repeat")


def _checked_outputs(
    script: str,
    args: tuple[str, ...],
    output: str | None,
    machine: MachineFile | None,
    *,
    module: bool,
    of_job: bool,
    force: bool,
) -> Outputs:
    """Return the files that the run writes; end with an error if they cannot be written, or the script is missing."""
    outputs = outputs_of(output, f"pinprof-{name_of(script, args, module=module)}.json.gz", of_job=of_job)
    check_outputs(
        (outputs.trace, outputs.page if outputs.is_first else None),
        force=force,
        replaces_own=has_default_name(output),
        reads=(None if module else script, machine and machine.path),
        way=f"overwrite it: pinprof run --force {as_given(script, args, module=module)}",
    )
    if not module:
        refuse_no_script(script, args)
    return outputs


def recorded(outputs: Outputs, agreement: "Agreement | None", **options: Any) -> "ScriptRun":
    """Run and record the script, and tell the other ranks of its job how that ended."""
    from pinprof.capture.script import run_script

    try:
        with step_counter() as show_step, users_program():
            on_progress = show_step if outputs.is_first else None
            outcome = run_script(path=outputs.trace, agreement=agreement, on_progress=on_progress, **options)
    except CaptureError as error:
        if agreement is None:
            raise
        agreement.leave(None)
        give_up(agreement, error)
    if agreement is not None:
        agreement.leave(outcome.path)
        if agreement.why_apart:
            say(f"Rank {agreement.rank} may have recorded other steps than the other ranks: {agreement.why_apart}")
    return outcome


def _repeated(times: int, **task: Any) -> "tuple[ScriptRun, int]":
    from pinprof.capture.repetition import WorkerTask, record_repeatedly
    from pinprof.report.trace.sections.whole_run import words_of_runs

    repeated = record_repeatedly(WorkerTask(**task), times, say)
    if repeated.run is None:
        sys.exit(repeated.status)
    if repeated.runs:
        say(" ".join(words_of_runs(repeated.runs)))
    return repeated.run, repeated.status


def _recording_options(options: dict[str, Any], *, force: bool) -> RecordingOptions:
    chosen = {name: options[name] for name in OFFERED_OPTIONS}
    return RecordingOptions.of_command(**chosen, force=force, replaces_own=options["replaces_own"])


@click.command(hidden=True)
@click.argument("file", type=click.Path())
def worker(file: str) -> None:
    """Record the program of the task in FILE once for `--repeat`, write how it ended, and exit with its status."""
    from pinprof.capture.repetition import WorkerTask

    task = msgspec.json.decode(Path(file).read_bytes(), type=WorkerTask)
    arguments = msgspec.structs.asdict(task)
    output = arguments.pop("output")
    outcome = recorded(outputs_of(output, output, of_job=False), None, **arguments)
    task.outcome.write_bytes(msgspec.json.encode(outcome, enc_hook=str))
    for remark in outcome.remarks:
        say(remark)
    if outcome.exit_status:
        say(f"The script failed with exit status {outcome.exit_status}.")
    sys.exit(outcome.exit_status)
