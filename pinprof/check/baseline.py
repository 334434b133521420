"""The baseline of a check: an earlier `pinprof report --json`."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from pinprof.analyses.syncs.sites import SiteIdentity
from pinprof.check.figures import FIGURE_OF_QUANTITY, Bounded, TraceFigures
from pinprof.check.limits import QUANTITIES, UNIT_MS, UNIT_SHARE, WHOLE_SHARE, Quantity
from pinprof.document import read_document
from pinprof.documents import report as documents
from pinprof.documents.fields import DeviceJson, Library
from pinprof.documents.waits import CopiesJson, OverlapJson, SiteJson, SyncsJson
from pinprof.ground.errors import PinprofError
from pinprof.measurement.figures import OVERLAP_FRACTION, PAGEABLE_BYTES, STEP_MS
from pinprof.version import VERSION

HOW_TO_MAKE = "make one with: pinprof report TRACE --json FILE"
UNKNOWN_BEFORE = "the baseline does not know it"
NO_COPIES_IN_BASELINE = "the baseline has no copies"
MAX_RATIO_OF_KERNELS = 2.0
"""Two steps whose numbers of kernels differ by more than this factor are hardly of the same program."""


class BaselineTrace(msgspec.Struct):
    """The parts of `documents.Trace` that a check needs; reports of older versions may lack others."""

    path: str
    rank: int | None
    devices: Sequence[DeviceJson]
    events: documents.Events
    steps: documents.StepsJson
    per_step: documents.PerStep | None
    gpu: Sequence[documents.GpuJson]
    copies: Sequence[CopiesJson]
    overlap: OverlapJson
    syncs: SyncsJson


class Baseline(msgspec.Struct):
    """An earlier report."""

    pinprof_version: str
    traces: Sequence[BaselineTrace]


class _Head(msgspec.Struct):
    schema: str | None = None


def read_baseline(path: str | Path) -> Baseline:
    """Return an earlier report. Raises PinprofError if the file is not one, or contains impossible figures."""
    try:
        data = read_document(path)
    except OSError as exc:
        raise PinprofError(f"{path}: this baseline cannot be read ({exc.strerror}); {HOW_TO_MAKE}") from exc
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.schema == documents.REPORT_SCHEMA:
            report = msgspec.json.decode(data, type=Baseline)
            _refuse_impossible(report)
            return report
    except msgspec.ValidationError as exc:
        raise PinprofError(f"{path}: is not a report of pinprof that a check can use ({exc}); {HOW_TO_MAKE}") from exc
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise PinprofError(f"{path}: is not JSON ({exc}); {HOW_TO_MAKE}") from exc
    schema = f"its schema is {head.schema}" if head.schema else "it has no schema"
    raise PinprofError(f"{path}: is not a baseline: {schema}, not {documents.REPORT_SCHEMA}; {HOW_TO_MAKE}")


def _refuse_impossible(report: Baseline) -> None:
    """Raise ValidationError for a figure that no trace can have, by its name."""
    for number, trace in enumerate(report.traces):
        low, high = trace.steps.range_ms or (0.0, 0.0)
        figures = [
            ("steps.step_ms", trace.steps.step_ms, UNIT_MS.most),
            ("steps.range_ms", low, high),
            ("steps.range_ms", high, UNIT_MS.most),
            ("overlap.fraction", trace.overlap.fraction, WHOLE_SHARE),
            *((f"per_step.{row.figure}", _per_step(trace, row.figure), row.unit.most) for row in QUANTITIES.values()),
        ]
        for name, value, most in figures:
            if value is not None and not 0 <= value <= most:
                raise msgspec.ValidationError(f"Impossible - at `$.traces[{number}].{name}`")


def match_traces(
    measured: Sequence[TraceFigures | None], baseline: Sequence[BaselineTrace]
) -> list[BaselineTrace | None]:
    """Return each trace's counterpart, by rank or else by position. Raises PinprofError if neither way matches."""
    traces = [trace for trace in measured if trace]
    by_rank: dict[int | None, BaselineTrace] = {trace.rank: trace for trace in baseline if trace.rank is not None}
    ranks = {trace.rank for trace in traces}
    if len(ranks) == len(traces) and ranks <= by_rank.keys():
        return [by_rank[trace.rank] if trace else None for trace in measured]
    if len(measured) == len(baseline):
        return [before if trace else None for trace, before in zip(measured, baseline, strict=True)]
    lost = next(trace for trace in traces if trace.rank not in by_rank or len(ranks) < len(traces))
    raise PinprofError(
        f"{lost.path}: the baseline has {len(baseline)} traces for {len(measured)}, and none of rank "
        f"{'unknown' if lost.rank is None else lost.rank}; {HOW_TO_MAKE.replace('TRACE', 'TRACE...')}"
    )


