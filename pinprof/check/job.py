"""Checks the traces of a job together: an unreadable trace and a rank without a trace do not pass."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from pinprof.check.baseline import BaselineTrace
from pinprof.check.figures import TraceFigures
from pinprof.check.judge import DEFAULT_TOLERANCE, Checked, LimitVerdict, judge
from pinprof.check.limits import Limits
from pinprof.errors import TraceError
from pinprof.trace.files import rank_in_name

READABLE, READABLE_WHAT = "readable", "traces that can be read"
ALL_RANKS, ALL_RANKS_WHAT = "all_ranks", "ranks of the job of which a trace was given"
MOST_NAMED = 8
"""How many ranks a verdict names before it counts the rest."""
WAY_OUT = "give the traces of all ranks, or say with --some-ranks that these will do"


def judge_all(
    outcomes: Sequence[tuple[str, TraceFigures | TraceError]],
    limits: Limits,
    matched: Sequence[BaselineTrace | None] | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    *,
    some_ranks: bool = False,
) -> list[Checked]:
    """Return the check of each trace; `outcomes` are names with figures, or with the reason why they are unreadable.

    `matched` is the counterpart of each trace in the baseline. With `some_ranks` ranks may be absent.
    """
    measured = [made for _, made in outcomes if isinstance(made, TraceFigures)]
    unread = [path for path, made in outcomes if not isinstance(made, TraceFigures)]
    absent = {} if some_ranks else absent_ranks(measured, unread)
    checked = []
    for (path, made), before in zip(outcomes, matched or [None] * len(outcomes), strict=True):
        if not isinstance(made, TraceFigures):
            why = str(made).removeprefix(f"{path}: ")
            checked.append(Checked(path, (_unknown(READABLE, READABLE_WHAT, why),), ()))
            continue
        judged = judge(made, limits, before, tolerance)
        if made.path in absent:
            verdict = _unknown(ALL_RANKS, ALL_RANKS_WHAT, absent.pop(made.path))
            judged = replace(judged, verdicts=(*judged.verdicts, verdict))
        checked.append(judged)
    return checked


def _unknown(key: str, what: str, sentence: str) -> LimitVerdict:
    return LimitVerdict(key, what, None, None, None, "unknown", sentence)


def absent_ranks(measured: Sequence[TraceFigures], unread: Sequence[str] = ()) -> dict[str, str]:
    """Return in words which ranks are absent, by the path of the first trace of their job.

    Traces belong to one job if their jobs have equally many ranks; each of its runs must have all ranks. A rank is the
    recorded one, else that in the name. `unread` are files that could not be read, whose ranks are not absent.
    """
    absent = {}
    for size, traces in _jobs(measured).items():
        given = Counter({trace.path: _rank(trace) for trace in traces}.values())
        runs = max(given.values())
        given.update(map(rank_in_name, unread))
        present = sum(count >= runs for rank, count in given.items() if rank is not None and 0 <= rank < size)
        if present < size:
            which = "no trace" if runs == 1 else f"fewer than {runs} traces"
            listed = _listed((rank for rank in range(size) if given[rank] < runs), size - present)
            absent[traces[0].path] = f"{which} of rank {listed} of {size} given; {WAY_OUT}"
    return absent


def _jobs(measured: Sequence[TraceFigures]) -> Mapping[int, Sequence[TraceFigures]]:
    """Return the traces by the number of ranks of their job; a trace of unknown job belongs to the only job."""
    jobs: dict[int, list[TraceFigures]] = defaultdict(list)
    sizes = {trace.world_size for trace in measured} - {None}
    only = next(iter(sizes)) if len(sizes) == 1 else None
    for trace in measured:
        size = trace.world_size or only
        if size:
            jobs[size].append(trace)
    return jobs


def _rank(trace: TraceFigures) -> int | None:
    return rank_in_name(trace.path) if trace.rank is None else trace.rank


def _listed(ranks: Iterable[int], count: int) -> str:
    more = f" and {count - MOST_NAMED} more" if count > MOST_NAMED else ""
    return ", ".join(map(str, islice(ranks, MOST_NAMED))) + more
