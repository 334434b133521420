"""A list of traces that are not the ranks of one job, for the terminal: a line for each, sorted by file."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from pinprof.analysis import Analysis
from pinprof.ground.units import counted, duration, percent, uncoded
from pinprof.measurement.profile import Profile
from pinprof.ranks.rank import RankPart
from pinprof.report.findings.views import brief_views
from pinprof.report.terminal import laid_out, unwrapped
from pinprof.report.trace.sections.host import named_lines, share_with_error
from pinprof.report.words import NOTHING, known_length, place, printable
from pinprof.rules.rule import Finding, Findings
from pinprof.trace.tables import WHOLE_TRACE
from pinprof.verdict.step_limits import LIMITS

TRACE_LIST_TITLES = ("file", "step", "verdict", "saves", "first change")
COLUMN_GAP = "  "
MIN_NARROW_NAME_COLUMNS, MIN_NAME_COLUMNS, MAX_NAME_COLUMNS = 8, 22, 36
"""Columns for file names: the least in a narrow terminal, the least in a wide one, and the most."""
MIN_CHANGE_COLUMNS, WIDE_CHANGE_COLUMNS = 12, 22
"""Columns for the first change: with fewer it has a line of its own; names get what it does not need beyond these."""
MAX_CAUSES_LISTED = 2
"""Causes that are named if a trace cannot tell which one it is."""
WHOLE_TRACE_PREFIX = "all "
"""Before the time of a trace without steps."""


class TraceRow(NamedTuple):
    """The line of a trace; `reason` replaces the cells that are not known."""

    path: str
    cells: tuple[str, ...]
    """The step, the verdict, and what the first change saves, as far as known."""
    change: str = ""
    reason: str = ""
    is_trace: bool = True


def overview_to_text(
    measured: Sequence[Analysis | RankPart],
    skipped: Mapping[str, str],
    report_arguments: str,
    *,
    width: int = 100,
    color: bool = False,
) -> str:
    """Return a line for each trace as text for a terminal of this width, with ANSI colours if asked for.

    `skipped` are the reasons why other files are not traces, by path; `report_arguments` follow `pinprof report` in the
    command that repeats this report.
    """
    return laid_out(_lines(measured, skipped, report_arguments, width), width=width, color=color)


def _lines(
    measured: Sequence[Analysis | RankPart], skipped: Mapping[str, str], report_arguments: str, width: int
) -> Iterator[RenderableType]:
    rows = [_trace_row(part.profile, part.findings) for part in measured]
    prefix, suffix = common_ends([*skipped, *(row.path for row in rows)], [row.path for row in rows])
    rows += [
        TraceRow(path, (), reason=reason.removeprefix(f"{path}: "), is_trace=False) for path, reason in skipped.items()
    ]
    rows.sort(key=lambda row: row.path)
    counts = counted(len(measured), "trace") + (f", {counted(len(skipped), 'other file')}" if skipped else "")
    yield unwrapped(f"{prefix}*{suffix} · {counts}" if prefix or suffix else counts, "dim")
    yield Text("")
    yield from _table(rows, [printable(row.path.removeprefix(prefix).removesuffix(suffix)) for row in rows], width)
    if any(cell.startswith(WHOLE_TRACE_PREFIX) for row in rows for cell in row.cells[:1]):
        yield Text(f"\n{WHOLE_TRACE_PREFIX.strip()}: the whole trace, in which no step was found", "dim")
    yield Text("")
    first = next(row.path for row in rows if row.is_trace)
    yield unwrapped(f"One of them: pinprof report {shlex.quote(printable(first))}", "dim")
    yield unwrapped(f"All reports: pinprof report {printable(report_arguments)} --full; a page: --html FILE", "dim")


def common_ends(files: Sequence[str], traces: Sequence[str]) -> tuple[str, str]:
    """Return the folder that all files begin with, and the suffixes that all traces end with.

    /run/a.pt.json.gz, /run/b.json.gz: /run/ and .json.gz.
    """
    prefix, suffix = _common(files), _common([path[::-1] for path in traces])[::-1]
    prefix = prefix[: prefix.rfind("/") + 1]
    name = min((path.removeprefix(prefix) for path in traces), key=len)
    first = suffix.find(".", 0 if len(name) > len(suffix) else 1)
    return prefix, suffix[first:] if first >= 0 and "/" not in suffix[first:] else ""


def _common(texts: Sequence[str]) -> str:
    """Return the characters that all texts begin with."""
    return "".join(letters[0] for letters in takewhile(lambda letters: len(set(letters)) == 1, zip(*texts)))  # noqa: B905


def _trace_row(profile: Profile, findings: Findings) -> TraceRow:
    first = next(iter(brief_views(profile, findings)), None)
    saves, change = NOTHING, NOTHING
    if first:
        saves, change = _saves(first.finding, profile), f"{first.rule.id} {uncoded(first.rule.short)}"
    elif lines := named_lines(profile):
        change = f"{share_with_error(profile, lines[0].count)} in {place(lines[0].place)}"
    verdict, reason = _limit(profile, findings), profile.withheld.reason(("step", "estimate"))
    if verdict == NOTHING and reason:
        return TraceRow(profile.path, (_step_length(profile),), reason=f"not known: {reason.what}")
    return TraceRow(profile.path, (_step_length(profile), verdict, saves), change)


def _step_length(profile: Profile) -> str:
    """Return the length of the step with its range, or as traced."""
    length, whole = known_length(profile), WHOLE_TRACE_PREFIX if profile.steps.source == WHOLE_TRACE else ""
    if length:
        return f"{whole}{length}"
    if profile.steps.traced_ns is not None:
        return f"{whole}{duration(profile.steps.traced_ns)} as traced"
    return "not known"


def _saves(finding: Finding, profile: Profile) -> str:
    """Return the share of the step that a change saves, with its range."""
    step_ns, saving = profile.step_ns, finding.saving
    if not step_ns or (saving is None and finding.most_ns is None):
        return "not known"
    if saving is None:
        return f"{percent((finding.most_ns or 0.0) / step_ns)} at most"
    low, high = (f"{min(max(100 * bound / step_ns, 0.0), 100.0):.0f}" for bound in saving.range_ns)
    return percent(saving.saving_ns / step_ns) + (f" ({low} to {high})" if low != high else "")


def _limit(profile: Profile, findings: Findings) -> str:
    """Return the verdict in a word or two, as far as known."""
    verdict = findings.verdict
    if verdict.cause is not None:
        return LIMITS[verdict.cause].word
    if verdict.between:
        return " or ".join(cost.cause for cost in verdict.between[:MAX_CAUSES_LISTED]) + "?"
    return NOTHING if profile.gpus else "no GPU work"


def _table(rows: Sequence[TraceRow], names: Sequence[str], width: int) -> Iterator[RenderableType]:
    """Yield the rows below their titles; a narrow terminal has the first change in a line of its own."""
    full = [TRACE_LIST_TITLES[1:4], *(row.cells for row in rows if not row.reason)]
    sizes = [max(map(cell_len, column)) for column in zip(*full, strict=True)]
    room = width - sum(sizes) - len(COLUMN_GAP) * (len(TRACE_LIST_TITLES) - 1)
    longest = min(max(map(cell_len, (TRACE_LIST_TITLES[0], *names))), MAX_NAME_COLUMNS)
    least = min(MIN_NAME_COLUMNS, max(room, MIN_NARROW_NAME_COLUMNS))
    sizes.insert(0, min(longest, max(room - WIDE_CHANGE_COLUMNS, least)))
    is_wide = room - sizes[0] >= MIN_CHANGE_COLUMNS
    yield unwrapped(_line(TRACE_LIST_TITLES if is_wide else TRACE_LIST_TITLES[:4], sizes), "bold")
    for row, name in zip(rows, names, strict=True):
        cells = (_cut(name, sizes[0]), *row.cells)
        if row.reason:
            yield unwrapped(_cut_end(_line((*cells, row.reason), sizes), width), "" if row.is_trace else "dim")
        elif is_wide:
            yield unwrapped(_cut_end(_line((*cells, row.change), sizes), width))
        else:
            yield from (unwrapped(_line(cells, sizes)), unwrapped(_cut_end(COLUMN_GAP + row.change, width)))


def _line(cells: Sequence[str], sizes: Sequence[int]) -> str:
    """Return the cells side by side; the last one has the rest of the line."""
    padded = (cell + " " * (size - cell_len(cell)) for cell, size in zip(cells[:-1], sizes, strict=False))
    return COLUMN_GAP.join((*padded, cells[-1]))


def _cut(name: str, longest: int) -> str:
    """Return a long name with its middle left out, more of it at the end: runs of one program begin alike."""
    end = longest // 3
    return name if cell_len(name) <= longest else f"{name[: longest - 1 - end]}…{name[-end:]}"


def _cut_end(text: str, longest: int) -> str:
    text = printable(text)
    return text if cell_len(text) <= longest else f"{text[: max(longest - 1, 0)]}…"
