"""The baseline of a check: figures of an earlier `pinprof report --json`."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from pinprof.check.figures import NOISE_BYTES, NOISE_MS, NOISE_SHARE, NOISE_WAITS, Figure, Measured
from pinprof.errors import PinprofError

SCHEMA = "pinprof.report/1"
"""What `pinprof report --json` writes."""
HOW = "make one with: pinprof report TRACE --json FILE"
UNKNOWN_BEFORE = "the baseline does not know it"
NO_COPIES = "the baseline has no copies"


class BaselineSteps(msgspec.Struct, frozen=True):
    """Length and number of the complete steps."""

    count: int
    step_ms: float | None
    range_ms: tuple[float, float] | None


class BaselineSite(msgspec.Struct, frozen=True):
    """A wait site; times of the whole trace."""

    cause: str
    op: str | None
    file: str | None
    function: str | None
    verdict: str
    per_step: float | None
    stall_ms: float


class BaselineSyncs(msgspec.Struct, frozen=True):
    """The wait sites."""

    sites: tuple[BaselineSite, ...]


class BaselineCopies(msgspec.Struct, frozen=True):
    """The copies of one direction and host memory in the whole trace."""

    host_memory: str | None
    bytes: int


class BaselineOverlap(msgspec.Struct, frozen=True):
    """The overlap in the whole trace."""

    exposed_ms: float
    fraction: float | None


class BaselineDevice(msgspec.Struct, frozen=True):
    """A GPU that worked."""

    device: int


class BaselineTrace(msgspec.Struct, frozen=True):
    """What a check needs of a trace in an earlier report."""

    path: str
    rank: int | None
    steps: BaselineSteps
    gpu: tuple[BaselineDevice, ...]
    copies: tuple[BaselineCopies, ...]
    overlap: BaselineOverlap
    syncs: BaselineSyncs

    @property
    def waits(self) -> set[tuple[str, str | None, str | None, str | None]]:
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
        if head.schema == SCHEMA:
            return msgspec.json.decode(data, type=_Report).traces
    except msgspec.ValidationError as exc:
        raise PinprofError(f"{path}: is no report of pinprof that a check could use ({exc}); {HOW}") from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise PinprofError(f"{path}: is not JSON ({exc}); {HOW}") from exc
    schema = f"its schema is {head.schema}" if head.schema else "it has no schema"
    raise PinprofError(f"{path}: is no baseline: {schema}, not {SCHEMA}; {HOW}")


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
    """Return the baseline's figure of a quantity.

    A report holds times and sizes of the whole trace. What the present trace has outside of its complete steps is
    taken off, so that a trace compared with its own report gives equal figures, however much lies outside.
    """
    if key == "max_step_ms":
        return _step(before.steps)
    if key == "min_overlap":
        fraction = before.overlap.fraction
        return Figure(0.0, 1.0, NOISE_SHARE, NO_COPIES) if fraction is None else Figure(fraction, fraction, NOISE_SHARE)
    if not before.steps.count or not before.gpu:
        return Figure(0.0, math.inf, now.noise, UNKNOWN_BEFORE)
    return _in_steps(key, before, now)


def _in_steps(key: str, before: BaselineTrace, now: Figure) -> Figure:
    """Return the baseline's figure of a quantity that is counted per step."""
    hidden = [site for site in before.syncs.sites if site.verdict == "hidden"]
    if key == "max_hidden_syncs":
        count = sum(site.per_step or 0.0 for site in hidden)
        return Figure(count, count, NOISE_WAITS)
    if key == "max_stall_ms":
        return _per_step(sum(site.stall_ms for site in hidden), before, now, NOISE_MS)
    if key == "max_exposed_ms":
        return _per_step(before.overlap.exposed_ms, before, now, NOISE_MS)
    pageable, perhaps = (
        sum(group.bytes for group in before.copies if group.host_memory == memory) for memory in ("pageable", "unknown")
    )
    known = _per_step(pageable, before, now, NOISE_BYTES)
    return replace(known, high=known.low + perhaps / before.steps.count, note=UNKNOWN_BEFORE if perhaps else "")


def _step(steps: BaselineSteps) -> Figure:
    if steps.step_ms is not None:
        return Figure(steps.step_ms, steps.step_ms, NOISE_MS)
    low, high = steps.range_ms or (0.0, math.inf)
    return Figure(low, high, NOISE_MS, UNKNOWN_BEFORE)


def _per_step(whole: float, before: BaselineTrace, now: Figure, noise: float) -> Figure:
    value = max(whole - now.outside, 0.0) / before.steps.count
    return Figure(value, value, noise)
