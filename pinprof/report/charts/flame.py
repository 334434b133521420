"""Flame graphs of the host's samples and of its waits: call paths as a tree, each frame under its caller.

A graph is drawn as a piece of a page, whose boxes `flame.js` gets as JSON.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

from pinprof.analyses.host_samples import LOADER_FILE, CodeKind
from pinprof.analyses.syncs.causes import WAITS
from pinprof.ground import hues
from pinprof.ground.units import counted
from pinprof.measurement.profile import Profile, WaitSite
from pinprof.report.charts.chart import Key, in_script, legend
from pinprof.report.html import Markup
from pinprof.report.timeline.kinds import EVENT_KINDS, KIND_OF_ORIGIN
from pinprof.report.trace.sections.host import measured_step_ns
from pinprof.report.words import cut
from pinprof.trace.callers import STACK_ENTRY
from pinprof.trace.frames import called_name, is_user_file, origin_of, package_file
from pinprof.trace.metadata.sampled_stacks import HostFrame, HostProfile, HostStack
from pinprof.trace.sources import MODULE_CODE

BOXES_IN_WIDTH = 1000
"""Boxes of less than 1 / BOXES_IN_WIDTH of the whole are left out: they are narrower than two pixels."""
KEY_OF_CODE: dict[CodeKind, Key] = {
    **{origin: Key(EVENT_KINDS[kind].label, EVENT_KINDS[kind].colour) for origin, kind in KIND_OF_ORIGIN.items()},
    "input": Key("DataLoader", hues.INPUT),
}
ROOT_KEY = Key("the whole", hues.PALE)
MIN_WAIT_PLACES = 2
"""The fewest places of a flame graph of waits; for one, the table shows as much."""
MODULE_WRAPPERS = ("_wrapped_call_impl", "_call_impl")
"""Functions of torch between each module and its `forward`, which would add two levels to each module."""
MODULE_WRAPPER_METHODS = tuple(f"Module.{name}" for name in MODULE_WRAPPERS)
"""The same with their class, as samples of Python stacks name them."""


HOW_TO_STEER = "Click or Enter enlarges a box, arrows go to the next one, Esc goes back."


class FlameFrame(NamedTuple):
    """The frame that a box shows, the same under all its callers."""

    name: str
    place: str
    """`FILE:LINE`, or the file alone; empty where it is not known."""
    kind: Key


class Measure(NamedTuple):
    """A meaning of the width of boxes; every path has a value of each measure."""

    label: str
    of: str
    """The whole, to follow a share: `the time`."""
    ns: float | None
    """The time of a value of 1; None if that is not known."""
    per: str = ""
    """The words after a time: `of the step`."""
    unit: str = ""
    """The unit of values that are not times: `samples`."""


class Path(NamedTuple):
    """Frames, the outermost first, and the value of each measure for the innermost."""

    frames: tuple[FlameFrame, ...]
    values: tuple[float, ...]


@dataclass
class Box:
    """A frame under all its callers."""

    frame: FlameFrame
    parent: int
    """The box above; -1 for the root."""
    total: list[float]
    """With all below it, one value per measure."""
    own: list[float]


@dataclass(frozen=True)
class FlameGraph:
    """The boxes of a flame graph, with title and caption."""

    title: str
    caption: str
    boxes: list[Box]
    """The root first, each after the one above it, and of those under one box the widest first."""
    measures: tuple[Measure, ...]

    @property
    def kinds(self) -> list[Key]:
        """The kinds of boxes, in order of their time."""
        own: dict[Key, float] = {}
        for box in self.boxes[1:]:
            own[box.frame.kind] = own.get(box.frame.kind, 0.0) + box.own[0]
        return sorted(own, key=lambda kind: -own[kind])


def boxes_of_paths(root: FlameFrame, paths: Iterable[Path], measures: int) -> list[Box]:
    """Return the boxes of call paths; narrow boxes are left out, but count in the totals of those above them."""
    boxes = [Box(root, -1, [0.0] * measures, [0.0] * measures)]
    number_of: dict[tuple[int, FlameFrame], int] = {}
    for frames, values in paths:
        box = 0
        _add(boxes[0].total, values)
        for frame in frames:
            key = (box, frame)
            if key not in number_of:
                number_of[key] = len(boxes)
                boxes.append(Box(frame, box, [0.0] * measures, [0.0] * measures))
            box = number_of[key]
            _add(boxes[box].total, values)
        _add(boxes[box].own, values)
    return _wide(boxes)


def _add(sums: list[float], values: Sequence[float]) -> None:
    for number, value in enumerate(values):
        sums[number] += value


def _wide(boxes: list[Box]) -> list[Box]:
    """Return the boxes that are wide enough to see, those under one box with the widest first."""
    whole = boxes[0].total
    below: dict[int, list[int]] = {}
    for number, box in enumerate(boxes[1:], start=1):
        if any(BOXES_IN_WIDTH * value >= all_of for value, all_of in zip(box.total, whole, strict=True) if all_of):
            below.setdefault(box.parent, []).append(number)
    kept, queue = [boxes[0]], [(0, 0)]
    while queue:
        old, new = queue.pop(0)
        for number in sorted(below.get(old, ()), key=lambda number: [-value for value in boxes[number].total]):
            queue.append((number, len(kept)))
            kept.append(Box(boxes[number].frame, new, boxes[number].total, boxes[number].own))
    return kept


def host_flame(profile: Profile) -> FlameGraph | None:
    """Return the flame graph of the sampled host; None without samples."""
    recorded, sums = profile.info.host, profile.host
    if recorded is None or sums is None:
        return None
    frames = [_sampled(frame) for frame in recorded.frames]
    paths = (
        Path(tuple(frames[index] for index in _without_wrappers(recorded, stack)), (float(stack.count),))
        for stack in recorded.stacks
    )
    boxes = boxes_of_paths(FlameFrame("the main thread", "", ROOT_KEY), paths, 1)
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


def _without_wrappers(recorded: HostProfile, stack: HostStack) -> Iterator[int]:
    """Yield the frames of a stack without the wrappers of modules."""
    for index in stack.frames[:-1]:
        frame = recorded.frames[index]
        if frame.origin != "torch" or frame.function not in MODULE_WRAPPER_METHODS:
            yield index
    yield from stack.frames[-1:]


def _sampled(frame: HostFrame) -> FlameFrame:
    name = PurePath(frame.file).name if frame.function == MODULE_CODE else frame.function
    place = f"{frame.file}:{frame.line}" if frame.line is not None else frame.file
    kind = "input" if frame.is_of(LOADER_FILE) else frame.origin
    return FlameFrame(cut(name), cut(place), KEY_OF_CODE[kind])


def waits_flame(profile: Profile) -> FlameGraph | None:
    """Return the flame graph of the waits in complete steps; None with fewer than two places."""
    waits, count = profile.waits, profile.steps.count
    if len(waits) < MIN_WAIT_PLACES or not count:
        return None
    paths = [
        Path((*_frames(site), _wait_frame(site)), (cost.stall_ns / count, cost.idle_ns / count)) for site, cost in waits
    ]
    with_path = sum(bool(site.stack or site.path) for site, _ in waits)
    if not with_path or not any(sum(path.values) for path in paths):
        return None
    per = profile.steps.per
    measures = (
        Measure("stall", "all stalls", 1.0, per),
        Measure("GPU idle after", "the idle time that waits leave", 1.0, per),
    )
    without = len(waits) - with_path
    remark = f" Of {counted(without, 'place')} no call path was recorded." if without else ""
    caption = (
        f"{counted(len(waits), 'place')} in which the host waits for the GPU, each below the code that leads to it, as "
        f"wide as it stalls.{remark}"
    )
    return FlameGraph(
        "Waits by call path",
        caption,
        boxes_of_paths(FlameFrame("all waits", "", ROOT_KEY), paths, len(measures)),
        measures,
    )


def _wait_frame(site: WaitSite) -> FlameFrame:
    cause = WAITS[site.cause]
    return FlameFrame(cut(f"{cause.plain}: {site.op or site.call}"), "", Key(cause.plain, cause.colour))


def _frames(site: WaitSite) -> Iterator[FlameFrame]:
    """Yield the frames around a wait, the outermost of the program's own first."""
    if site.thread != "main":
        yield FlameFrame(f"{site.thread.replace('_', ' ')} thread", "", KEY_OF_CODE["torch"])
    stack = list(reversed(site.stack)) or list(site.path)
    frames = [frame for frame in map(_frame, _from_program(stack)) if frame]
    own_frame = _frame_at(site.file or "", site.line, site.function or "") if site.place.names else None
    if own_frame and site.line is not None:
        depths = [depth for depth, frame in enumerate(frames) if _is_of(frame, site)]
        frames[slice(depths[-1], depths[-1] + 1) if depths else slice(len(frames), None)] = [own_frame]
    yield from frames or filter(None, [own_frame])


