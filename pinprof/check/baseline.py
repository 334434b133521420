"""The baseline of a check: figures of an earlier `pinprof report --json`."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from pinprof.analyses.syncs import SiteIdentity
from pinprof.check.figures import LIMITED, Bounded, TraceFigures
from pinprof.check.limits import ALL, MS, QUANTITIES, SHARE, Quantity
from pinprof.errors import PinprofError
from pinprof.measurement.figures import OVERLAP_FRACTION, PAGEABLE_BYTES, STEP_MS
from pinprof.version import REPORT_SCHEMA, VERSION

HOW = "make one with: pinprof report TRACE --json FILE"
UNKNOWN_BEFORE = "the baseline does not know it"
NO_COPIES = "the baseline has no copies"
TIMES_THE_KERNELS = 2.0
"""Two steps whose numbers of kernels differ by more than this factor are hardly of the same program."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Ms: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=MS.most)]
Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]


class BaselineSteps(msgspec.Struct, frozen=True):
    """Length and number of the complete steps."""

    count: Count
    step_ms: Ms | None
    step_source: str
    range_ms: tuple[Ms, Ms] | None

    def __post_init__(self) -> None:
        if self.range_ms is not None and self.range_ms[0] > self.range_ms[1]:
            raise ValueError("range_ms ends before it begins")


class BaselineLibrary(msgspec.Struct, frozen=True):
    """The innermost function outside of torch around waits."""

    file: str | None
    function: str | None


class BaselineSite(msgspec.Struct, frozen=True):
    """A wait site."""

    cause: str
    op: str | None
    file: str | None
    function: str | None
    verdict: str
    library: BaselineLibrary | msgspec.UnsetType | None = msgspec.UNSET
    """Unset in reports of a pinprof that did not tell sites apart by it."""

    @property
    def identity(self) -> SiteIdentity:
        """What identifies it in a trace, as `Site.identity`."""
        library = self.library or BaselineLibrary(None, None)
        return self.cause, self.file, self.function, self.op, library.file, library.function


class BaselineSyncs(msgspec.Struct, frozen=True):
    """The wait sites."""

    sites: tuple[BaselineSite, ...]


class BaselineCopies(msgspec.Struct, frozen=True):
    """The copies of one direction and host memory in the whole trace."""

    host_memory: str | None


class BaselineOverlap(msgspec.Struct, frozen=True):
    """The overlap in the whole trace."""

    fraction: Share | None


class BaselineDevice(msgspec.Struct, frozen=True):
    """A GPU that worked."""

    device: int


class BaselineName(msgspec.Struct, frozen=True):
    """A GPU of the recorded machine."""

    name: str | None


class BaselineEvents(msgspec.Struct, frozen=True):
    """Numbers of events."""

    kernel: Count


class BaselineMissing(msgspec.Struct, frozen=True):
    """A doubt about the trace."""

    check: str = ""


class BaselineTrace(msgspec.Struct, frozen=True):
    """What a check needs about a trace in an earlier report."""

    path: str
    rank: int | None
    devices: tuple[BaselineName, ...]
    events: BaselineEvents
    missing: tuple[BaselineMissing, ...]
    steps: BaselineSteps
    per_step: dict[str, float | None] | None
    """Sums over the complete steps, divided by their number, by figure."""
    gpu: tuple[BaselineDevice, ...]
    copies: tuple[BaselineCopies, ...]
    overlap: BaselineOverlap
    syncs: BaselineSyncs

    def __post_init__(self) -> None:
        for quantity in QUANTITIES.values():
            value = (self.per_step or {}).get(quantity.figure)
            if value is not None and not 0 <= value <= quantity.unit.most:
                raise ValueError(f"per_step.{quantity.figure} is impossible")

    @property
    def waits(self) -> set[SiteIdentity]:
        """The identities of its hidden waits."""
        return {site.identity for site in self.syncs.sites if site.verdict == "hidden"}

    @property
    def tells_libraries(self) -> bool:
        """Whether the report told waits apart by library."""
        return all(site.library is not msgspec.UNSET for site in self.syncs.sites)

    def has(self, wait: SiteIdentity) -> bool:
        """Return whether the trace had a hidden wait; of any library where the report did not tell which."""
        if self.tells_libraries:
            return wait in self.waits
        return wait[:4] in {known[:4] for known in self.waits}

    @property
    def tells_waits(self) -> bool:
        """Whether the report knew its hidden waits, even if there were none."""
        return bool(self.waits) or (
            self.per_step is not None and self.per_step.get("hidden_syncs") is not None and bool(self.gpu)
        )


class Baseline(msgspec.Struct, frozen=True):
    """An earlier report."""

    pinprof_version: str
    traces: tuple[BaselineTrace, ...]


class _Head(msgspec.Struct):
    schema: str | None = None


