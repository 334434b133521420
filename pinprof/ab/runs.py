"""Runs two versions of a program in fresh processes: one after the other, or in turns of a few steps.

To start takes a process some ten seconds: imports, the GPU's context, the warm-up. So the processes of several pairs
may start at once; while a pair is measured, all others wait between two steps.
"""

import resource
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import final

from pinprof.ab.plan import Plan
from pinprof.ab.times import Pair, TimedProcess, read_times, refuse_other_steps
from pinprof.ab.worker import ANY_CORES, CORES, ProgramVersion, Record, StepOptions, Turns
from pinprof.capture.options import RecordingOptions
from pinprof.errors import MeasureError
from pinprof.processes import Running, available_cores, machine_memory, running
from pinprof.temporary import temporary_folder

LONGEST_PLAIN_S = 20.0
"""How long a first run times steps at least, where they are so long that it makes fewer than it should."""
TIMES = "times.json"
MOST_GPU_MEMORY = 0.8
"""The share of a GPU's memory that all processes may hold at once, of what other programs leave."""
CONTEXT = 0.006
"""The share of a GPU's memory that a process takes for itself, without tensors: some 600 MB of 80 GB and more."""
MOST_MEMORY = 0.6
"""The share of the host's free memory that they may hold."""
STARTING_PER_CORE = 1.25
"""Processes of programs that start at once: nine pairs on 16 cores."""
PROCESSES_PER_CORE = 4
"""Processes of programs and their workers: nearly all of them wait."""


def time_first(
    programs: Sequence[ProgramVersion], options: StepOptions, seconds: float, limit_s: float
) -> list[TimedProcess]:
    """Return the first runs of versions, at the same time: they fill caches, and tell how many steps to make.

    How fast they are is not counted. Raises MeasureError if one fails.
    """
    recording = RecordingOptions(
        steps=0,
        warmup=options.warmup,
        max_warmup=options.max_warmup,
        plain_seconds=seconds,
        plain_max_seconds=max(seconds, LONGEST_PLAIN_S),
        plain_precision=1.0,
    )
    return _timed(programs, Record(step_marker=options.step_marker, options=recording), limit_s)


def one_after_the_other(programs: Sequence[ProgramVersion], options: StepOptions, plan: Plan, first: int) -> Pair:
    """Measure a pair of processes, one after the other."""
    task = Record(step_marker=options.step_marker, options=_fixed(plan))
    timed = {number: _timed([programs[number]], task, plan.limit_s)[0] for number in (first, 1 - first)}
    return _pair(programs, first, [timed[0], timed[1]])


def _timed(programs: Sequence[ProgramVersion], task: Record, limit_s: float) -> list[TimedProcess]:
    """Return the runs of versions that start at the same time."""
    with ExitStack() as stack:
        started = []
        for program in programs:
            folder = stack.enter_context(temporary_folder("ab"))
            command = program.worker_command(task, folder / TIMES)
            process = stack.enter_context(running(command, program.folder, program.environment))
            started.append((program, folder, process))
        end = time.monotonic() + limit_s
        for program, _, process in started:
            _check(program, process, process.wait(max(end - time.monotonic(), 0.0)), limit_s)
        return [_read(program, folder) for program, folder, _ in started]


def _check(program: ProgramVersion, process: Running, status: int | None, limit_s: float) -> None:
    if status is None:
        raise MeasureError(f"{program.name}: it has not made its steps after {limit_s:.0f} s")
    if status:
        raise MeasureError(f"{program.name}: {process.why_failed(status)}")


def _read(program: ProgramVersion, folder: Path) -> TimedProcess:
    try:
        return read_times(folder)
    except MeasureError as error:
        raise MeasureError(f"{program.name}: {error}") from error


def _pair(programs: Sequence[ProgramVersion], first: int, timed: Sequence[TimedProcess]) -> Pair:
    refuse_other_steps([program.name for program in programs], timed)
    return Pair.of(first, timed)


def _fixed(plan: Plan) -> RecordingOptions:
    """Return the options by which each process times as many steps as the plan says, and no profiler starts."""
    warmup = max(plan.warmup, 1)
    return RecordingOptions(
        steps=0, warmup=warmup, max_warmup=warmup, plain_steps=plan.steps, plain_seconds=0.0, plain_precision=1.0
    )


