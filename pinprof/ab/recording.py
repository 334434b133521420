"""Records a run of each version with the profiler: what changed, and at which clock rates CPU and GPU ran."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from pinprof.ab.causes import LikelyCause, VersionFiles, find_causes
from pinprof.ab.measure import Measurement
from pinprof.ab.worker import ProgramVersion, Record, StepOptions
from pinprof.analysis import Analysis, analyse
from pinprof.capture.options import RecordingOptions
from pinprof.errors import MeasureError, PinprofError
from pinprof.processes import available_cores
from pinprof.trace import read_trace

LIMIT_S = 900.0
NAMES = "before", "after"
INTERVAL_S = 0.01
"""The mean time between samples of the host's stacks, as pinprof run takes them."""
SHORTEST_S, LONGEST_S = 3.0, 20.0
"""How long to sample the host."""
ENOUGH_SAMPLES = 24
"""This many samples of a cause are not chance, even if a busy machine loses half of them."""

EVERY_S = 0.5
GPU_EVERY_S = 2.0
"""How often to ask nvidia-smi, which takes some 50 ms."""
ANSWERS_WITHIN_S = 10.0


@dataclass(frozen=True)
class Clocks:
    """Medians over a run; None where the machine does not report them."""

    cpu_mhz: float | None
    gpu_mhz: float | None
    load: float | None
    """How many threads ran or wanted to run: the load average of the last minute."""
    cores: int


@dataclass(frozen=True)
class RecordedChanges:
    """What changed, and the clock rates in each run; `causes` is None if a recording failed, `why` the reason."""

    causes: tuple[LikelyCause, ...] | None
    """The likely cause of the difference first; empty if none was found."""
    why: str
    clocks: tuple[Clocks, ...]
    traces: tuple[Path, ...]


def record(
    measurement: Measurement, options: StepOptions, folder: Path, say: Callable[[str], None] = lambda _: None
) -> RecordedChanges:
    """Record each version into a folder, and compare the traces; a failure or Ctrl-C is a result, and not raised."""
    analyses: list[Analysis] = []
    clocks: list[Clocks] = []
    traces: list[Path] = []
    difference = measurement.test.judgement.ratio - 1
    seconds = min(max(ENOUGH_SAMPLES * INTERVAL_S / max(abs(difference), 1e-3), SHORTEST_S), LONGEST_S)
    try:
        for program, name in zip(measurement.programs, NAMES, strict=True):
            say(f"recording {program.name}")
            path, of_run = record_one(program, options, folder / name, seconds)
            clocks.append(of_run)
            traces.append(path)
            analyses.append(analyse(read_trace(str(path))))
    except (PinprofError, KeyboardInterrupt) as error:
        return RecordedChanges(None, str(error) or "interrupted", tuple(clocks), tuple(traces))
    more_ns = difference * median(pair.usual_ns[0] for pair in measurement.test.pairs)
    pairs = zip(measurement.programs, measurement.first, strict=True)
    old, new = (VersionFiles(program.folder, timed.imported) for program, timed in pairs)
    return RecordedChanges(find_causes(analyses[0], analyses[1], more_ns, (old, new)), "", tuple(clocks), tuple(traces))


class NeverRecordedError(MeasureError):
    """A program failed or did not end, and would do so again."""


def record_one(
    program: ProgramVersion, options: StepOptions, folder: Path, seconds: float = SHORTEST_S
) -> tuple[Path, Clocks]:
    """Record a version with the profiler, and return the trace; of several ranks, the first. Raises MeasureError.

    If the program ends before `seconds` have been timed, it is recorded again, with the steps that it has.
    """
    folder.mkdir(parents=True, exist_ok=True)
    longest = max(seconds, LONGEST_S)
    task = Record(
        step_marker=options.step_marker,
        options=RecordingOptions(
            warmup=options.warmup,
            max_warmup=options.max_warmup,
            plain_seconds=seconds,
            plain_max_seconds=longest,
            plain_precision=1.0,
            watch_steps=0,
            force=True,
        ),
        beyond_epoch=True,
    )
    try:
        return _record(program, task, folder)
    except NeverRecordedError:
        raise
    except MeasureError:
        return _record(program, msgspec.structs.replace(task, beyond_epoch=False), folder)


def _record(program: ProgramVersion, task: Record, folder: Path) -> tuple[Path, Clocks]:
    watch = ClockWatch()
    with program.worker(task, folder / "trace.json.gz") as worker:
        process, status = worker.process, None
        while status is None and watch.seconds < LIMIT_S:
            status = process.wait(EVERY_S)
            watch.look()
        if status is None:
            raise NeverRecordedError(
                f"{program.name}: it could not be recorded: it has not ended after {LIMIT_S:.0f} s"
            )
        if status:
            error = NeverRecordedError if process.script_failed else MeasureError
            raise error(f"{program.name}: it could not be recorded: {process.why_failed(status)}")
    traces = sorted(folder.glob("*.json.gz"), key=lambda path: (len(path.name), path.name))
    if not traces:
        raise MeasureError(f"{program.name}: it made no steps to record")
    return traces[0], watch.clocks()


class ClockWatch:
    """Reads the clock rates of CPU and GPU each time that `look` is called."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._cpu: list[float] = []
        self._gpu: list[float] = []
        self._load: list[float] = []
        self._asked = 0.0
        self._smi = shutil.which("nvidia-smi")

    @property
    def seconds(self) -> float:
        """How long it has watched."""
        return time.monotonic() - self._start

    def look(self) -> None:
        """Note the clock rates now."""
        with suppress(OSError):
            self._load.append(os.getloadavg()[0])
        with suppress(OSError, ValueError):
            rows = Path("/proc/cpuinfo").read_text().splitlines()
            self._cpu.append(median(float(row.partition(":")[2]) for row in rows if row.startswith("cpu MHz")))
        if self._smi and time.monotonic() - self._asked >= GPU_EVERY_S:
            self._asked = time.monotonic()
            self._gpu += _gpu_mhz(self._smi)

    def clocks(self) -> Clocks:
        """Return the medians so far; of the GPU the highest rate, which it has while it works."""
        fastest = max(self._gpu, default=None)
        return Clocks(_median(self._cpu), fastest, _median(self._load), available_cores())


def _median(values: list[float]) -> float | None:
    return median(values) if values else None


def _gpu_mhz(smi: str) -> list[float]:
    command = [smi, "--query-gpu=clocks.sm", "--format=csv,noheader,nounits"]
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        answer = subprocess.run(command, capture_output=True, text=True, timeout=ANSWERS_WITHIN_S, check=True)  # noqa: S603
        return [max(float(row) for row in answer.stdout.split())]
    return []
