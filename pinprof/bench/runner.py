"""Run experiments in a process of their own, so that the failure of one does not cost another its figures."""

import gc
import multiprocessing
import os
import platform
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime, timezone
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias, final

import torch

from pinprof.bench import EXPERIMENTS
from pinprof.bench.catalogue.bandwidth import RATES
from pinprof.bench.experiment import ROUNDS, CaseRun, Experiment, Lab, free_pinned, picture
from pinprof.bench.results import Bench, Machine, Measured, Picture, Result, of_rounds
from pinprof.capture.options import RecordingOptions
from pinprof.capture.window.recording import profile
from pinprof.details import details_of
from pinprof.gpu import link_and_driver, name_of_cpu
from pinprof.ground.errors import PinprofError
from pinprof.ground.processes import OWN_PROCESS_NAME, available_cores
from pinprof.trace import read_trace
from pinprof.version import VERSION

TIMEOUT_S = 120.0
"""How long a part of one experiment may take; on an H200 none takes a minute."""

RECORDING = RecordingOptions(steps=5, warmup=5, max_warmup=20, plain_max_seconds=5, watch_steps=0, force=True)
"""No further steps are watched for waits (`watch_steps`): all steps of a case are alike."""

Part: TypeAlias = Callable[[str, dict[str, int], bool], Iterator[Measured | Picture]]
"""Yields figures and pictures of an experiment, given its name, its sizes and whether to be quick; picklable."""
OnProgress: TypeAlias = Callable[[str, Experiment, str], None]
"""Gets the place in the bench ("round 1, 2 of 15"), the experiment, and what was measured of it last, if any."""


# Parts, each run in the other process


def lab_of(name: str, sizes: Mapping[str, int], quick: bool, device: str = "cuda") -> tuple[Experiment, Lab]:
    """Return an experiment and the lab to run it."""
    experiment = next(each for each in (*EXPERIMENTS, RATES) if each.name == name)
    return experiment, Lab(torch.device(device), sizes, quick)


def timed(name: str, sizes: dict[str, int], quick: bool, device: str = "cuda") -> Iterator[Measured]:
    """Yield what is measured of an experiment without a profiler, and free all memory."""
    experiment, lab = lab_of(name, sizes, quick, device)
    try:
        yield from experiment.measure(lab)
    finally:
        free_memory()


def traced(name: str, sizes: dict[str, int], quick: bool, device: str = "cuda") -> Iterator[Measured | Picture]:
    """Yield what the traces of an experiment's cases show, and a picture of each; CUPTI then slows this process."""
    experiment, lab = lab_of(name, sizes, quick, device)
    steps = dict(zip(experiment.cases, experiment.steps(lab), strict=True))
    with TemporaryDirectory(prefix="pinprof-") as folder:
        for case, figures in (experiment.traced or {}).items():
            path = Path(folder) / "case.json.gz"
            record(steps[case], path, plain_steps=0, line_steps=0)
            trace = read_trace(str(path))
            details = details_of(trace)
            for figure in figures:
                yield from figure.read(case, trace, details)
            yield picture(case, trace, details)
    del steps
    free_memory()


def recorded_case(name: str, sizes: dict[str, int], case: int, path: str, device: str = "cuda") -> Iterator[str]:
    """Record a case of an experiment, its step timed without a profiler before; yield the paths that are written."""
    experiment, lab = lab_of(name, sizes, quick=False, device=device)
    traces = experiment.resized(sizes).traces(Path(path))
    if experiment.record is not None:
        experiment.record(lab, case, traces, record)
    else:
        record(experiment.steps(lab)[case], traces[0])
    yield from map(str, traces)


def record(run: CaseRun, path: Path, *, plain_steps: int = 20, line_steps: int = 3) -> None:
    """Record some steps of a case as a trace, and overwrite an existing one."""
    with profile(path, RECORDING, plain_steps=plain_steps, line_steps=line_steps) as recording:
        while not recording.done:
            run()
            recording.step()


def free_memory() -> None:
    """Free the device memory of the previous experiment and, if this torch can, its pinned memory."""
    gc.collect()
    torch.cuda.empty_cache()
    free_pinned()


def described_machine() -> Iterator[Machine]:
    """Yield the machine with its current CUDA device, once."""
    driver, generation, width = link_and_driver()
    versions = driver, torch.version.cuda, str(torch.__version__), platform.python_version()
    yield Machine(torch.cuda.get_device_name(), *versions, name_of_cpu(), available_cores(), generation, width)


# The bench


class BenchPart(NamedTuple):
    """A part of an experiment, in its place in the bench."""

    place: str
    part: Part
    experiment: Experiment
    fresh: bool = False  # whether it begins a round, in a new process


