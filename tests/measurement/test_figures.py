"""The rows of the registry of figures: what they hold is what every report says."""

from pathlib import Path
from typing import Any

import pytest
from fitting import fitting
from recordings import WORKLOADS, analysis_of, each_recording
from trace_builder import TraceBuilder

from pinprof.comparison import compare
from pinprof.details import details_of
from pinprof.ground.units import ms
from pinprof.measurement.figures import (
    BUBBLE_MS,
    DRAIN_MS,
    FIGURES,
    HIDDEN_STALL_MS,
    HIDDEN_SYNCS,
    STALL_MS,
    SYNCS,
    WORKED_MS,
)
from pinprof.measurement.trust.doubt import FIGURE_KINDS as KINDS
from pinprof.measurement.trust.doubt import given
from pinprof.report.trace.json import traces_to_json

every_recording = pytest.mark.parametrize("path", each_recording(WORKLOADS))


def test_each_figure_has_a_name_and_a_place_of_its_own_and_is_withheld_by_kinds_that_there_are() -> None:
    assert len({figure.name for figure in FIGURES}) == len({figure.path for figure in FIGURES}) == len(FIGURES)
    for figure in FIGURES:
        assert {*figure.withheld_by} <= KINDS.keys()
        assert figure.value or figure.in_steps, f"nothing measures {figure.name}"
        assert figure.in_steps or figure.name == "step_ms" or not figure.label, f"{figure.name} has no spread"


def at(trace: dict[str, Any], path: str) -> float | None:
    """Return the figure at this place in the JSON of a trace."""
    value: Any = trace
    for key in path.split("/"):
        value = value and value[key]
    return value


@every_recording
def test_json_and_comparison_have_the_value_of_the_row(path: Path) -> None:
    analysis = analysis_of(path)
    (trace,) = fitting(traces_to_json([(analysis.profile, analysis.findings)]))["traces"]
    compared = {figure.name: figure for figure in compare(analysis, analysis).figures if figure.device is None}
    for figure in FIGURES:
        value = given(figure.of(analysis.profile))
        assert at(trace, figure.path) == (ms(value) if figure.unit == "ns" and value is not None else value)
        if figure.label:
            assert compared[figure.name].before.value == value


@every_recording
def test_waits_per_step_are_those_of_the_sites_together(path: Path) -> None:
    profile, sites = analysis_of(path).profile, analysis_of(path).details.syncs.sites
    hidden = [site.in_steps for site in sites if site.verdict == "hidden"]
    waits = [site.in_steps for site in sites if site.is_wait]
    expected = {
        HIDDEN_SYNCS: sum(cost.count for cost in hidden),
        HIDDEN_STALL_MS: sum(cost.stall_ns for cost in hidden),
        SYNCS: sum(cost.count for cost in waits),
        STALL_MS: sum(cost.stall_ns for cost in waits),
        DRAIN_MS: sum(cost.drain_ns for cost in waits),
        WORKED_MS: sum(cost.worked_ns for cost in waits),
        BUBBLE_MS: sum(cost.idle_ns for cost in waits),
    }
    for figure, total in expected.items():
        assert given(figure.of(profile)) in {None, total / profile.steps.divisor}


@every_recording
def test_the_values_of_the_steps_add_up_to_the_figure(path: Path) -> None:
    analysis = analysis_of(path)
    for figure in FIGURES:
        value, values = given(figure.of(analysis.profile)), figure.in_steps and figure.in_steps(analysis.details)
        if figure.is_sum and value is not None and values is not None:
            assert len(values) == analysis.profile.steps.count
            assert values.mean() == pytest.approx(value)


def test_steps_that_are_not_complete_have_no_value() -> None:
    builder = TraceBuilder()
    for start in (0, 1000, 2000, 12_000, 13_000, 14_000):  # the third lasts ten times as long
        builder.step(start, start, 990 if start != 2000 else 9_990)
        builder.kernel(start + 20, 500, launch=start + 10)
        builder.op("aten::item", start + 30, 500)
        builder.call("cudaStreamSynchronize", start + 40, 485)
    details = details_of(builder.read())
    values = HIDDEN_SYNCS.in_steps and HIDDEN_SYNCS.in_steps(details)
    assert values is not None
    assert values.tolist() == [1] * 5
    assert details.steps.count == 5
