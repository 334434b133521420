"""What changed between a recorded run of each version, the likely cause of the difference first."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from pinprof.analyses.by_name.kernels import KernelSums
from pinprof.analyses.by_name.ops import OpSums, OpTime
from pinprof.analyses.host_samples import HostSums
from pinprof.analysis import Analysis
from pinprof.comparison import ComparedFigure, Comparison, WaitChange, compare
from pinprof.comparison.changes import SAME
from pinprof.measurement.trust.doubt import given

CauseKind = Literal["input", "wait", "copy", "launches", "kernel", "op", "line"]
CERTAIN = 0.02
"""A number per step that differs by more than this share has changed; times scatter, numbers hardly do."""
MOVED = 0.1
"""A time that differs by less than this share counts as unchanged: one run of each version cannot show less."""
EXPLAINS = 0.3
"""What changes by less than this share of the step's difference does not explain it."""
TOO_MUCH = 5.0
"""A time that changes by more than this multiple of the difference was disturbed: a profiler makes times longer."""
MOST = 8


@dataclass(frozen=True)
class VersionFiles:
    """The files of one version: its folder, and the files that it has imported, apart from installed packages."""

    folder: Path
    files: tuple[str, ...]

    @cached_property
    def texts(self) -> Mapping[str, Sequence[str]]:
        """The lines of each file, by the name that a trace gives it: relative to the folder, where it is in it."""
        return dict(self._texts())

    def _texts(self) -> Iterator[tuple[str, Sequence[str]]]:
        for file in self.files:
            path = Path(file)
            try:
                lines = path.read_text(encoding="utf-8-sig").splitlines()
            except (OSError, ValueError):  # gone, or not text
                continue
            yield os.path.relpath(path.resolve(), self.folder.resolve()), lines

    def line(self, file: str, number: int) -> str:
        """Return the text of a line without its indent; empty if it is unknown."""
        lines = self.texts.get(file, ())
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""


@dataclass(frozen=True)
class LikelyCause:
    """Something that differs; numbers and times are per step, in ns, as traced."""

    kind: CauseKind
    what: str
    """The name of an op or kernel, the cause of a wait, the direction of a copy, or a line of the program."""
    where: str
    """The place in the program, as far as known."""
    count: tuple[float, float] | None
    """How often, before and after."""
    time_ns: tuple[float, float] | None
    """How long, before and after."""

    @property
    def is_certain(self) -> bool:
        """Whether its number per step differs, which noise cannot do."""
        return self.count is not None and _differs(*self.count, CERTAIN)

    @property
    def more_ns(self) -> float:
        """How much longer it takes after than before; where the number differs, at the mean time of each call."""
        if self.time_ns is None:
            return 0.0
        if self.count is None or not self.is_certain:
            return self.time_ns[1] - self.time_ns[0]
        return (self.count[1] - self.count[0]) * sum(self.time_ns) / sum(self.count)


def find_causes(
    before: Analysis, after: Analysis, more_ns: float, codes: tuple[VersionFiles, VersionFiles]
) -> tuple[LikelyCause, ...]:
    """Return what differs, the likely cause first.

    `more_ns` is the measured difference of the steps, `codes` are the files of each version.
    Changes in the direction of the difference come first. Among them, changed numbers that explain a part of the
    difference come before other changed numbers, and these before changes of time alone; then the largest times come
    first. A change of time alone counts only if it is large and explains a part.
    """
    comparison = compare(before, after)
    candidates = [
        *_input(comparison),
        *_waits(comparison),
        *_copy_causes(comparison),
        *_kernels(before, after),
        *_ops(before, after),
        *_line_causes(before, after, codes),
    ]
    kept = [cause for cause in candidates if cause.is_certain or _is_moved(cause, more_ns)]
    kept.sort(key=lambda cause: sort_key(cause, more_ns))
    return tuple(kept[:MOST])


def sort_key(cause: LikelyCause, more_ns: float) -> tuple[bool, int, float]:
    """Return the key by which causes are sorted."""
    is_other_way, explains = cause.more_ns * more_ns < 0, abs(cause.more_ns) >= EXPLAINS * abs(more_ns)
    group = (0 if explains else 1) if cause.is_certain else 2
    return is_other_way, group, -abs(cause.more_ns)


def _differs(before: float, after: float, share: float) -> bool:
    return abs(after - before) > share * max(before, after)


def _is_moved(cause: LikelyCause, more_ns: float) -> bool:
    if cause.time_ns is None or not _differs(*cause.time_ns, MOVED):
        return False
    return EXPLAINS * abs(more_ns) <= cause.more_ns * (1 if more_ns > 0 else -1) <= TOO_MUCH * abs(more_ns)


