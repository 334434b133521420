"""Where the host's time goes without the profiler, as a flame graph of the sampled stacks."""

from pathlib import PurePath

from pinprof.measurement.profile import Profile
from pinprof.report.charts.host import COLOURS, KEYS, MODULE, kind_of, without_wrappers
from pinprof.report.flame.graph import FlameFrame, FlameGraph, FlameKind, Measure, Path, gathered
from pinprof.report.timeline import hues
from pinprof.report.trace.host import measured_step_ns
from pinprof.report.words import cut
from pinprof.trace.host import HostFrame

KINDS = {kind: FlameKind(key.label, key.colour) for kind, key in zip(COLOURS, KEYS, strict=True)}
ROOT = FlameFrame("the main thread", "", FlameKind("the whole", hues.PALE))


def host_flame(profile: Profile) -> FlameGraph | None:
    """Return the flame graph of the sampled host; None where it was not sampled."""
    recorded, sums = profile.info.host, profile.host
    if recorded is None or sums is None:
        return None
    frames = [_frame(frame) for frame in recorded.frames]
    paths = (
        Path(tuple(frames[index] for index in without_wrappers(recorded, stack)), (float(stack.count),))
        for stack in recorded.stacks
    )
    boxes = gathered(ROOT, paths, 1)
    if len(boxes) == 1:
        return None
    step_ns = measured_step_ns(profile)
    measure = Measure("time", "the time", step_ns and step_ns / sums.samples, "of the step", "samples")
    caption = (
        f"{sums.samples:,} samples of the main thread without the profiler: each line of code below the one that "
        "called it, as wide as its share of the time. What a line calls in C, such as an operator of torch, is its own "
        "time."
    )
    return FlameGraph("Where the host's time goes", caption, boxes, (measure,))


def _frame(frame: HostFrame) -> FlameFrame:
    name = PurePath(frame.file).name if frame.function == MODULE else frame.function
    place = f"{frame.file}:{frame.line}" if frame.line is not None else frame.file
    return FlameFrame(cut(name), cut(place), KINDS[kind_of(frame)])
