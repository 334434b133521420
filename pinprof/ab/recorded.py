"""Records one run of each version with the profiler, and says what changed."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from pinprof.ab.causes import Changes, find_changes
from pinprof.ab.clocks import Clocks, Watch
from pinprof.ab.edits import Code
from pinprof.ab.process import running
from pinprof.ab.program import Program
from pinprof.ab.tasks import Record, StepOptions
from pinprof.ab.versions import Measurement
from pinprof.analysis import Analysis, analyse
from pinprof.capture.bounds import RecordingOptions
from pinprof.errors import MeasureError, PinprofError
from pinprof.trace import read_trace

LIMIT_S = 900.0
NAMES = "before", "after"
INTERVAL_S = 0.01
"""The mean time between samples of the host's stacks, as pinprof run takes them."""
SHORTEST_S, LONGEST_S = 3.0, 20.0
"""How long to sample the host."""
ENOUGH_SAMPLES = 24
"""So many samples of what makes a step slower tell it from chance, also where a busy machine loses half of them."""


@dataclass(frozen=True)
class Recorded:
    """What changed, and how fast the clocks were in each run; `changes` is None if nobody can tell, and `why`."""

    changes: Changes | None
    why: str
    clocks: tuple[Clocks, ...]
    traces: tuple[Path, ...]


def record(
    measurement: Measurement, options: StepOptions, folder: Path, say: Callable[[str], None] = lambda _: None
) -> Recorded:
    """Record each version into a folder, and compare the traces. What fails is told, not raised."""
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
    except PinprofError as error:
        return Recorded(None, str(error), tuple(clocks), tuple(traces))
    more_ns = difference * median(pair.usual_ns[0] for pair in measurement.test.pairs)
    pairs = zip(measurement.programs, measurement.first, strict=True)
    old, new = (Code(program.folder, timed.imported) for program, timed in pairs)
    changes = find_changes(analyses[0], analyses[1], more_ns, (old, new))
    return Recorded(changes, "", tuple(clocks), tuple(traces))


class NeverRecordedError(MeasureError):
    """A program failed, or did not end, as it would again."""


def record_one(
    program: Program, options: StepOptions, folder: Path, seconds: float = SHORTEST_S
) -> tuple[Path, Clocks]:
    """Record a version with the profiler, and return the trace: of several ranks, the first. Raises MeasureError.

    A program may end with an epoch that is shorter than `seconds`: then it is recorded again, in the steps that it has.
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
        return _recorded(program, task, folder)
    except NeverRecordedError:
        raise
    except MeasureError:
        return _recorded(program, msgspec.structs.replace(task, beyond_epoch=False), folder)


def _recorded(program: Program, task: Record, folder: Path) -> tuple[Path, Clocks]:
    command = program.under_worker(task, folder / "trace.json.gz")
    watch = Watch()
    with running(command, program.folder, program.environment) as process:
        status = None
        while status is None and watch.seconds < LIMIT_S:
            status = process.wait(watch.every_s)
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
