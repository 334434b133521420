"""The log of a whole run: how long each step took, and what irregular work was in it. The trace shows a few steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import msgspec

from pinprof.trace.lines import Place

RUN_KEY = "pinprof_run"
"""Key of the noted run in the trace file."""

EVALUATION, CHECKPOINT, EPOCH, COMPILE = "evaluation", "checkpoint", "epoch_end", "compile"
CAPTURE = "graph_capture"
"""Work in a step that is noted: `Module.eval()` was called, something was saved, a DataLoader was begun anew,
torch.compile compiled something, or a CUDA graph was captured."""

PLAIN = "plain"
"""The window that times steps."""
SETTLING = "settling"
"""The first steps of a turn, where two programs take turns: their caches are cold."""
RECORDED = "recorded"
"""The window whose steps are the trace."""
WATCH = "watch"
"""The window in which torch's sync debug mode alone reports waits."""
PROFILED = ("profiler warm-up", RECORDED, "lines")
"""Windows under a profiler, which makes their steps longer."""

USUAL = 2 / 3
"""Evaluations and checkpoints in more than this share of all steps are a part of the step. With two batches in an epoch
they are in half of the steps."""

NOWHERE = -1
"""Stands for no place."""
MOST = 10**17
"""A file with more steps, or with more ns (three years), is corrupt."""


@dataclass(frozen=True)
class IrregularWork:
    """Irregular work in a step."""

    step: int
    kind: str
    ns: int = 0
    """How long it took; 0 where only its begin was noticed."""
    place: int = NOWHERE
    """Where the program called it: an index into the places."""


@dataclass(frozen=True)
class Later:
    """Steps after those that were noted one by one, together."""

    steps: int = 0
    ns: int = 0
    input_ns: int = 0


@dataclass(frozen=True)
class Collections:
    """Collections of one generation by Python's garbage collector, in the steps that `HostStops` counts."""

    generation: int
    count: int
    ns: int
    longest_ns: int


@dataclass(frozen=True)
class HostStops:
    """What kept the host's thread from running, in steps without a profiler."""

    steps: int = 0
    off_cpu_ns: int = 0
    """The time in which it was ready to run and others had its CPU; 0 where the system does not count it."""
    collections: tuple[Collections, ...] = ()
    asked_at: Place | None = None
    """Where the program asks for most collections of all objects; None where Python begins them by itself."""


@dataclass(frozen=True)
class CompilerNote:
    """Where torch.compile ended compiled code, or what it compiled again, and why."""

    place: Place
    reason: str
    count: int


@dataclass(frozen=True)
class RunLog:
    """All steps of a run, in order, from its begin to its end; times in ns by the host's clock."""

    start_up_ns: int
    """From the begin of the script to the begin of the first step."""
    windows: tuple[tuple[str, int], ...]
    """What pinprof did with the steps: windows in order, each with its number of steps."""
    step_ns: tuple[int, ...]
    own_ns: tuple[int, ...]
    """What pinprof itself took before each step: to start a profiler, or to write the trace."""
    input_ns: tuple[int, ...]
    """The time of each step in a DataLoader."""
    gpu_ns: tuple[int, ...]
    """The time from end to end of each step's GPU work in the current stream; 0 where it was not timed."""
    after_ns: int
    """From the end of the last step to the end of the run."""
    own_after_ns: int = 0
    """What pinprof itself took of that."""
    work: tuple[IrregularWork, ...] = ()
    places: tuple[Place, ...] = ()
    later: Later = field(default_factory=Later)
    unavoidable: str | None = None
    """Why irregular work may be in the recorded steps although it was expected; None if none was."""
    filling: tuple[int, ...] = ()
    """Steps whose batches workers began at the start of a DataLoader, all at once: they do not show its pace."""
    stops: HostStops = field(default_factory=HostStops)
    graph_breaks: tuple[CompilerNote, ...] = ()
    recompiled: tuple[CompilerNote, ...] = ()
    """What torch.compile kept of its work, the most frequent first; the line of compiled code is where it begins."""
    runs_ns: tuple[float, ...] = ()
    """The regular step of each run of `pinprof run --repeat`, of this one too, in order; empty for a single run."""

    def noted_in(self, window: str) -> list[set[str]]:
        """Return for each step of a window, of its last occurrence, the kinds of irregular work in it."""
        begin, steps = 0, range(0)
        for name, count in self.windows:
            steps = range(begin, begin + count) if name == window else steps
            begin += count
        return [{work.kind for work in self.work if work.step == step} for step in steps]

    @property
    def unusual_work(self) -> list[IrregularWork]:
        """The work that was noted, without what most steps have."""
        usual = self.in_most_steps({EVALUATION, CHECKPOINT})
        return [work for work in self.work if work.kind not in usual]

    def in_most_steps(self, kinds: set[str]) -> set[str]:
        """Return which of these kinds of work are in more than `USUAL` of all steps: they are a part of the step."""
        most = USUAL * len(self.step_ns)
        return {kind for kind in kinds if len({work.step for work in self.work if work.kind == kind}) > most}

    def unusual_in(self, window: str) -> list[bool]:
        """Return for each step of a window, of its last occurrence, whether unusual work but a new epoch is in it."""
        kinds = {work.kind for work in self.unusual_work} - {EPOCH}
        return [bool(kinds & noted) for noted in self.noted_in(window)]

    @property
    def is_sound(self) -> bool:
        """Whether its parts fit together."""
        steps = len(self.step_ns)
        times = (self.step_ns, self.own_ns, self.input_ns, self.gpu_ns)
        numbers = (
            *(self.start_up_ns, self.after_ns, self.own_after_ns),
            *vars(self.later).values(),
            *(count for _, count in self.windows),
            *(work.ns for work in self.work),
            *(self.stops.steps, self.stops.off_cpu_ns),
            *(note.count for note in (*self.graph_breaks, *self.recompiled)),
            *chain.from_iterable(vars(of).values() for of in self.stops.collections),
            *self.runs_ns,
            *chain.from_iterable(times),
        )
        return (
            all(0 <= number <= MOST for number in numbers)
            and all(self.runs_ns)
            and all(len(column) == steps for column in times)
            and sum(count for _, count in self.windows) == steps
            and all(0 <= step < steps for step in self.filling)
            and all(0 <= work.step <= steps and NOWHERE <= work.place < len(self.places) for work in self.work)
        )


class TimesFile(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The file of a process that only times steps, in place of a trace."""

    pinprof: Mapping[str, Any]
    """How it was recorded, as in a trace."""
    pinprof_run: Any = None
    """The log of the run, which is stored later."""
    delays_ns: Sequence[int] = ()
    """The time in each timed step in which the CPU was with others; empty where it was not noted."""
    imported: Sequence[str] = ()
    """The files of the user's that it imported, sorted."""
    children: int = 0
    """How many processes the program had started that ran: workers of a DataLoader, for one."""
    gpu_memory: float | None = None
    """The share of the GPU's memory that the program has taken; None without a GPU."""
    gpu_free: float = 1.0
    """The share that no process has taken at the end."""


def run_of_metadata(entry: object) -> RunLog | None:
    """Return the noted run from pinprof's metadata; None if it is missing or malformed."""
    try:
        log = msgspec.convert(entry, RunLog)
    except msgspec.ValidationError:
        return None
    return log if log.is_sound else None
