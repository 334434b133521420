"""The waits of the host as a flame graph: how the program comes to each, as far as stacks were recorded."""

from collections.abc import Iterable, Iterator

from pinprof.analyses.host import Kind
from pinprof.analyses.syncs import CAUSES
from pinprof.measurement.profile import Profile
from pinprof.measurement.sums import WaitSite
from pinprof.report.charts.host import COLOURS, KEYS
from pinprof.report.flame.graph import FlameFrame, FlameGraph, FlameKind, Measure, Path, gathered
from pinprof.report.timeline import hues
from pinprof.report.timeline.kinds import KINDS, STALL
from pinprof.report.words import cut
from pinprof.trace.frames import OF_TORCH, called_name, is_user_file, package_file
from pinprof.trace.paths import ENTRY
from pinprof.units import counted

OF_CODE = {kind: FlameKind(key.label, key.colour) for kind, key in zip(COLOURS, KEYS, strict=True)}
ROOT = FlameFrame("all waits", "", FlameKind("the whole", hues.PALE))
FEWEST = 2
"""Of fewer places a flame graph shows no more than the table."""


def waits_flame(profile: Profile) -> FlameGraph | None:
    """Return the flame graph of the waits in complete steps; None where there are too few to be one."""
    waits, count = profile.waits, profile.steps.count
    if len(waits) < FEWEST or not count:
        return None
    paths = [Path((*_frames(site), _wait(site)), (cost.stall_ns / count, cost.idle_ns / count)) for site, cost in waits]
    known = sum(bool(site.stack or site.path) for site, _ in waits)
    if not known or not any(sum(path.values) for path in paths):
        return None
    per = profile.steps.per
    measures = (
        Measure("stall", "all stalls", 1.0, per),
        Measure("GPU idle after", "the idle time that waits leave", 1.0, per),
    )
    unknown = f" Of {counted(len(waits) - known, 'place')} no call path was recorded." if known < len(waits) else ""
    caption = (
        f"{counted(len(waits), 'place')} in which the host waits for the GPU, each below the code that leads to it, as "
        f"wide as it stalls.{unknown}"
    )
    return FlameGraph("Waits by call path", caption, gathered(ROOT, paths, len(measures)), measures)


def _wait(site: WaitSite) -> FlameFrame:
    kind = KINDS[STALL + CAUSES.index(site.cause)]
    return FlameFrame(cut(f"{kind.label}: {site.op or site.call}"), "", FlameKind(kind.label, kind.colour))


def _frames(site: WaitSite) -> Iterator[FlameFrame]:
    """Yield the frames around a wait, the outermost of the program's own first."""
    if site.thread != "main":
        yield FlameFrame(f"{site.thread.replace('_', ' ')} thread", "", OF_CODE["torch"])
    stack = list(reversed(site.stack)) or list(site.path)
    known = [frame for frame in map(_frame, _from_own(stack)) if frame]
    at = _placed(site.file or "", site.line, site.function or "") if site.place.names else None
    if at and site.line is not None:
        own = [place for place, frame in enumerate(known) if _is_of(frame, site)]
        known[slice(own[-1], own[-1] + 1) if own else slice(len(known), None)] = [at]
    yield from known or filter(None, [at])


def _is_of(frame: FlameFrame, site: WaitSite) -> bool:
    """Return whether a frame is that of the user's function, whose stack may have the line where it begins."""
    return frame.name == cut(site.function or "") and frame.place.rpartition(":")[0] == cut(
        package_file(site.file or "")
    )


def _from_own(stack: list[str]) -> Iterable[str]:
    """Return a stack from the outermost frame of the program on: what starts it says nothing."""
    own = (
        place for place, entry in enumerate(stack) if (match := ENTRY.fullmatch(entry)) and is_user_file(match["file"])
    )
    return stack[next(own, 0) :]


def _frame(entry: str) -> FlameFrame | None:
    match = ENTRY.fullmatch(entry)
    if match is None:
        return FlameFrame(cut(called_name(entry) or entry), "", OF_CODE["torch" if "orch" in entry else "library"])
    if match["function"] in {"_wrapped_call_impl", "_call_impl"}:
        return None
    return _placed(match["file"], int(match["line"]), match["function"])


def _placed(file: str, line: int | None, function: str) -> FlameFrame:
    inside = package_file(file)
    is_torch = inside.split("/", maxsplit=1)[0] in OF_TORCH
    kind: Kind = "torch" if is_torch else "user" if is_user_file(file) else "library"
    return FlameFrame(cut(function), cut(inside if line is None else f"{inside}:{line}"), OF_CODE[kind])
