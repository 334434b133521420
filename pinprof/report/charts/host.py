"""Where the host's time goes, as an icicle: each line of code under the one that called it, as wide as its share."""

from pathlib import PurePath

from pinprof.analyses.host import LOADER, Flame, Kind, icicle
from pinprof.measurement.profile import Profile
from pinprof.report.charts.chart import Chart, Key, layout
from pinprof.report.timeline import hues
from pinprof.report.words import cut
from pinprof.trace.host import HostFrame, HostProfile, HostStack
from pinprof.units import duration, percent

COLOURS: dict[Kind, str] = {
    "user": hues.OWN_CODE,
    "torch": hues.TORCH_CODE,
    "library": hues.PACKAGES,
    "input": hues.INPUT,
}
"""By kind of code."""
KEYS = (
    Key("your code", hues.OWN_CODE),
    Key("torch", hues.TORCH_CODE),
    Key("Python and other packages", hues.PACKAGES),
    Key("DataLoader", hues.INPUT),
)
LEAST = 400
"""Rectangles of less than one such part of the samples are left out: they are narrower than a letter."""
ROW, MOST_HEIGHT = 24, 760
"""Pixels of a level, and of all."""
LONGEST = 48
"""Characters of a name in a rectangle."""
TEXT, SMALLEST = "#1b2026", 9
"""The colour of names, which all colours of rectangles are light enough for, and their smallest size in pixels."""
MODULE = "<module>"
"""What Python calls code outside of functions."""
WRAPPERS = ("Module._wrapped_call_impl", "Module._call_impl")
"""Functions of torch between each module and its `forward`: they would make three levels of each."""


def host_chart(profile: Profile) -> Chart | None:
    """Return a chart of the sampled stacks; None where the host was not sampled."""
    recorded = profile.info.host
    if recorded is None or profile.host is None:
        return None
    stacks = [HostStack(without_wrappers(recorded, stack), stack.count) for stack in recorded.stacks]
    flames = icicle(stacks, max(profile.host.samples // LEAST, 1))
    if len(flames) < 2:  # noqa: PLR2004  the whole alone shows nothing
        return None
    step_ns = (
        profile.estimate.step_ns if profile.estimate.source != "estimated" else None
    )  # else samples are no share of it
    series = {
        "type": "icicle",
        "ids": [f"{number}" for number in range(len(flames))],
        "parents": ["" if flame.parent < 0 else f"{flame.parent}" for flame in flames],
        "labels": [_label(recorded, flame) for flame in flames],
        "values": [flame.samples for flame in flames],
        "branchvalues": "total",
        "marker": {"colors": [_colour(recorded, flame) for flame in flames], "line": {"width": 1, "color": "#fff"}},
        "hovertext": [_hover(recorded, flame, profile.host.samples, step_ns) for flame in flames],
        "hoverinfo": "text",
        "textfont": {"color": TEXT, "size": 11},
        "leaf": {"opacity": 1},
        "tiling": {"orientation": "v", "pad": 1},
        "pathbar": {"visible": True, "thickness": 22},
        "sort": False,
    }
    height = min(ROW * _levels(flames) + 60, MOST_HEIGHT)
    margin = {"l": 4, "r": 4, "t": 28, "b": 4}
    shape = layout(height, "", "", margin=margin, uniformtext={"minsize": SMALLEST, "mode": "hide"})
    return Chart(_caption(profile), [series], shape, KEYS)


def without_wrappers(recorded: HostProfile, stack: HostStack) -> tuple[int, ...]:
    """Return the frames of a stack without those that only wrap others."""
    last = len(stack.frames) - 1
    return tuple(
        index
        for depth, index in enumerate(stack.frames)
        if depth == last or recorded.frames[index].origin != "torch" or recorded.frames[index].function not in WRAPPERS
    )


def _levels(flames: list[Flame]) -> int:
    depth: list[int] = []
    for flame in flames:
        depth.append(depth[flame.parent] + 1 if flame.parent >= 0 else 1)
    return max(depth)


def _label(recorded: HostProfile, flame: Flame) -> str:
    if flame.frame < 0:
        return "the main thread"
    frame = recorded.frames[flame.frame]
    name = PurePath(frame.file).name if frame.function == MODULE else frame.function
    return cut(f"{name}:{frame.line}" if frame.line is not None else name, LONGEST)


def _hover(recorded: HostProfile, flame: Flame, samples: int, step_ns: float | None) -> str:
    share = flame.samples / samples
    time = f", {duration(share * step_ns)} of the step" if step_ns else ""
    where = "the main thread"
    if flame.frame >= 0:
        frame = recorded.frames[flame.frame]
        where = cut(f"{frame.function} ({frame.file}{f':{frame.line}' if frame.line is not None else ''})")
    return f"{where}: {percent(share)} of the time{time}, {flame.samples:,} samples"


def _colour(recorded: HostProfile, flame: Flame) -> str:
    if flame.frame < 0:
        return hues.PALE
    return COLOURS[kind_of(recorded.frames[flame.frame])]


def kind_of(frame: HostFrame) -> Kind:
    """Return whose code a frame is."""
    return "input" if frame.file.replace("\\", "/").endswith(LOADER) else frame.origin


def _caption(profile: Profile) -> str:
    sums = profile.host
    samples = sums.samples if sums else 0
    return (
        f"{samples:,} samples of the main thread without the profiler: each line of code below the one that called it, "
        "as wide as its share of the time. What a line calls in C, such as an operator of torch, is its own time. "
        "Select a rectangle to enlarge it."
    )
