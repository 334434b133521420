"""Measures pairs of fresh processes, one of each version: one after the other, or in turns of a few steps.

A process takes some ten seconds to start: imports, the GPU's context, the warm-up. So the processes of several pairs
start at once; while a pair is measured, all others wait between two steps.
"""

import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TypeVar, final

from pinprof.ab.plan import Plan
from pinprof.ab.times import OtherStepsError, Pair, TimedProcess, read_times, refuse_other_steps
from pinprof.ab.worker import ANY_CORES, CORES, OUTPUT, ProgramVersion, Record, StepOptions, TurnPlan, workers
from pinprof.capture.options import RecordingOptions
from pinprof.errors import MeasureError
from pinprof.temporary import temporary_folder

Result = TypeVar("Result")
TRIES = 3
"""How often a pair is measured if the two versions count different steps."""
LONGEST_PLAIN_S = 20.0
"""How long a first run may time steps, where they are so long that it would otherwise make too few."""


def time_first(
    programs: Sequence[ProgramVersion], options: StepOptions, seconds: float, limit_s: float
) -> list[TimedProcess]:
    """Return the first runs of versions, at the same time: they fill caches, and show how many steps to make.

    Their times are not compared. Raises MeasureError if one fails.
    """
    recording = RecordingOptions(
        steps=0,
        warmup=options.warmup,
        max_warmup=options.max_warmup,
        plain_seconds=seconds,
        plain_max_seconds=max(seconds, LONGEST_PLAIN_S),
        plain_precision=1.0,
    )
    return _time_runs(programs, Record(step_marker=options.step_marker, options=recording), limit_s)


def one_after_the_other(programs: Sequence[ProgramVersion], options: StepOptions, plan: Plan, first: int) -> Pair:
    """Measure a pair of processes, one after the other."""
    task = Record(step_marker=options.step_marker, options=_fixed(plan))
    timed = {number: _time_runs([programs[number]], task, plan.limit_s)[0] for number in (first, 1 - first)}
    return _pair(programs, first, [timed[0], timed[1]])


def _time_runs(programs: Sequence[ProgramVersion], task: Record, limit_s: float) -> list[TimedProcess]:
    """Return the runs of versions that start at the same time."""
    with workers((program, task) for program in programs) as started:
        end = time.monotonic() + limit_s
        for worker in started:
            worker.finish(limit_s, end)
        return [worker.read(read_times) for worker in started]


def _pair(programs: Sequence[ProgramVersion], first: int, timed: Sequence[TimedProcess]) -> Pair:
    refuse_other_steps([program.name for program in programs], timed)
    return Pair.of(first, timed)


def _fixed(plan: Plan) -> RecordingOptions:
    """Return the options by which each process times the plan's number of steps, without a profiler."""
    warmup = max(plan.warmup, 1)
    return RecordingOptions(
        steps=0, warmup=warmup, max_warmup=warmup, plain_steps=plan.steps, plain_seconds=0.0, plain_precision=1.0
    )


def with_like_steps(measure: Callable[[], Result]) -> Result:
    """Measure up to `TRIES` times, until both versions count the same steps. Raises OtherStepsError otherwise."""
    for _ in range(TRIES - 1):
        with suppress(OtherStepsError):
            return measure()
    return measure()


