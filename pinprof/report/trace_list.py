"""A list of traces that are not the ranks of one job, for the terminal: a row for each, sorted by file."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from os.path import commonpath

from rich.console import RenderableType
from rich.text import Text

from pinprof.analysis import Analysis
from pinprof.ground.units import counted, duration, percent, shortened, uncoded
from pinprof.measurement.profile import Profile
from pinprof.ranks.rank import RankPart
from pinprof.report.findings.views import brief_views
from pinprof.report.terminal import laid_out, table, unwrapped
from pinprof.report.trace.sections.host import named_lines, share_with_error
from pinprof.report.words import NOTHING, known_length, place, printable
from pinprof.rules.rule import Finding, Findings
from pinprof.trace.tables import WHOLE_TRACE
from pinprof.verdict.step_limits import LIMITS

MAX_LISTED_NAME_CHARS = 36
MAX_CAUSES_LISTED = 2


def overview_to_text(
    measured: Sequence[Analysis | RankPart],
    skipped: Mapping[str, str],
    report_arguments: str,
    *,
    width: int = 100,
    color: bool = False,
) -> str:
    """Return a row for each trace as text for a terminal of this width, with ANSI colours if asked for.

    `skipped` are the reasons why other files are not traces, by path; `report_arguments` follow `pinprof report` in the
    command that repeats this report.
    """
    return laid_out(_lines(measured, skipped, report_arguments), width=width, color=color)


def _lines(
    measured: Sequence[Analysis | RankPart], skipped: Mapping[str, str], report_arguments: str
) -> Iterator[RenderableType]:
    cells = {part.profile.path: _cells(part.profile, part.findings) for part in measured}
    first = min(cells)
    folders = {path.rpartition("/")[0] for path in (*cells, *skipped)}
    folder = f"{commonpath(folders)}/" if all(folders) and len({path[0] == "/" for path in folders}) == 1 else ""
    counts = counted(len(measured), "trace") + (f", {counted(len(skipped), 'other file')}" if skipped else "")
    yield unwrapped(" · ".join(filter(None, (folder, counts))), "dim")
    rows = table("file", "verdict", "first change", "step", "saves", text_columns=3)
    for path in sorted(cells):
        step, verdict, change, saves = cells[path]
        rows.add_row(shortened(path.removeprefix(folder), MAX_LISTED_NAME_CHARS), verdict, change, step, saves)
    yield rows
    for path, reason in sorted(skipped.items()):
        said = f"{shortened(path.removeprefix(folder), MAX_LISTED_NAME_CHARS)}: {reason.removeprefix(f'{path}: ')}"
        yield Text(printable(said), "dim")
    yield unwrapped(f"One of them: pinprof report {shlex.quote(printable(first))}", "dim")
    yield unwrapped(f"All reports: pinprof report {printable(report_arguments)} --full; a page: --html FILE", "dim")


def _cells(profile: Profile, findings: Findings) -> tuple[str, str, str, str]:
    first = next(iter(brief_views(profile, findings)), None)
    verdict, reason = _limit(profile, findings), profile.withheld.reason(("step", "estimate"))
    if verdict == NOTHING and reason:
        return _step_length(profile), f"not known: {reason.what}", "", ""
    if first:
        change = f"{first.rule.id} {uncoded(first.rule.short)}"
        return _step_length(profile), verdict, change, _saves(first.finding, profile)
    lines = named_lines(profile)
    change = f"{share_with_error(profile, lines[0].count)} in {place(lines[0].place)}" if lines else NOTHING
    return _step_length(profile), verdict, change, NOTHING


def _step_length(profile: Profile) -> str:
    length, whole = known_length(profile), " in all" if profile.steps.source == WHOLE_TRACE else ""
    if length or profile.steps.traced_ns is None:
        return f"{length.number}{whole}" if length else "not known"
    return f"{duration(profile.steps.traced_ns)}{whole} as traced"


def _saves(finding: Finding, profile: Profile) -> str:
    step_ns, saving = profile.step_ns, finding.saving
    if not step_ns or (saving is None and finding.most_ns is None):
        return "not known"
    if saving is None:
        return f"{percent((finding.most_ns or 0.0) / step_ns)} at most"
    low, high = (f"{min(max(100 * bound / step_ns, 0.0), 100.0):.0f}" for bound in saving.range_ns)
    return percent(finding.share_of(step_ns)) + (f" ({low} to {high})" if low != high else "")


def _limit(profile: Profile, findings: Findings) -> str:
    verdict = findings.verdict
    if verdict.cause is not None:
        return LIMITS[verdict.cause].word
    if verdict.between:
        return " or ".join(cost.cause for cost in verdict.between[:MAX_CAUSES_LISTED]) + "?"
    return NOTHING if profile.gpus else "no GPU work"
