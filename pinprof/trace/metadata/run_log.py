"""The log of a whole run: the time of each step, and its irregular work. The trace shows only a few of the steps."""

from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

from msgspec import Meta

from pinprof.document import converted
from pinprof.trace.lines import Place

RUN_KEY = "pinprof_run"  # key of the log in the trace file
EVALUATION, CHECKPOINT, EPOCH, COMPILE = "evaluation", "checkpoint", "epoch_end", "compile"
CAPTURE, GARBAGE = "graph_capture", "garbage_collection"
"""Kinds of irregular work in a step: `Module.eval()` was called, `torch.save` was called, a DataLoader was started
again, torch.compile compiled, a CUDA graph was captured, or Python's garbage collector took most of the step."""
IRREGULAR_WORK = {
    EVALUATION: "an evaluation",
    CHECKPOINT: "saving a checkpoint",
    COMPILE: "compiling",
    CAPTURE: "the capture of a CUDA graph",
    GARBAGE: "a garbage collection",
    EPOCH: "the start of a DataLoader",
}
"""All kinds, in words."""
TIMING_WINDOW = "plain"  # the window that times steps
RECORDED = "recorded"  # the window whose steps are the trace
WATCH_WINDOW = "watch"  # the window in which torch's sync debug mode alone reports waits
PROFILED_WINDOWS = ("profiler warm-up", RECORDED, "lines")  # windows under a profiler, which makes their steps longer
POSSIBLY_USUAL_WORK = (EVALUATION, CHECKPOINT, GARBAGE)
USUAL_SHARE_OF_STEPS = 2 / 3
"""Such work in more than this share of all steps is a part of the step. With two batches in an epoch, an evaluation is
in half of the steps."""
NOWHERE = -1  # stands for no place
MAX_LOGGED_AMOUNT = 10**17  # a log with a larger number of steps, or of ns (three years), is corrupt
Amount: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_LOGGED_AMOUNT)]  # a number of steps, of ns or of other things


@dataclass(frozen=True)
class IrregularWork:
    """Irregular work in a step."""

    step: int
    kind: str
    ns: Amount = 0  # how long it took; 0 if only its beginning was noted
    place: int = NOWHERE  # where the program called it: an index into the places


@dataclass(frozen=True)
class LaterSteps:
    """Sums over the steps that follow the individually noted ones."""

    steps: Amount = 0
    ns: Amount = 0
    input_ns: Amount = 0


@dataclass(frozen=True)
class Collections:
    """Collections of one generation by Python's garbage collector, in the steps that `HostStops` counts."""

    generation: Amount
    count: Amount
    ns: Amount
    longest_ns: Amount


@dataclass(frozen=True)
class HostStops:
    """What kept the host's thread from running, in steps without a profiler."""

    steps: Amount = 0
    off_cpu_ns: Amount = 0
    """The time in which it was ready to run and others had its CPU; 0 if the system does not count it."""
    collections: tuple[Collections, ...] = ()
    asked_at: Place | None = None
    """Where the program itself starts most collections of all objects; None if Python starts them."""


@dataclass(frozen=True)
class CompilerNote:
    """Where torch.compile ended compiled code, or what it compiled again, and why."""

    place: Place
    reason: str
    count: Amount


@dataclass(frozen=True)
class RunLog:
    """All steps of a run, in order, from its beginning to its end; times in ns by the host's clock."""

    start_up_ns: Amount
    """From the beginning of the script to the first step."""
    windows: tuple[tuple[str, Amount], ...]
    """The windows of pinprof in order, each with its number of steps."""
    step_ns: tuple[Amount, ...]
    own_ns: tuple[Amount, ...]
    """pinprof's own time before each step: to start a profiler, or to write the trace."""
    input_ns: tuple[Amount, ...]
    """The time of each step in a DataLoader."""
    gpu_ns: tuple[Amount, ...]
    """The GPU's time of each step in the current stream, between the ends of work; 0 where it was not timed."""
    after_ns: Amount
    """From the end of the last step to the end of the run, without `own_after_ns`."""
    own_after_ns: Amount = 0
    """pinprof's own time after the last step."""
    work: tuple[IrregularWork, ...] = ()
    places: tuple[Place, ...] = ()
    later: LaterSteps = field(default_factory=LaterSteps)
    unavoidable: str | None = None
    """Why the recording could not avoid expected irregular work; None if it could."""
    filling: tuple[int, ...] = ()
    """Steps whose batches workers began at the start of a DataLoader, all at once: they do not show its pace."""
    stops: HostStops = field(default_factory=HostStops)
    off_cpu_ns: tuple[Amount, ...] = ()
    """The time of each step in which the host's thread was ready to run and others had its CPU; empty if unknown."""
    graph_breaks: tuple[CompilerNote, ...] = ()
    recompiled: tuple[CompilerNote, ...] = ()
    """What torch.compile kept of its work, the most frequent first; the line of compiled code is where it begins."""
    runs_ns: tuple[Annotated[float, Meta(gt=0, le=MAX_LOGGED_AMOUNT)], ...] = ()
    """The regular step of each run of `pinprof run --repeat`, in order and with this run; empty for a single run."""

    def steps_of(self, window: str) -> range:
        """Return the steps of the last window of this name."""
        begin, steps = 0, range(0)
        for name, count in self.windows:
            steps = range(begin, begin + count) if name == window else steps
            begin += count
        return steps

    def noted_in(self, window: str) -> list[set[str]]:
        """Return the kinds of irregular work in each step of the last window of this name."""
        return [{work.kind for work in self.work if work.step == step} for step in self.steps_of(window)]

    def off_cpu_in(self, window: str) -> list[int]:
        """Return the time off the CPU in each step of the last window of this name; empty if unknown."""
        return [self.off_cpu_ns[step] for step in self.steps_of(window)] if self.off_cpu_ns else []

    @property
    def unusual_work(self) -> list[IrregularWork]:
        """The noted work, without evaluations, checkpoints and collections that most steps have."""
        most = USUAL_SHARE_OF_STEPS * len(self.step_ns)
        steps_with = {kind: {work.step for work in self.work if work.kind == kind} for kind in POSSIBLY_USUAL_WORK}
        usual = {kind for kind, steps in steps_with.items() if len(steps) > most}
        return [work for work in self.work if work.kind not in usual]

    def unusual_in(self, window: str) -> list[bool]:
        """Return for each step of the last window of this name whether it has unusual work other than a new epoch."""
        kinds = {work.kind for work in self.unusual_work} - {EPOCH}
        return [bool(kinds & noted) for noted in self.noted_in(window)]

    @property
    def is_sound(self) -> bool:
        """Whether its parts fit each other."""
        steps = len(self.step_ns)
        return (
            all(len(column) == steps for column in (self.own_ns, self.input_ns, self.gpu_ns))
            and len(self.off_cpu_ns) in {0, steps}
            and sum(count for _, count in self.windows) == steps
            and all(0 <= step < steps for step in self.filling)
            and all(0 <= work.step <= steps and NOWHERE <= work.place < len(self.places) for work in self.work)
        )


def run_of_metadata(entry: object) -> RunLog | None:
    """Return the log of the run from pinprof's metadata; None if it is missing or malformed."""
    log = converted(entry, RunLog)
    return log if log is not None and log.is_sound else None