def read_baseline(path: str | Path) -> Baseline:
    """Return an earlier report. Raises PinprofError if the file is not one, or contains impossible figures."""
    try:
        data = Path(path).read_bytes()
    except OSError as exc:
        raise PinprofError(f"{path}: this baseline cannot be read ({exc.strerror}); {HOW}") from exc
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.schema == REPORT_SCHEMA:
            return msgspec.json.decode(data, type=Baseline)
    except msgspec.ValidationError as exc:
        raise PinprofError(f"{path}: is not a report of pinprof that a check can use ({exc}); {HOW}") from exc
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise PinprofError(f"{path}: is not JSON ({exc}); {HOW}") from exc
    schema = f"its schema is {head.schema}" if head.schema else "it has no schema"
    raise PinprofError(f"{path}: is not a baseline: {schema}, not {REPORT_SCHEMA}; {HOW}")


def match_traces(
    measured: Sequence[TraceFigures | None], baseline: Sequence[BaselineTrace]
) -> list[BaselineTrace | None]:
    """Return the counterpart of each trace: by rank if the baseline has all ranks, else by position.

    None stands for a trace that could not be read. Raises PinprofError if neither way matches the traces.
    """
    given = [trace for trace in measured if trace]
    by_rank: dict[int | None, BaselineTrace] = {trace.rank: trace for trace in baseline if trace.rank is not None}
    ranks = {trace.rank for trace in given}
    if len(ranks) == len(given) and ranks <= by_rank.keys():
        return [by_rank[trace.rank] if trace else None for trace in measured]
    if len(measured) == len(baseline):
        return [before if trace else None for trace, before in zip(measured, baseline, strict=True)]
    lost = next(trace for trace in given if trace.rank not in by_rank or len(ranks) < len(given))
    raise PinprofError(
        f"{lost.path}: the baseline has {len(baseline)} traces for {len(measured)}, and none of rank "
        f"{'unknown' if lost.rank is None else lost.rank}; {HOW.replace('TRACE', 'TRACE...')}"
    )


def remarks_on(
    baseline: Baseline, measured: Sequence[TraceFigures | None], matched: Sequence[BaselineTrace | None]
) -> Iterator[str]:
    """Yield in words what makes a baseline less fit for traces; `matched` are their counterparts in it."""
    if baseline.pinprof_version != VERSION:
        yield f"it is of pinprof {baseline.pinprof_version}, this is {VERSION}: figures may mean something else"
    left = [trace.path for trace in baseline.traces if not any(trace is before for before in matched)]
    if left:
        yield f"its {', '.join(left)} {'are' if len(left) > 1 else 'is'} compared with nothing"
    for now, before in zip(measured, matched, strict=True):
        if now and before:
            yield from (f"{now.path} is compared with its {before.path}, {unlike}" for unlike in _unlike(now, before))


def _unlike(now: TraceFigures, before: BaselineTrace) -> Iterator[str]:
    """Yield in words how the recording in the baseline differs from that of the trace."""
    if now.rank is not None and before.rank is not None and now.rank != before.rank:
        yield f"which is rank {before.rank}, not {now.rank}"
    if any(entry.check == "truncated" for entry in before.missing):
        yield "which has lost its end"
    names = frozenset(device.name for device in before.devices if device.name)
    if now.devices and names and now.devices != names:
        yield f"of {' and '.join(sorted(names))}, not {' and '.join(sorted(now.devices))}"
    if now.kernels is None or not before.steps.count:
        return
    kernels = before.events.kernel / before.steps.count
    if max(kernels, now.kernels) > TIMES_THE_KERNELS * min(kernels, now.kernels):
        yield f"whose steps have {kernels:,.0f} kernels, not {now.kernels:,.0f}: is it the same program?"


def figure_before(quantity: Quantity, before: BaselineTrace, now: Bounded) -> Bounded:
    """Return the baseline's figure of a quantity; `now` is the current figure."""
    figure = LIMITED[quantity.key]
    if figure is STEP_MS:
        return _step(before.steps)
    if figure is OVERLAP_FRACTION:
        share = before.overlap.fraction
        return Bounded(0.0, ALL, SHARE.noise, NO_COPIES) if share is None else Bounded(share, share, SHARE.noise)
    value = (before.per_step or {}).get(figure.name) if before.gpu else None
    if value is None:
        return Bounded(0.0, math.inf, now.noise, UNKNOWN_BEFORE)
    perhaps = figure is PAGEABLE_BYTES and any(group.host_memory == "unknown" for group in before.copies)
    return Bounded(value, math.inf if perhaps else value, now.noise, UNKNOWN_BEFORE if perhaps else "")


def _step(steps: BaselineSteps) -> Bounded:
    if steps.step_ms is not None and steps.step_source != "estimated":
        return Bounded(steps.step_ms, steps.step_ms, MS.noise)
    low, high = steps.range_ms or (0.0, math.inf)
    return Bounded(low, high, MS.noise, UNKNOWN_BEFORE)