def _is_of(frame: FlameFrame, site: WaitSite) -> bool:
    """Return whether a frame is of the user's function; the frame may have the line where the function begins."""
    return frame.name == cut(site.function or "") and frame.place.rpartition(":")[0] == cut(
        package_file(site.file or "")
    )


def _from_program(stack: list[str]) -> Iterable[str]:
    """Return a stack from the outermost frame of the program on, without launchers."""
    own_depths = (
        depth
        for depth, entry in enumerate(stack)
        if (match := STACK_ENTRY.fullmatch(entry)) and is_user_file(match["file"])
    )
    return stack[next(own_depths, 0) :]


def _frame(entry: str) -> FlameFrame | None:
    match = STACK_ENTRY.fullmatch(entry)
    if match is None:
        return FlameFrame(cut(called_name(entry) or entry), "", KEY_OF_CODE["torch" if "orch" in entry else "library"])
    if match["function"] in MODULE_WRAPPERS:
        return None
    return _frame_at(match["file"], int(match["line"]), match["function"])


def _frame_at(file: str, line: int | None, function: str) -> FlameFrame:
    inside = package_file(file)
    return FlameFrame(cut(function), cut(inside if line is None else f"{inside}:{line}"), KEY_OF_CODE[origin_of(file)])


def fragment(graph: FlameGraph) -> Markup:
    """Return a flame graph as HTML; the page around it brings the script that draws it."""
    choices = Markup().join(
        Markup('<button type="button" data-measure="{}" aria-pressed="{}">{}</button>').format(
            number, "false" if number else "true", measure.label
        )
        for number, measure in enumerate(graph.measures)
    )
    wide = Markup('<span class="measures" role="group" aria-label="Width">{}</span>').format(choices)
    return Markup("""<figure class="flame{wider}">
<figcaption>{caption}</figcaption>
<div class="steer" role="group" aria-label="What the graph shows">{wide}
<button type="button" class="invert" aria-pressed="false">inverted</button>
<label>find <input type="search" class="lights" placeholder="function or file" spellcheck="false"></label>
<output class="lit"></output><span class="hint">{keys}</span></div>
<nav class="crumbs" aria-label="Callers of what is shown"></nav>
<p class="told" aria-live="off"></p>
<div class="boxes" role="tree" aria-label="{title}"></div>
{legend}
<script type="application/json">{data}</script>
</figure>""").format(
        wider=" host" if len(graph.measures) == 1 else "",
        caption=graph.caption,
        wide=wide if len(graph.measures) > 1 else "",
        title=graph.title,
        legend=legend(graph.kinds),
        keys=HOW_TO_STEER,
        data=in_script(_content(graph)),
    )


def _content(graph: FlameGraph) -> dict[str, Any]:
    numbers = {frame: number for number, frame in enumerate(dict.fromkeys(box.frame for box in graph.boxes))}
    codes = {kind: number for number, kind in enumerate(dict.fromkeys(frame.kind for frame in numbers))}
    return {
        "frames": [[frame.name, frame.place, codes[frame.kind]] for frame in numbers],
        "kinds": [[kind.label, kind.colour, hues.ink(kind.colour)] for kind in codes],
        "measures": [measure._asdict() for measure in graph.measures],
        "frame": [numbers[box.frame] for box in graph.boxes],
        "parent": [box.parent for box in graph.boxes],
        "total": _columns([box.total for box in graph.boxes]),
        "own": _columns([box.own for box in graph.boxes]),
    }


def _columns(rows: list[list[float]]) -> list[list[float]]:
    """Return rows as columns, with six digits."""
    return [[float(f"{value:.6g}") for value in column] for column in zip(*rows, strict=True)]