def jobs(experiments: Sequence[Experiment], *, quick: bool) -> Iterator[BenchPart]:
    """Yield the rounds of timing, then the traces; a quick bench has one round.

    Each round has a process of its own, so that what drifts with time shows as a difference between rounds. An
    experiment with fewer rounds takes part in the first, and in others at even distances. Nothing is timed in a process
    that was profiled: CUPTI, once loaded, slows the host. But the traces come in the process of the last round, as
    starting one takes some seconds.
    """
    for number in range(1 if quick else ROUNDS):
        in_round = [each for each in experiments if number in {at * ROUNDS // each.rounds for at in range(each.rounds)}]
        for place, experiment in enumerate(in_round):
            where = f"round {number + 1}, {place + 1} of {len(in_round)}"
            yield BenchPart(where, timed, experiment, fresh=number > 0 and place == 0)
    yield from (BenchPart("traces", traced, experiment) for experiment in experiments if experiment.traced)


def run_bench(experiments: Sequence[Experiment], *, quick: bool, on_progress: OnProgress) -> Bench:
    """Return what the experiments measure on this machine. Raises OtherProcessError if its GPU cannot be used."""
    with closing(OtherProcess()) as process:
        (machine,) = process.call(described_machine, timeout_s=TIMEOUT_S)
        results = run_jobs(experiments, jobs(experiments, quick=quick), process, quick=quick, on_progress=on_progress)
    date = datetime.now(timezone.utc).date().isoformat()
    return Bench(machine=machine, results=results, date=date, quick=quick, pinprof_version=VERSION)


def run_jobs(
    experiments: Sequence[Experiment],
    parts: Iterable[BenchPart],
    process: "OtherProcess",
    *,
    quick: bool,
    on_progress: OnProgress,
    timeout_s: float = TIMEOUT_S,
) -> list[Result]:
    """Return the results; one that fails or takes too long keeps its figures, and the others go on in a new process."""
    sizes = {experiment.number: experiment.defaults(quick=quick) for experiment in experiments}
    rounds: dict[str, dict[tuple[str, int | None], list[Measured]]] = {number: {} for number in sizes}
    pictures: dict[str, list[Picture]] = {number: [] for number in sizes}
    problems: dict[str, str] = {}
    for place, part, experiment, fresh in parts:
        number = experiment.number
        if number in problems:
            continue
        if fresh:
            process.close()
        on_progress(place, experiment, "")
        try:
            for found in process.call(part, experiment.name, sizes[number], quick, timeout_s=timeout_s):
                if isinstance(found, Picture):
                    pictures[number].append(found)
                else:
                    rounds[number].setdefault((found.name, found.size), []).append(found)
                on_progress(place, experiment, found.case if isinstance(found, Picture) else found.name)
        except OtherProcessError as error:
            problems[number] = str(error)
    return [
        Result(number, sizes[number], [*map(of_rounds, found.values())], pictures[number], problems.get(number))
        for number, found in rounds.items()
    ]


# The other process


class OtherProcessError(PinprofError):
    """A function failed in the other process; the text says how, in one line."""


@final
class OtherProcess:
    """A process in which generator functions run one after the other; after a failure a new one takes its place.

    It is spawned, not forked, so that it can use the GPU; functions and what they yield must be picklable.
    """

    def __init__(self) -> None:
        self._running: tuple[SpawnProcess, Connection] | None = None

    def call(self, function: Callable[..., Iterator[Any]], *arguments: object, timeout_s: float) -> Iterator[Any]:
        """Yield what the function yields there. Raises OtherProcessError if it fails, dies or takes too long."""
        is_ready = self._running is not None
        if self._running is None:
            context = multiprocessing.get_context("spawn")
            connection, of_child = context.Pipe()
            process = context.Process(target=_answer_calls, args=(of_child,), name=OWN_PROCESS_NAME)
            process.start()
            of_child.close()
            self._running = process, connection
        process, connection = self._running
        has_ended, problem = False, f"not done after {timeout_s:.0f} s"
        try:
            # importing torch has a time limit of its own
            is_ready = is_ready or (connection.poll(TIMEOUT_S) and connection.recv())
            deadline = time.monotonic() + (timeout_s if is_ready else 0.0)
            connection.send((function, arguments))
            while not has_ended and connection.poll(max(0.0, deadline - time.monotonic())):
                has_ended, value = connection.recv()
                if has_ended:
                    problem = value
                else:
                    yield value
        except (EOFError, OSError):
            process.join(10)  # a crash may write its core first
            code = process.exitcode or 0
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
            problem = f"its process {how}"
        finally:
            if problem:
                self.close()
        if problem:
            raise OtherProcessError(problem)

    def close(self) -> None:
        """End the process with all that it started; the next call starts a new one."""
        if self._running is None:
            return
        process, connection = self._running
        with suppress(ProcessLookupError, PermissionError):
            if process.pid and os.getpgid(process.pid) == process.pid:
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
        connection.close()
        self._running = None


def _answer_calls(connection: Connection) -> None:
    """Call the functions that come, one after the other, and send back what each yields and how it ended."""
    os.setsid()  # its children end with it, and Ctrl-C goes only to the process that started it
    os.dup2(2, 1)  # libraries print, and a program may read standard output
    warnings.simplefilter("ignore")
    # The default in a spawned process is to spawn: each worker of a loader would import torch again, and abort at its
    # end, when Python stops under its threads. So loaders start workers here as they do in a user's program.
    multiprocessing.set_start_method(None, force=True)
    connection.send(True)
    with suppress(EOFError, BrokenPipeError):
        while True:
            function, arguments = connection.recv()
            problem = ""
            try:
                for value in function(*arguments):
                    connection.send((False, value))
            except BrokenPipeError:
                raise
            except Exception as error:  # noqa: BLE001  the caller gets any error
                problem = in_one_line(error)
            connection.send((True, problem))


def in_one_line(error: BaseException) -> str:
    """Return an error in one line: its first line, with its class if that is not pinprof's own."""
    first = next(iter(str(error).strip().splitlines()), "")
    return first if isinstance(error, PinprofError) and first else f"{type(error).__name__}: {first}".removesuffix(": ")
