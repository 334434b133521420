"""Which traces are the ranks of one job: the number of each rank, and the runs that share a folder."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from typing import NamedTuple

from pinprof.ground.errors import TraceError
from pinprof.ranks.rank import RankPart, rank_of

BY_ORDER = "order"  # the value of --rank-from that numbers the ranks in the order of the files
MAX_PAUSE_WITHIN_JOB_NS = 60 * 10**9
"""The longest pause between recordings of one job: its ranks record the same steps, and their clocks hardly differ."""
MAX_RANKS_NAMED = 8


class JobRun(NamedTuple):
    """Traces that are the ranks of one job."""

    parts: list[RankPart]
    remarks: list[str]  # sentences on the choice of traces


def numbered(parts: Sequence[RankPart], rank_from: str | None = None) -> list[RankPart]:
    """Return the traces with the numbers of their ranks, recorded or from their names.

    `rank_from` overrides both. It is a regular expression whose group is the number in the path, or `order`, which
    numbers them from 0. Raises TraceError if it is not such a pattern, or if a path has no such number.
    """
    if rank_from == BY_ORDER:
        return [_with_rank(part, index) for index, part in enumerate(parts)]
    pattern = _compiled(rank_from) if rank_from else None
    return [_with_rank(part, _matched(pattern, part) if pattern else rank_of(part)) for part in parts]


def checked_pattern(rank_from: str | None) -> str | None:
    """Return `rank_from` unchanged. Raises TraceError if it is neither `order` nor a pattern."""
    if rank_from and rank_from != BY_ORDER:
        _compiled(rank_from)
    return rank_from


def _compiled(text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise TraceError(f"{text}: is not a regular expression ({error}); 'trace_(\\d+)' is one") from None
    if pattern.groups != 1:
        raise TraceError(f"{text}: needs one group for the rank, as in 'trace_(\\d+)'; or give {BY_ORDER}")
    return pattern


def _matched(pattern: re.Pattern[str], part: RankPart) -> int:
    match = pattern.search(part.profile.path)
    if not match or not (match[1] or "").isdecimal():
        raise TraceError(f"{part.profile.path}: {pattern.pattern} finds no number in this path")
    return int(match[1])


def _with_rank(part: RankPart, rank: int | None) -> RankPart:
    return replace(part, profile=replace(part.profile, info=replace(part.profile.info, rank=rank)))


def runs(parts: Sequence[RankPart]) -> list[list[RankPart]]:
    """Return the traces of each run, the first recorded first.

    Jobs of different sizes are different runs. While a rank occurs twice in a run, the longest pause between recordings
    divides that run into two; traces without such a pause stay together.
    """
    by_size: dict[int | None, list[RankPart]] = defaultdict(list)
    sizes = {part.profile.info.world_size for part in parts} - {None}
    for part in parts:
        only_size = next(iter(sizes)) if len(sizes) == 1 else None
        by_size[part.profile.info.world_size or only_size].append(part)
    divided = [run for of_size in by_size.values() for run in _divided(sorted(of_size, key=_begin))]
    return sorted(divided, key=lambda run: _begin(run[0]))


def _divided(parts: list[RankPart]) -> Iterator[list[RankPart]]:
    """Yield the runs of traces, which are in order of time."""
    pauses = _pauses(parts)
    if len({rank_of(part) for part in parts}) == len(parts) or max(pauses, default=0) <= 0:
        yield parts
        return
    index = pauses.index(max(pauses)) + 1
    yield from _divided(parts[:index])
    yield from _divided(parts[index:])


def _begin(part: RankPart) -> int:
    return part.profile.begin_ns


def _pauses(parts: Sequence[RankPart]) -> list[int]:
    """Return the pause in ns before each trace but the first; negative if an earlier one had not ended."""
    pauses, end = [], 0
    for index, part in enumerate(parts):
        if index:
            pauses.append(_begin(part) - end)
        end = max(end, _begin(part) + part.profile.span_ns)
    return pauses


def job_of(parts: Sequence[RankPart]) -> JobRun:
    """Return the traces of the last run with the most ranks.

    Raises TraceError, with the reason and the remedy, if the traces are not the ranks of a job.
    """
    if len(parts) == 1:
        raise TraceError("only one of the files is a trace")
    unknown = [part.profile.path for part in parts if rank_of(part) is None]
    if unknown:
        raise TraceError(f"the rank of {unknown[0]} is unknown; say with --rank-from how to find it")
    every_run = runs(parts)
    index = max(range(len(every_run)), key=lambda index: (len(every_run[index]), index))
    chosen = sorted(every_run[index], key=lambda part: rank_of(part) or 0)
    reason = _why_no_job(chosen if len(chosen) > 1 else parts)
    if reason:
        raise TraceError(f"{reason}; give the traces of one run, or say with --rank-from what the ranks are")
    chosen = [replace(part, profile=replace(part.profile, of_job=True)) for part in chosen]
    return JobRun(chosen, [*_other_runs(every_run, index), *_gaps(chosen)])


def _why_no_job(parts: Sequence[RankPart]) -> str | None:
    """Return why traces are not the ranks of one job, in words; None if they are."""
    paths: dict[int | None, str] = {}
    for part in parts:
        rank = rank_of(part)
        if rank in paths:
            return f"{paths[rank]} and {part.profile.path} are both of rank {rank}"
        paths[rank] = part.profile.path
    sizes = sorted({size for part in parts if (size := part.profile.info.world_size)})
    return f"they are of jobs of {' and '.join(map(str, sizes))} ranks" if len(sizes) > 1 else None


def _other_runs(every_run: Sequence[Sequence[RankPart]], index: int) -> Iterator[str]:
    if len(every_run) == 1:
        return
    ranks = len(every_run[index])
    as_many = sum(len(run) == ranks for run in every_run)
    which = "the only one" if as_many == 1 else f"the last recorded of the {as_many}"
    this = f"this is run {index + 1}, {which} with {ranks} ranks"
    yield f"These are {len(every_run)} runs; {this}. For another, give its files, or a pattern that only they match"


def _gaps(parts: Sequence[RankPart]) -> Iterator[str]:
    numbers = {rank for part in parts if (rank := rank_of(part)) is not None}
    size = next((part.profile.info.world_size for part in parts if part.profile.info.world_size), max(numbers) + 1)
    absent = size - sum(0 <= rank < size for rank in numbers)
    if absent > 0:
        # a size may be absurd
        first = islice((str(rank) for rank in range(size) if rank not in numbers), MAX_RANKS_NAMED)
        named = ", ".join(first) + (f" and {absent - MAX_RANKS_NAMED} more" if absent > MAX_RANKS_NAMED else "")
        ranks, them = ("rank", "it") if absent == 1 else ("ranks", "these")
        yield f"No trace of {ranks} {named} of {size}: the others may have waited for {them}"
    in_time = sorted(parts, key=_begin)
    pauses = _pauses(in_time)
    if max(pauses, default=0) > MAX_PAUSE_WITHIN_JOB_NS:
        later = in_time[pauses.index(max(pauses)) + 1].profile.path
        time = timedelta(seconds=max(pauses) // 10**9)
        yield f"{later} was recorded {time} h after the others: another run, or a clock that is wrong"
