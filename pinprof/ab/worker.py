"""A version of a program, and the worker that runs it: a process of `pinprof worker`, whose task is in a file."""

import os
import shlex
import shutil
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from pinprof.capture.children.commands import PythonCommand, python_command
from pinprof.capture.options import RecordingOptions
from pinprof.errors import MeasureError
from pinprof.processes import Running, running
from pinprof.program.user_program import HOME
from pinprof.temporary import temporary_folder

Result = TypeVar("Result")

CONFIG = "worker.config"
"""The file with a worker's task, in the folder of its output."""
OUTPUT = "output.json"
PINPROF = (
    "import sys; sys.path[0] = {home!r}; import pinprof; sys.path[0] = ''; "
    "{home!r} in sys.path or sys.path.append({home!r}); from pinprof.cli import main; main()"
)
"""Runs this pinprof, even if it is not installed, or if another one is installed or in the program's folder."""


class StepOptions(NamedTuple):
    """How to find the steps of a program, and how many to skip: options of `pinprof run`."""

    step_marker: str = "auto"
    warmup: int = 10
    max_warmup: int = 100


AUTO = StepOptions()


CORES = struct.Struct("<HH")
"""The message that begins and ends a turn: the cores of the program's main thread, and of its backward thread."""
ANY = 0xFFFF
ANY_CORES = CORES.pack(ANY, ANY)


class TurnPlan(msgspec.Struct, frozen=True):
    """How a program takes turns: `settling` steps and `steps` that count in each of `number` turns."""

    socket: int
    """The descriptor of the socket: a message to the program begins its turn, one from it says that it waits."""
    settling: int
    """Steps that do not count: caches are cold, and workers made their batches before the turn."""
    steps: int
    number: int


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The task to record steps, or only to time them where the options ask for no profiler."""

    step_marker: str
    options: RecordingOptions
    turns: TurnPlan | None = None
    """How steps are timed in turns with another program."""
    beyond_epoch: bool = False
    """Whether to time steps beyond the first epoch, however short it is."""
    keep_going: bool = False
    stretch_after: float | None = None
    """As for `pinprof run`; None: its default."""
    outcome: str | None = None
    """The file for how the program ended: a `ScriptRun`."""


class WorkerConfig(msgspec.Struct, frozen=True):
    """A script or module, its arguments, the task, and the file for the worker's results."""

    script: str
    args: list[str]
    module: bool
    task: Record
    output: str


@dataclass(frozen=True)
class ProgramVersion:
    """A version of a program."""

    name: str
    """Its name in the output: a revision, or `working tree`."""
    words: tuple[str, ...]
    """`python train.py --lr 1`, `train.py --lr 1`, `-m package.train`, or `torchrun --nproc-per-node 2 train.py`."""
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that are added to this process's environment, or replace those there."""
    not_its_own: tuple[str, ...] = ()
    """Folders of the other version, whose code this one must not import; each ends with a separator."""

    @contextmanager
    def worker(self, task: Record, output: Path, descriptors: Sequence[int] = ()) -> Iterator["Worker"]:
        """Start a worker that does the task and writes `output`; it and all that it starts end with the block.

        Its config is written into the folder of `output`. Raises MeasureError if the command is not one of this Python.
        """
        with running(self.worker_command(task, output), self.folder, self.environment, descriptors) as process:
            yield Worker(self, output, process)

    def worker_command(self, task: Record, output: Path) -> list[str]:
        """Return the command of that worker."""
        command = self.python_command()
        config = WorkerConfig(command.name, list(command.args), command.module, task, str(output))
        return worker_command(command.python, config, output.parent)

    def python_command(self) -> PythonCommand:
        """Return its command as one of this Python. Raises MeasureError if it is not one, or lacks its script."""
        words = with_python(self.words)
        command = python_command(words, {**os.environ, **self.environment}, self.folder)
        if command is None:
            if "-c" in words[:2]:
                raise MeasureError(f"{shlex.join(self.words)}: a program of -c cannot be measured; put it into a file")
            path = shutil.which(words[0]) if words else None
            found_elsewhere = f" ({words[0]} is {path})" if path else ""
            raise MeasureError(
                f"{shlex.join(self.words) or 'nothing'}: not a command of the Python that runs pinprof, "
                f"{sys.executable}{found_elsewhere}; leave `python` out, as in `train.py ...` and `-m module ...`, or "
                "activate the environment of that one, for its `torchrun`, too"
            )
        if not command.module and not (self.folder / command.name).is_file():
            raise MeasureError(f"{self.name}: there is no script {command.name}")
        return command


@dataclass(frozen=True)
class Worker:
    """A process that does a task with a version."""

    program: ProgramVersion
    output: Path
    process: Running

    def finish(self, limit_s: float, end: float | None = None) -> None:
        """Wait until it has ended.

        Raises MeasureError if it fails, or has not ended at `end` on the monotonic clock, by default after `limit_s`.
        """
        status = self.process.wait(limit_s if end is None else max(end - time.monotonic(), 0.0))
        if status is None:
            raise MeasureError(f"{self.program.name}: it has not made its steps after {limit_s:.0f} s")
        if status:
            raise MeasureError(f"{self.program.name}: {self.process.why_failed(status)}")

    def read(self, read: Callable[[Path], Result]) -> Result:
        """Return what `read` reads in the folder of the output. Raises MeasureError with the name of the version."""
        try:
            return read(self.output.parent)
        except MeasureError as error:
            raise MeasureError(f"{self.program.name}: {error}") from error


@contextmanager
def workers(runs: Iterable[tuple[ProgramVersion, Record]]) -> Iterator[list[Worker]]:
    """Start workers at the same time, each with a folder of its own; they end with the block."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(program.worker(task, stack.enter_context(temporary_folder("ab")) / OUTPUT))
            for program, task in runs
        ]


def worker_command(python: Sequence[str], config: WorkerConfig, folder: Path) -> list[str]:
    """Write the config of a worker into a file in the folder, and return the worker's command."""
    file = folder / CONFIG
    file.write_bytes(msgspec.json.encode(config))
    return [*python, "-c", PINPROF.format(home=HOME), "worker", str(file)]


def with_python(words: Sequence[str]) -> list[str]:
    """Return a command with this Python before it, where it begins with a script or `-m`."""
    first = words[0] if words else ""
    return [sys.executable, *words] if first == "-m" or first.endswith(".py") else list(words)