@final
class Pairs:
    """Measures pairs by the first of these plans that works for the first pair; `close` ends all processes."""

    def __init__(self, programs: Sequence[ProgramVersion], options: StepOptions, plans: Sequence[Plan]) -> None:
        self._programs, self._options, self._plans = programs, options, list(plans)
        self._undo = ExitStack()
        self._runs: list[Run] = []
        self._ready: list[list[Run]] = []

    @property
    def plan(self) -> Plan:
        """How the next pair is measured."""
        return self._plans[0]

    @property
    def is_ready(self) -> bool:
        """Whether the processes of the next pair have started."""
        return bool(self._ready)

    def pair(self, first: int) -> Pair:
        """Measure the next pair. Raises MeasureError if that cannot be done by any plan."""
        return with_like_steps(lambda: self._pair(first))

    def close(self) -> None:
        """End all processes that still run."""
        self._ready.clear()
        with ThreadPoolExecutor() as pool:  # each of them takes a second to end
            list(pool.map(Run.end, self._runs))
        self._runs.clear()
        self._undo.close()

    def _pair(self, first: int) -> Pair:
        try:
            pair = self._measure(first)
        except OtherStepsError:
            raise
        except MeasureError as error:  # the program may make too few steps, or memory may be too small
            if len(self._plans) == 1:
                raise
            self.close()
            failed = self._plans.pop(0)
            if failed.at_once == 1 and not self.plan.at_once:
                self._plans[0] = replace(self.plan, why_runs=f"taking turns failed: {error}")
            return self._pair(first)
        del self._plans[1:]
        return pair

    def _measure(self, first: int) -> Pair:
        """Measure a pair by the plan: the processes of several pairs start at once, or one runs after the other."""
        if not self.plan.at_once:
            return one_after_the_other(self._programs, self._options, self.plan, first)
        if not self._ready:
            self.close()
            self._start()
        return take_turns(self._ready.pop(), self.plan, first)

    def _start(self) -> None:
        """Start the processes of the next pairs in random order, and wait until all of them wait for their turn.

        All load torch at the same time, and then wait before they start the program.
        """
        folder = self._undo.enter_context(temporary_folder("ab"))
        places = [(pair, number) for pair in range(self.plan.at_once) for number in (0, 1)]
        Random().shuffle(places)  # noqa: S311  no secret
        started: dict[tuple[int, int], Run] = {}
        for pair, number in places:
            run = Run(self._programs[number], self._options, self.plan, folder / f"{pair}.{number}")
            started[pair, number] = run
            self._runs.append(run)
        for run in self._runs:
            run.start()
            if self.plan.at_once == 1 and not self.plan.start_together:
                run.await_turn()
        for run in self._runs:
            run.await_turn()
        self._ready = [[started[pair, 0], started[pair, 1]] for pair in range(self.plan.at_once)]


def take_turns(runs: "Sequence[Run]", plan: Plan, first: int) -> Pair:
    """Let two processes that have started take turns, and end; return their times.

    They take turns as A B B A A B B A ..., or with B first. The second turn of each two runs on the cores on which the
    first one has just run.
    """
    order = (runs[first], runs[1 - first])
    for turn in range(plan.turns):
        cores = ANY_CORES
        for run in order if turn % 2 == 0 else order[::-1]:
            cores = run.take_turn(cores)
    for run in order:
        run.go()
    for run in order:
        run.await_end()
    return _pair([run.program for run in runs], first, [read_times(run.folder) for run in runs])


@final
class Run:
    """A process that takes turns with another one, until it has made all its steps or `end` is called."""

    def __init__(self, program: ProgramVersion, options: StepOptions, plan: Plan, folder: Path) -> None:
        self.program, self.folder = program, folder
        self._plan = plan
        self._limit = time.monotonic() + plan.limit_s
        self._cores = b""
        """The cores on which it ran last; empty until it has said that it waits."""
        folder.mkdir()
        with ExitStack() as undo:
            self._socket, theirs = map(undo.enter_context, socket.socketpair())
            with theirs:
                task = Record(
                    step_marker=options.step_marker,
                    options=_fixed(plan),
                    turns=TurnPlan(theirs.fileno(), plan.settling, plan.turn_steps, plan.turns),
                )
                self._worker = undo.enter_context(program.worker(task, folder / OUTPUT, (theirs.fileno(),)))
            self._undo = undo.pop_all()

    def end(self) -> None:
        """End it at once."""
        self._undo.close()

    def start(self) -> None:
        """Let it start the program."""
        self.await_turn()
        self.go()

    def await_turn(self) -> None:
        """Wait until it waits for its turn. Raises MeasureError if it ends before."""
        if self._cores:
            return
        plan, now = self._plan, time.monotonic()
        is_late = False
        self._socket.settimeout(max(self._limit - now, 1e-3))
        try:
            self._cores = self._socket.recv(CORES.size)
        except TimeoutError:
            is_late = True
        except OSError:  # it has ended
            self._cores = b""
        if not self._cores:
            self._worker.finish(plan.limit_s, now if is_late else None)
            needed = plan.warmup + plan.turns * (plan.settling + plan.turn_steps)
            raise MeasureError(
                f"{self.program.name}: it ended before it had made all its steps; it needs {needed} of them"
            )

    def take_turn(self, cores: bytes) -> bytes:
        """Let it make the steps of a turn, on these cores; return those on which it ends."""
        self.await_turn()
        self.go(cores)
        self.await_turn()
        return self._cores

    def go(self, cores: bytes = ANY_CORES) -> None:
        """Let it go on."""
        self._cores = b""
        with suppress(OSError):  # it has ended
            self._socket.sendall(cores)

    def await_end(self) -> None:
        """Wait until it has ended. Raises MeasureError if it fails."""
        self._worker.finish(self._plan.limit_s)
