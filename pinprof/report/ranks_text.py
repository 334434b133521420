"""The ranks of a job for the terminal: who holds up the others, each rank in figures, and what all have in common."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from pinprof.ranks import RankPart, RankRow, Ranks, number_of, why_not_aligned
from pinprof.report.layout import bullet, fact, laid_out, section, table
from pinprof.report.words import NOTHING, place
from pinprof.rules import Finding
from pinprof.units import duration, percent

MAX_ROWS = 32
"""More ranks than this are not listed: the ones that need longest alone are."""
MAX_COLLECTIVES = 5
MAX_NUMBERS = 6
"""Ranks of a shared finding that are named before the rest is counted."""


def to_text(ranks: Ranks, parts: Sequence[RankPart], *, width: int = 100, color: bool = False) -> str:
    """Return what the ranks of a job show side by side as text for a terminal of this width."""
    return laid_out(_parts(ranks, parts), width=width, color=color)


def _parts(ranks: Ranks, parts: Sequence[RankPart]) -> Iterator[RenderableType]:
    of = f" of {ranks.world_size}" if ranks.world_size and ranks.world_size != len(ranks.rows) else ""
    yield Text(f"{len(ranks.rows)}{of} ranks of one job", "bold")
    yield section("Who waits for whom")
    apart = why_not_aligned(parts)
    if apart:
        yield bullet(f"recorded at different steps ({apart}): what each waited, and who came last, is not certain")
    yield from _verdict(ranks)
    yield from _rows(ranks)
    if ranks.collectives:
        yield section("Collectives, the longest awaited")
        yield from _collectives(ranks)
    shared = list(_shared(parts))
    if shared:
        yield section("Findings by rank")
        yield from (bullet(text) for text in shared)


def _verdict(ranks: Ranks) -> Iterator[RenderableType]:
    if ranks.slowest_rank is None:
        yield fact("none", "no rank holds up the others: each would need about the same step alone")
        return
    slowest = next(row for row in ranks.rows if row.rank == ranks.slowest_rank)
    yield fact(f"rank {slowest.rank}", f"holds up the others: {ranks.reason}")
    alone = duration(slowest.alone_ns or 0.0)
    yield fact(duration(ranks.skew_ns), f"longer than they: its step would take {alone} if it waited for nobody")


def _rows(ranks: Ranks) -> Iterator[RenderableType]:
    rows = table(
        *("rank", "step", "alone", "GPU busy", "exposed copies", "stalls", "input", "collectives"),
        *("exposed", "waited", "came last"),
        text_columns=1,
    )
    chosen: Sequence[RankRow] = ranks.rows
    if len(chosen) > MAX_ROWS:
        chosen = sorted(chosen, key=lambda row: -(row.alone_ns or 0.0))[:MAX_ROWS]
    for row in chosen:
        rows.add_row(
            f"{row.rank} *" if row.rank == ranks.slowest_rank else str(row.rank),
            *(
                NOTHING if time is None else duration(time)
                for time in (
                    *(row.step_ns, row.alone_ns, row.gpu_busy_ns, row.exposed_copies_ns, row.stall_ns, row.input_ns),
                    *(row.communication_ns, row.exposed_communication_ns, row.waited_ns),
                )
            ),
            percent(row.last),
        )
    yield rows
    if len(ranks.rows) > MAX_ROWS:
        yield bullet(f"the {MAX_ROWS} that need longest alone; the JSON report has all {len(ranks.rows)}")
    yield bullet("per step; alone: without the profiler, and if the rank waited for no other, by replay")
    if ranks.slowest_rank is None and any(row.waited_ns for row in ranks.rows):
        yield bullet("who comes last costs nothing where all hosts run ahead of their GPUs: one always is behind")


def _collectives(ranks: Ranks) -> Iterator[RenderableType]:
    rows = table("collective", "ranks", "came last", "in", "takes", "others waited", text_columns=3)
    for row in ranks.collectives[:MAX_COLLECTIVES]:
        group = row.group or NOTHING
        last = f"rank {row.last_rank}"
        rows.add_row(row.name, group, last, percent(row.last), duration(row.own_ns), duration(row.waited_ns))
    yield rows


def _shared(parts: Sequence[RankPart]) -> Iterator[str]:
    """Yield each finding once, with the ranks that have it."""
    found: dict[tuple[str, str], list[tuple[int, Finding]]] = defaultdict(list)
    for position, part in enumerate(parts):
        for finding in part.findings:
            evidence = finding.evidence
            where = place(evidence.file, evidence.line, evidence.function)
            found[finding.rule.id, where].append((number_of(part, position), finding))
    for (rule, where), members in found.items():
        numbers = sorted({number for number, _ in members})
        if len(numbers) == len(parts):
            who = "all ranks"
        else:
            listed = ", ".join(map(str, numbers[:MAX_NUMBERS]))
            more = f" and {len(numbers) - MAX_NUMBERS} more" if len(numbers) > MAX_NUMBERS else ""
            who = f"rank{'s' * (len(numbers) > 1)} {listed}{more}"
        at = f" in {where}" if where else ""
        yield f"{who}: {members[0][1].rule.title} ({rule}){at}"
