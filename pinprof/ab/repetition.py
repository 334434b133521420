"""Runs a program several times, each in a fresh process, and records each run as `pinprof run` does."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from pinprof.ab.worker import Record, WorkerConfig, worker_command
from pinprof.analyses.whole_run.regular_step import Runs, runs_of, timed_regular_step
from pinprof.capture.script import ScriptRun
from pinprof.capture.window.trace_file import sections_of, store
from pinprof.outputs import unfinished
from pinprof.processes import end_process
from pinprof.program.user_program import UserProgram
from pinprof.temporary import temporary_folder
from pinprof.trace.run_log import RUN_KEY, run_of_metadata

OUTCOME = "outcome"
"""The file in which a worker says how its program ended."""


@dataclass(frozen=True)
class RepeatedRecording:
    """The run to report on, if any; the exit status of the last run; the steps of the runs that count."""

    run: ScriptRun | None
    status: int
    runs: Runs | None = None


@dataclass(frozen=True)
class _Run:
    """A run that was recorded, and the regular step of each of its traces, in ns, by the name of the file."""

    outcome: ScriptRun
    step_ns: Mapping[str, float]

    @property
    def first_step_ns(self) -> float:
        """The step by which runs are compared: that of the first trace."""
        return next(iter(self.step_ns.values()), 0.0)


def record_repeatedly(
    program: UserProgram, task: Record, output: Path, times: int, say: Callable[[str], None]
) -> RepeatedRecording:
    """Record a program several times, and write the trace of the run with the median step to `output`.

    Traces of its children go into the same folder. The steps of all runs are stored in the traces. After a run that
    fails, or that Ctrl-C ends, no more follow; the report is on the runs before, or on that run if it was the first.
    """
    runs: list[_Run] = []
    status = 0
    with temporary_folder("repeat") as folder:
        for number in range(1, times + 1):
            say(f"Run {number} of {times}")
            run, status = _run(program, task, folder / str(number) / output.name)
            if run and not (status and runs):
                runs.append(run)
            if status:
                if number > 1:
                    say(f"Run {number} of {times} ended with exit status {status}, and does not count")
                break
        if not runs:
            return RepeatedRecording(None, status)
        timed = runs_of(tuple(run.first_step_ns for run in runs if run.step_ns))
        middle = sorted(runs, key=lambda run: run.first_step_ns)[(len(runs) - 1) // 2]
        return RepeatedRecording(_moved(middle, runs, output.absolute().parent), status, timed)


def _run(program: UserProgram, task: Record, output: Path) -> tuple[_Run | None, int]:
    """Run the program once; return its recording, if it has one, and its exit status."""
    output.parent.mkdir()
    outcome = output.with_name(OUTCOME)
    task = msgspec.structs.replace(task, outcome=str(outcome))
    work = WorkerConfig(program.name, list(program.args), program.module, task, str(output))
    status = _exit_status(worker_command([sys.executable], work, output.parent))
    if outcome.exists():
        ended = msgspec.json.decode(outcome.read_bytes(), type=ScriptRun, dec_hook=lambda kind, text: kind(text))
    elif output.exists():  # the program left its process at once, by os._exit
        ended = ScriptRun(output, 0, 0, None, "", stopped=False, exit_status=status)
    else:
        return None, status or 1
    return _Run(ended, {path.name: step_ns for path in _traces(ended) if (step_ns := _step_ns(path))}), status


def _traces(run: ScriptRun) -> list[Path]:
    """Return the files that a run wrote: of the script itself, and of its children."""
    return [path for path in (run.path, *(child.path for child in run.children)) if path]


def _exit_status(command: Sequence[str]) -> int:
    """Run a command in this terminal; return its exit status, as a shell gives it.

    Ctrl-C goes to both processes, and ends the program alone; a second one, or another signal, ends this one, too.
    """
    process = subprocess.Popen(command)  # noqa: S603  this Python, and the user's program
    try:
        try:
            status = process.wait()
        except KeyboardInterrupt as interruption:
            if getattr(interruption, "number", signal.SIGINT) != signal.SIGINT:
                raise
            status = process.wait()
        return status if status >= 0 else 128 - status
    finally:
        end_process(process)


def _step_ns(trace: Path) -> float | None:
    """Return the regular step of a recording; None if it was not timed."""
    log = run_of_metadata(sections_of(trace).get(RUN_KEY))
    regular = timed_regular_step(log) if log else None
    return regular.step_ns if regular else None


def _moved(middle: _Run, runs: Sequence[_Run], folder: Path) -> ScriptRun:
    """Store the steps of all runs in the traces of one, and move these into the folder; return how that run ended."""
    for trace in _traces(middle.outcome):
        log = run_of_metadata(sections_of(trace).get(RUN_KEY))
        steps_ns = tuple(run.step_ns[trace.name] for run in runs if trace.name in run.step_ns)
        if log and len(steps_ns) > 1:
            store(trace, {RUN_KEY: replace(log, runs_ns=steps_ns)})
        with unfinished(folder / trace.name) as temporary:
            shutil.copyfile(trace, temporary)
    ended = middle.outcome
    children = tuple(replace(child, path=child.path and folder / child.path.name) for child in ended.children)
    return replace(ended, path=ended.path and folder / ended.path.name, children=children)