@final
class StartedPairs:
    """Pairs whose processes take turns, and start `at_once` pairs at a time. `close` ends them."""

    def __init__(self, programs: Sequence[ProgramVersion], options: StepOptions, plan: Plan, at_once: int) -> None:
        self._programs, self._options, self._plan, self._at_once = programs, options, plan, at_once
        self._undo = ExitStack()
        self._runs: list[Run] = []
        self._ready: list[list[Run]] = []

    @property
    def is_ready(self) -> bool:
        """Whether the processes of the next pair have started."""
        return bool(self._ready)

    def pair(self, first: int) -> Pair:
        """Measure the next pair. Raises MeasureError if a process fails."""
        if not self._ready:
            self.close()
            self._start()
        return take_turns(self._programs, self._ready.pop(), self._plan, first)

    def close(self) -> None:
        """End all processes that there still are."""
        self._ready.clear()
        with ThreadPoolExecutor() as pool:  # to end takes each of them a second
            list(pool.map(Run.end, self._runs))
        self._runs.clear()
        self._undo.close()

    def _start(self) -> None:
        """Start the processes of the next pairs in an order at random, and wait until all of them wait.

        All load torch at the same time, and wait before they start the program.
        """
        folder = self._undo.enter_context(temporary_folder("ab"))
        places = [(pair, number) for pair in range(self._at_once) for number in (0, 1)]
        Random().shuffle(places)  # noqa: S311  no secret
        started: dict[tuple[int, int], Run] = {}
        for pair, number in places:
            run = Run(self._programs[number], self._options, self._plan, folder / f"{pair}.{number}")
            started[pair, number] = run
            self._runs.append(run)
        for run in self._runs:
            run.start()
            if self._at_once == 1 and not self._plan.start_together:
                run.await_turn()
        for run in self._runs:
            run.await_turn()
        self._ready = [[started[pair, 0], started[pair, 1]] for pair in range(self._at_once)]


def take_turns(programs: Sequence[ProgramVersion], runs: "Sequence[Run]", plan: Plan, first: int) -> Pair:
    """Let two processes that have started take turns, and end; return what they have measured.

    They take turns as A B B A A B B A ..., or with B first. The second one of each two turns runs on the cores on which
    the first one has just run.
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
    return _pair(programs, first, [read_times(run.folder) for run in runs])


@final
class Run:
    """A process that takes turns with another one, until it has made all its steps or `end` ends it."""

    def __init__(self, program: ProgramVersion, options: StepOptions, plan: Plan, folder: Path) -> None:
        self.folder = folder
        self._program, self._plan = program, plan
        self._limit = time.monotonic() + plan.limit_s
        self._cores = b""
        """Those on which it ran last; empty while it has not said that it waits."""
        folder.mkdir()
        with ExitStack() as undo:
            self._socket, theirs = map(undo.enter_context, socket.socketpair())
            with theirs:
                task = Record(
                    step_marker=options.step_marker,
                    options=_fixed(plan),
                    turns=Turns(theirs.fileno(), plan.settling, plan.turn_steps, plan.turns),
                )
                command = program.worker_command(task, folder / TIMES)
                process = running(command, program.folder, program.environment, (theirs.fileno(),))
                self._process = undo.enter_context(process)
            self._undo = undo.pop_all()

    def end(self) -> None:
        """End it, wherever it is."""
        self._undo.close()

    def start(self) -> None:
        """Let it start the program."""
        self.await_turn()
        self.go()

    def await_turn(self) -> None:
        """Wait until it waits for its turn. Raises MeasureError if it ends before."""
        if self._cores:
            return
        limit_s, is_late = self._plan.limit_s, False
        self._socket.settimeout(max(self._limit - time.monotonic(), 1e-3))
        try:
            self._cores = self._socket.recv(CORES.size)
        except TimeoutError:
            is_late = True
        except OSError:  # it has ended
            self._cores = b""
        if not self._cores:
            _check(self._program, self._process, self._process.wait(0.0 if is_late else limit_s), limit_s)
            plan = self._plan
            needed = plan.warmup + plan.turns * (plan.settling + plan.turn_steps)
            raise MeasureError(
                f"{self._program.name}: it ended before it had made all its steps; it needs {needed} of them"
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
        limit_s = self._plan.limit_s
        _check(self._program, self._process, self._process.wait(limit_s), limit_s)


def pairs_at_once(wanted: int, first: Sequence[TimedProcess]) -> int:
    """Return how many pairs may start at once, by what the first run of each version took; 0 or 1: none."""
    if any(timed.ranks > 1 for timed in first):
        return 0
    cores = available_cores()
    processes = 1 + max(timed.children for timed in first)
    limits = [wanted, int(STARTING_PER_CORE * cores / 2), PROCESSES_PER_CORE * cores // (2 * processes)]
    memory = max(timed.gpu_memory or 0.0 for timed in first)
    if any(timed.gpu for timed in first):
        free = min(min(timed.gpu_free for timed in first) + memory + CONTEXT, 1.0)  # its own share is free again
        limits.append(int(MOST_GPU_MEMORY * free / (2 * (memory + CONTEXT))))
    with suppress(OSError, KeyError):
        largest = max(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 1) * 1024 * processes
        limits.append(int(MOST_MEMORY * machine_memory()[1] / (2 * largest)))
    return max(min(limits), 0)
