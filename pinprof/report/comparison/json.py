"""A comparison of two traces for programs: JSON with the names of the report, in milliseconds, bytes and GB/s."""

import json
from typing import Any

from pinprof.analyses.syncs import Site
from pinprof.comparison import ComparedFigure, Comparison, CopyChange, FindingChange, Value, WaitChange
from pinprof.measurement.profile import Profile
from pinprof.report.comparison.words import verdict
from pinprof.rules import Finding, FoundSite
from pinprof.units import ms
from pinprof.version import VERSION

SCHEMA = "pinprof.compare/1"


def to_json(comparison: Comparison) -> str:
    """Return the comparison as JSON text; differences are after less before."""
    return json.dumps(fields(comparison), indent=2, allow_nan=False) + "\n"


def fields(comparison: Comparison) -> dict[str, Any]:
    """Return the names and values of the comparison."""
    return {
        "schema": SCHEMA,
        "pinprof_version": VERSION,
        "before": _side(comparison.before),
        "after": _side(comparison.after),
        "verdict": comparison.verdict,
        "sentence": verdict(comparison),
        "same_program": comparison.is_same_program,
        "kernels_alike": comparison.kernels_alike,
        "figures": [{"name": figure.name, "device": figure.device, **_figure(figure)} for figure in comparison.figures],
        "waits": [_wait(change) for change in comparison.waits],
        "waits_reason": comparison.waits_reason or None,
        "copies": [_copies(change) for change in comparison.copies],
        "copies_reason": comparison.copies_reason or None,
        "repinned": [
            {
                "direction": change.direction,
                "before": change.before,
                "after": change.after,
                "count": change.count,
                "bytes": change.bytes,
            }
            for change in comparison.repinned
        ],
        "findings": [_finding(change) for change in comparison.findings],
        "findings_reason": comparison.findings_reason or None,
    }


def _side(profile: Profile) -> dict[str, Any]:
    return {
        "path": profile.path,
        "rank": profile.info.rank,
        "torch_version": profile.info.torch_version,
        "devices": [{"name": device.name, "index": device.index} for device in profile.info.devices],
        "steps": profile.steps.count,
        "step_source": profile.estimate.source,
        "bound": profile.bound,
    }


def _number(unit: str, value: float | None) -> float | None:
    return value if value is None or unit != "ns" else ms(value)


def _range(unit: str, value: Value) -> list[float | None] | None:
    return None if value.spread is None else [_number(unit, bound) for bound in value.spread]


def _figure(figure: ComparedFigure) -> dict[str, Any]:
    unit = figure.unit
    return {
        "before": _number(unit, figure.before.value),
        "after": _number(unit, figure.after.value),
        "difference": _number(unit, figure.difference),
        "fraction": figure.fraction,
        "noise": _number(unit, figure.noise),
        "within_noise": figure.is_within_noise,
        "range_before": _range(unit, figure.before),
        "range_after": _range(unit, figure.after),
        "reason": figure.reason or None,
    }


def _wait(change: WaitChange) -> dict[str, Any]:
    site = change.sites[0]
    return {
        "change": change.status,
        "cause": site.cause,
        "op": site.op,
        "before": [_site(each) for each in change.before],
        "after": [_site(each) for each in change.after],
        **{figure.name: _figure(figure) for figure in (change.count, change.stall, change.bubble)},
    }


def _site(site: Site) -> dict[str, Any]:
    return {
        **site.place._asdict(),
        "library": site.library and site.library._asdict(),
        "call": site.call,
        "thread": site.thread,
        "verdict": site.verdict,
    }


def _copies(change: CopyChange) -> dict[str, Any]:
    figures = (change.count, change.bytes, change.time, change.exposed, change.rate)
    return {
        "change": change.status,
        "direction": change.direction,
        "host_memory": None if change.host_memory == "none" else change.host_memory,
        **{figure.name: _figure(figure) for figure in figures},
    }


def _finding(change: FindingChange) -> dict[str, Any]:
    rule = change.findings[0].rule
    return {
        "change": change.status,
        "rule": rule.id,
        "title": change.findings[0].title,
        "before": [_found(each) for each in change.before],
        "after": [_found(each) for each in change.after],
        "saving_ms": _figure(change.saving),
    }


def _found(finding: Finding) -> dict[str, Any]:
    evidence, made = finding.evidence, finding.saving
    return {
        "severity": finding.severity,
        **evidence.place._asdict(),
        "evidence": evidence.text,
        "saving_ms": None if made is None else _number("ns", made.saving_ns),
        "range_ms": None if made is None else [_number("ns", bound) for bound in made.range_ns],
        "sites": [_found_site(site) for site in finding.sites],
    }


def _found_site(site: FoundSite) -> dict[str, Any]:
    alone = site.saving
    return {**site.evidence.place._asdict(), "saving_ms": None if alone is None else _number("ns", alone.saving_ns)}