def _sides(figure: ComparedFigure) -> tuple[float, float] | None:
    before, after = figure.before.value, figure.after.value
    if before is None and after is None:
        return None
    return before or 0.0, after or 0.0


def _input(comparison: Comparison) -> Iterator[LikelyCause]:
    figure = next((figure for figure in comparison.figures if figure.name == "loader_ms"), None)
    if figure is not None:
        yield LikelyCause("input", "waiting for the DataLoader", "", None, _sides(figure))


def _waits(comparison: Comparison) -> Iterator[LikelyCause]:
    for change in comparison.waits:
        if change.status != SAME:
            yield LikelyCause(
                "wait", change.members[0].cause, _wait_place(change), _sides(change.count), _sides(change.stall)
            )


def _wait_place(change: WaitChange) -> str:
    """Return where a wait is: the user's line, and the path from it to the call."""
    site = change.members[0]
    own = f"{site.place.file}:{site.place.line}" if site.place.file and site.place.line else ""
    return " in ".join(filter(None, (site.place.function or "", own))) or (site.op or site.call)


def _copy_causes(comparison: Comparison) -> Iterator[LikelyCause]:
    for change in comparison.copies:
        if change.status != SAME:
            memory = "" if change.host_memory == "none" else f", {change.host_memory}"
            yield LikelyCause("copy", f"{change.direction}{memory}", "", _sides(change.count), _sides(change.exposed))


SumsByName = dict[str, tuple[float, float, str]]
"""By name: the number of calls and their time per step, and the place."""


def _kernels(before: Analysis, after: Analysis) -> Iterator[LikelyCause]:
    old, new = (_sums_by_name(side, given(side.profile.kernels)) for side in (before, after))
    yield from _name_causes("kernel", old, new)
    counts = [sum(count for count, _, _ in names.values()) for names in (old, new)]
    if any(counts) and _differs(counts[0], counts[1], CERTAIN):
        yield LikelyCause("launches", "kernels launched", "", (counts[0], counts[1]), None)


def _ops(before: Analysis, after: Analysis) -> Iterator[LikelyCause]:
    yield from _name_causes("op", *(_sums_by_name(side, given(side.profile.ops)) for side in (before, after)))


def _sums_by_name(side: Analysis, sums: KernelSums | OpSums | None) -> SumsByName:
    steps, names = max(side.profile.steps.count, 1), SumsByName()
    for row in sums.rows if sums else ():
        time_ns = row.own_ns if isinstance(row, OpTime) else row.time_ns
        names[row.name] = row.count / steps, time_ns / steps, _file_and_line(row.origin)
    return names


def _name_causes(kind: CauseKind, old: SumsByName, new: SumsByName) -> Iterator[LikelyCause]:
    nothing = (0.0, 0.0, "")
    for name in {**new, **old}:
        one, other = old.get(name, nothing), new.get(name, nothing)
        yield LikelyCause(kind, name, other[2] or one[2], (one[0], other[0]), (one[1], other[1]))


def _file_and_line(place: object) -> str:
    file, line = getattr(place, "file", None), getattr(place, "line", None)
    return f"{file}:{line}" if file and line else ""


def _line_causes(before: Analysis, after: Analysis, codes: tuple[VersionFiles, VersionFiles]) -> Iterator[LikelyCause]:
    """Yield the lines of the program in which samples found the host more or less often, without the profiler.

    Lines are matched by their text, because their numbers change. Shares must differ by more than their errors.
    """
    old_host, new_host = before.profile.host, after.profile.host
    old_ns, new_ns = (side.profile.estimate.step_ns for side in (before, after))
    if old_host is None or new_host is None or not old_ns or not new_ns:
        return
    old, new = _by_text(old_host, codes[0]), _by_text(new_host, codes[1])
    for text in {**new, **old}:
        counts = old.get(text, (0, ""))[0], new.get(text, (0, ""))[0]
        shares = old_host.share(counts[0]), new_host.share(counts[1])
        if abs(shares[1] - shares[0]) > old_host.error(counts[0]) + new_host.error(counts[1]):
            where = (new.get(text) or old[text])[1]
            yield LikelyCause("line", text, where, None, (shares[0] * old_ns, shares[1] * new_ns))


def _by_text(host: HostSums, code: VersionFiles) -> dict[str, tuple[int, str]]:
    """Return how often the host was found in each line, and where that is, by the text of the line."""
    counts: Counter[str] = Counter()
    places: dict[str, str] = {}
    for row in host.called:
        if row.file and row.line:
            text = code.line(row.file, row.line) or f"{row.function}"
            counts[text] += row.count
            places.setdefault(text, f"{row.file}:{row.line}")
    return {text: (count, places[text]) for text, count in counts.items()}