def remarks_on(
    baseline: Baseline, measured: Sequence[TraceFigures | None], matched: Sequence[BaselineTrace | None]
) -> Iterator[str]:
    """Yield remarks on a baseline that does not fit the traces well; `matched` are their counterparts in it."""
    if baseline.pinprof_version != VERSION:
        yield f"it is of pinprof {baseline.pinprof_version}, this is {VERSION}: figures may mean other things"
    unmatched = [trace.path for trace in baseline.traces if not any(trace is before for before in matched)]
    if unmatched:
        yield f"its {', '.join(unmatched)} {'are' if len(unmatched) > 1 else 'is'} compared with nothing"
    for now, before in zip(measured, matched, strict=True):
        if now and before:
            yield from (f"{now.path} is compared with its {before.path}, {unlike}" for unlike in _unlike(now, before))


def _unlike(now: TraceFigures, before: BaselineTrace) -> Iterator[str]:
    names = frozenset(device.name for device in before.devices if device.name)
    if now.devices and names and now.devices != names:
        yield f"of {' and '.join(sorted(names))}, not {' and '.join(sorted(now.devices))}"
    if now.kernels is None or not before.steps.count:
        return
    kernels = before.events.kernel / before.steps.count
    if max(kernels, now.kernels) > MAX_RATIO_OF_KERNELS * min(kernels, now.kernels):
        yield f"whose steps have {kernels:,.0f} kernels, not {now.kernels:,.0f}: is it the same program?"


def figure_before(quantity: Quantity, before: BaselineTrace, now: Bounded) -> Bounded:
    """Return the baseline's figure of a quantity; `now` is the current figure."""
    figure = FIGURE_OF_QUANTITY[quantity.key]
    if figure is STEP_MS:
        return _step_bounds(before.steps)
    if figure is OVERLAP_FRACTION:
        if (share := before.overlap.fraction) is None:
            return Bounded(0.0, WHOLE_SHARE, UNIT_SHARE.noise, NO_COPIES_IN_BASELINE)
        return Bounded(share, share, UNIT_SHARE.noise)
    value = _per_step(before, figure.name) if before.gpu else None
    if value is None:
        return Bounded(0.0, math.inf, now.noise, UNKNOWN_BEFORE)
    perhaps = figure is PAGEABLE_BYTES and any(group.host_memory == "unknown" for group in before.copies)
    return Bounded(value, math.inf if perhaps else value, now.noise, UNKNOWN_BEFORE if perhaps else "")


def _step_bounds(steps: documents.StepsJson) -> Bounded:
    if steps.step_ms is not None and steps.step_source != "estimated":
        return Bounded(steps.step_ms, steps.step_ms, UNIT_MS.noise)
    low, high = steps.range_ms or (0.0, math.inf)
    return Bounded(low, high, UNIT_MS.noise, UNKNOWN_BEFORE)


def _per_step(before: BaselineTrace, figure: str) -> float | None:
    return getattr(before.per_step, figure, None)


def has_wait(before: BaselineTrace, wait: SiteIdentity) -> bool:
    """Return whether the trace had a hidden wait."""
    return wait in {_identity(site) for site in before.syncs.sites if site.verdict == "hidden"}


def _identity(site: SiteJson) -> SiteIdentity:
    """Return what identifies waits in a trace, like `Site.identity` of the analysis."""
    library = site.library or Library(None, None, None)
    return site.cause, site.file, site.function, site.op, library.file, library.function


def tells_waits(before: BaselineTrace) -> bool:
    """Return whether the report knew its hidden waits, even if there were none."""
    if any(site.verdict == "hidden" for site in before.syncs.sites):
        return True
    return _per_step(before, "hidden_syncs") is not None and bool(before.gpu)
