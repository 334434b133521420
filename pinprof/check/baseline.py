"""The baseline of a check: figures of an earlier `pinprof report --json`."""

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pinprof.analyses.syncs import SiteIdentity
from pinprof.check.figures import NOISE_MS, NOISE_SHARE, Figure, Measured
from pinprof.errors import PinprofError
from pinprof.version import REPORT_SCHEMA

HOW = "make one with: pinprof report TRACE --json FILE"
UNKNOWN_BEFORE = "the baseline does not know it"
NO_COPIES = "the baseline has no copies"


class BaselineSteps(msgspec.Struct, frozen=True):
    """Length and number of the complete steps."""

    count: int
    step_ms: float | None
    step_source: str
    range_ms: tuple[float, float] | None


class BaselineSite(msgspec.Struct, frozen=True):
    """A wait site."""

    cause: str
    op: str | None
    file: str | None
    function: str | None
    verdict: str


class BaselineSyncs(msgspec.Struct, frozen=True):
    """The wait sites."""

    sites: tuple[BaselineSite, ...]


class BaselineSums(msgspec.Struct, frozen=True):
    """Sums over the complete steps, divided by their number."""

    hidden_syncs: float | None
    hidden_stall_ms: float | None
    exposed_ms: float | None
    pageable_bytes: float | None


class BaselineCopies(msgspec.Struct, frozen=True):
    """The copies of one direction and host memory in the whole trace."""

    host_memory: str | None


class BaselineOverlap(msgspec.Struct, frozen=True):
    """The overlap in the whole trace."""

    fraction: float | None


class BaselineDevice(msgspec.Struct, frozen=True):
    """A GPU that worked."""

    device: int


class BaselineTrace(msgspec.Struct, frozen=True):
    """What a check needs of a trace in an earlier report."""

    path: str
    rank: int | None
    steps: BaselineSteps
    per_step: BaselineSums | None
    gpu: tuple[BaselineDevice, ...]
    copies: tuple[BaselineCopies, ...]
    overlap: BaselineOverlap
    syncs: BaselineSyncs

    @property
    def waits(self) -> set[SiteIdentity]:
        """The identities of its hidden waits."""
        return {
            (site.cause, site.file, site.function, site.op) for site in self.syncs.sites if site.verdict == "hidden"
        }


class _Report(msgspec.Struct):
    traces: tuple[BaselineTrace, ...]


class _Head(msgspec.Struct):
    schema: str | None = None


def read_baseline(path: str | Path) -> tuple[BaselineTrace, ...]:
    """Return the traces of an earlier report; PinprofError, with the file's name, if the file is none."""
    try:
        data = Path(path).read_bytes()
    except OSError as exc:
        raise PinprofError(f"{path}: this baseline cannot be read ({exc.strerror}); {HOW}") from exc
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.schema == REPORT_SCHEMA:
            return msgspec.json.decode(data, type=_Report).traces
    except msgspec.ValidationError as exc:
        raise PinprofError(f"{path}: is no report of pinprof that a check could use ({exc}); {HOW}") from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise PinprofError(f"{path}: is not JSON ({exc}); {HOW}") from exc
    schema = f"its schema is {head.schema}" if head.schema else "it has no schema"
    raise PinprofError(f"{path}: is no baseline: {schema}, not {REPORT_SCHEMA}; {HOW}")


def match_traces(measured: Sequence[Measured], baseline: Sequence[BaselineTrace]) -> list[BaselineTrace]:
    """Return for each trace its counterpart: by position where there are as many, else by rank."""
    if len(measured) == len(baseline):
        return list(baseline)
    by_rank = {trace.rank: trace for trace in baseline if trace.rank is not None}
    matched = [by_rank.get(trace.rank) if trace.rank is not None else None for trace in measured]
    for trace, before in zip(measured, matched, strict=True):
        if before is None:
            raise PinprofError(
                f"{trace.path}: the baseline has {len(baseline)} traces for {len(measured)}, and none of rank "
                f"{'unknown' if trace.rank is None else trace.rank}; {HOW.replace('TRACE', 'TRACE...')}"
            )
    return [before for before in matched if before is not None]


def figure_before(key: str, before: BaselineTrace, now: Figure) -> Figure:
    """Return the baseline's figure of a quantity; `now` is the present one."""
    if key == "max_step_ms":
        return _step(before.steps)
    if key == "min_overlap":
        fraction = before.overlap.fraction
        return Figure(0.0, 1.0, NOISE_SHARE, NO_COPIES) if fraction is None else Figure(fraction, fraction, NOISE_SHARE)
    sums = before.per_step
    if sums is None or not before.gpu:
        return Figure(0.0, math.inf, now.noise, UNKNOWN_BEFORE)
    value = {
        "max_hidden_syncs": sums.hidden_syncs,
        "max_stall_ms": sums.hidden_stall_ms,
        "max_exposed_ms": sums.exposed_ms,
        "max_pageable_bytes": sums.pageable_bytes,
    }[key]
    if value is None:
        return Figure(0.0, math.inf, now.noise, UNKNOWN_BEFORE)
    perhaps = key == "max_pageable_bytes" and any(group.host_memory == "unknown" for group in before.copies)
    return Figure(value, math.inf if perhaps else value, now.noise, UNKNOWN_BEFORE if perhaps else "")


def _step(steps: BaselineSteps) -> Figure:
    if steps.step_ms is not None and steps.step_source != "estimated":
        return Figure(steps.step_ms, steps.step_ms, NOISE_MS)
    low, high = steps.range_ms or (0.0, math.inf)
    return Figure(low, high, NOISE_MS, UNKNOWN_BEFORE)
