"""What a worker is told: the version of a program that it runs, and what it finds out. `pinprof worker` runs it."""

from typing import Literal, NamedTuple, TypeAlias

import msgspec

from pinprof.capture.bounds import RecordingOptions

Nudged: TypeAlias = Literal["bits", "updates"]
"""Whether the last bits of the parameters are changed, or those of the updates, too."""


class StepOptions(NamedTuple):
    """How to find the steps of a program, and how many to skip, as the options of `pinprof run` say it."""

    step_marker: str = "auto"
    warmup: int = 10
    max_warmup: int = 100


AUTO = StepOptions()


class Turns(msgspec.Struct, frozen=True):
    """How a program takes turns: `settling` steps and `steps` that count in each of `number` turns."""

    asked: int
    """The descriptor from which it reads that it is its turn: the cores on which to begin."""
    told: int
    """The descriptor to which it writes that it waits: the cores on which it ran."""
    settling: int
    """Steps that begin with cold caches, and with batches that workers made before."""
    steps: int
    number: int


class Record(msgspec.Struct, frozen=True, kw_only=True, tag="record"):
    """To record steps, or only to time them, where the options ask for no profiler."""

    step_marker: str
    options: RecordingOptions
    turns: Turns | None = None
    """How steps are timed in turns with another program."""
    beyond_epoch: bool = False
    """Whether to time steps beyond the first epoch, however short it is."""
    keep_going: bool = False
    stretch_after: float | None = None
    """As of `pinprof run`; None: what that takes."""
    outcome: str | None = None
    """The file that gets how the program ended, as a `ScriptRun`."""


class NoteNumbers(msgspec.Struct, frozen=True, kw_only=True, tag="numbers"):
    """To note what the first `steps` compute; if they are `nudged`, from parameters that differ in their last bits."""

    steps: int
    nudged: Nudged | None = None


class GuardCopies(msgspec.Struct, frozen=True, kw_only=True, tag="guard"):
    """To look, in the first `steps`, for host memory that is used before its copy has ended."""

    steps: int


class GuardedUse(msgspec.Struct):
    """A place at which host memory is copied or used, and the text of its line, if it is known."""

    file: str
    line: int | None
    function: str
    text: str


class GuardedRace(msgspec.Struct):
    """Two uses of host memory that nothing orders."""

    rule: str
    headline: str
    certain: bool
    times: int
    copy: GuardedUse
    access: GuardedUse


class GuardResult(msgspec.Struct):
    """What `GuardCopies` finds."""

    followed: int
    """Asynchronous copies."""
    has_gpu: bool
    notes: list[str]
    violations: list[GuardedRace]


Task: TypeAlias = Record | NoteNumbers | GuardCopies


class WorkerConfig(msgspec.Struct, frozen=True):
    """A script or module, its arguments, the task, and the file that gets what the worker finds."""

    script: str
    args: list[str]
    module: bool
    task: Task
    output: str
