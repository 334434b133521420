"""Runs a program several times, each in a fresh process, and records each run as `pinprof run` does.

Each process is one of `pinprof worker`, whose task is in a file. Another file gets how the program ended.
"""

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from pinprof.analyses.whole_run import Runs, runs_of, timed_regular_step
from pinprof.capture.options import RecordingOptions
from pinprof.capture.script import ScriptRun
from pinprof.capture.window.trace_file import sections_of, store
from pinprof.ground.outputs import unfinished
from pinprof.ground.processes import exit_status, temporary_folder
from pinprof.program.user_program import IMPORT_FOLDER
from pinprof.trace.metadata.run_log import RUN_KEY, RunLog, run_of_metadata

TASK_FILE, OUTCOME_FILE = "task", "outcome"
"""The files, next to the output of a worker, with its task and with how its program ended."""
WORKER_PROGRAM = (
    "import sys; sys.path[0] = {home!r}; import pinprof; sys.path[0] = ''; "
    "{home!r} in sys.path or sys.path.append({home!r}); from pinprof.cli import main; main()"
)
"""Runs this pinprof, even if it is not installed, or if another one is installed or in the program's folder."""


class WorkerTask(msgspec.Struct, frozen=True, kw_only=True):
    """The task to record a program: arguments of `run_script`, and the trace to write."""

    script: str
    args: tuple[str, ...]
    module: bool
    step_marker: str
    keep_going: bool
    options: RecordingOptions
    output: str

    @property
    def outcome(self) -> Path:
        """The file for how the program ended."""
        return Path(self.output).with_name(OUTCOME_FILE)

    def command(self) -> list[str]:
        """Write the task into a file next to the output, and return the command of its worker."""
        file = Path(self.output).with_name(TASK_FILE)
        file.write_bytes(msgspec.json.encode(self))
        return [sys.executable, "-c", WORKER_PROGRAM.format(home=IMPORT_FOLDER), "worker", str(file)]


@dataclass(frozen=True)
class RepeatedRecording:
    """The run to report on, if any; the exit status of the last run; the steps of the runs that count."""

    run: ScriptRun | None
    status: int
    runs: Runs | None = None


class _Run(NamedTuple):
    outcome: ScriptRun
    step_ns: Mapping[str, float]  # the regular step of each of its traces, by the name of the file
    first_step_ns: float  # the step by which runs are compared: that of the first trace


def record_repeatedly(task: WorkerTask, times: int, say: Callable[[str], None]) -> RepeatedRecording:
    """Record a program several times, and write the trace of the run with the median step to the task's output.

    Traces of its children go into the same folder. The steps of all runs are stored in the traces. After a run that
    fails, or that Ctrl-C ends, no more follow; the report is on the runs before, or on that run if it was the first.
    """
    runs: list[_Run] = []
    output, status = Path(task.output), 0
    with temporary_folder() as folder:
        for number in range(1, times + 1):
            if times > 1:
                say(f"Run {number} of {times}")
            (folder / str(number)).mkdir()
            run, status = _run(msgspec.structs.replace(task, output=str(folder / str(number) / output.name)))
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


def _run(task: WorkerTask) -> tuple[_Run | None, int]:
    status = exit_status(task.command())
    if task.outcome.exists():
        ended = msgspec.json.decode(task.outcome.read_bytes(), type=ScriptRun, dec_hook=lambda kind, text: kind(text))
    elif Path(task.output).exists():  # the program left its process at once, by os._exit
        ended = ScriptRun(Path(task.output), None, "", stopped=False, exit_status=status)
    else:
        return None, status or 1
    regular = {trace.name: timed_regular_step(log) for trace in _traces(ended) if (log := _log_of(trace))}
    step_ns = {name: step.step_ns for name, step in regular.items() if step}
    return _Run(ended, step_ns, next(iter(step_ns.values()), 0.0)), status


def _traces(run: ScriptRun) -> list[Path]:
    return [path for path in (run.path, *(child.path for child in run.children)) if path]


def _log_of(trace: Path) -> RunLog | None:
    return run_of_metadata(sections_of(trace).get(RUN_KEY))


def _moved(middle: _Run, runs: Sequence[_Run], folder: Path) -> ScriptRun:
    """Store the steps of all runs in the traces of one, and move these into the folder; return how that run ended."""
    for trace in _traces(middle.outcome):
        log = _log_of(trace)
        steps_ns = tuple(run.step_ns[trace.name] for run in runs if trace.name in run.step_ns)
        if log and len(steps_ns) > 1:
            store(trace, {RUN_KEY: replace(log, runs_ns=steps_ns)})
        with unfinished(folder / trace.name) as temporary:
            shutil.copyfile(trace, temporary)
    ended = middle.outcome
    children = tuple(replace(child, path=child.path and folder / child.path.name) for child in ended.children)
    return replace(ended, path=ended.path and folder / ended.path.name, children=children)
