"""The rows of the registry of figures: what they hold is what every report says, and a new row is enough."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import copying_trace
from fitting import fitting
from recordings import ROOT, WORKLOADS, analysis_of, each_recording

from pinprof.comparison import compare
from pinprof.measurement import figures
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
from pinprof.units import ms

every_recording = pytest.mark.parametrize("path", each_recording(WORKLOADS))


def test_each_figure_has_a_name_and_a_place_of_its_own_and_is_withheld_by_kinds_that_there_are() -> None:
    assert len({figure.name for figure in FIGURES}) == len({figure.path for figure in FIGURES}) == len(FIGURES)
    for figure in FIGURES:
        assert {*figure.withheld_by} <= KINDS.keys()
        assert figure.value or figure.in_steps, f"nothing measures {figure.name}"
        assert figure.in_steps or figure.name == "step_ms" or not figure.label, f"{figure.name} has no spread"


def test_each_figure_that_has_a_name_in_the_code_is_in_the_registry() -> None:
    assert {row for row in vars(figures).values() if isinstance(row, figures.TraceFigure)} <= set(FIGURES)


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


# A row is enough

MADE_UP = """
import sys
from pinprof.measurement import figures
from pinprof.measurement.step_values import sum_in_steps


def kernels(details):
    gpu = details.trace.gpu
    return sum_in_steps(details.trace, details.trace.links.activity_step, gpu.category == 0)


figures.FIGURES += (figures.TraceFigure("kernels", "kernels", "count", ("per_step", "busy"), kernels, label="kernels"),)

from pinprof.check import limits

limits.QUANTITIES["max_kernels"] = limits.Quantity(
    "max_kernels", "kernels", limits.COUNT, "Kernels per step.", "kernels per step", "findings", ("kernel",)
)
"""
"""A program with one more row of figures, and one of limits."""
COMMAND_LINE = "from pinprof.cli import main; main(sys.argv[1:])"
SCALARS = "import pinprof; print(pinprof.load(sys.argv[1]).scalars())"


def with_a_made_up_figure(*words: object, then: str = COMMAND_LINE) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", MADE_UP + then, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.mark.slow
def test_a_new_row_is_in_json_schema_comparison_check_and_scalars(tmp_path: Path) -> None:
    trace = copying_trace(tmp_path)
    report = json.loads(with_a_made_up_figure("report", trace, "--json").stdout)
    assert report["traces"][0]["per_step"]["kernels"] == 1
    (tmp_path / "before.json").write_text(json.dumps(report))
    schema = json.loads(with_a_made_up_figure("schema", "report").stdout)
    assert "kernels" in schema["$defs"]["per_step"]["required"]
    compared = json.loads(with_a_made_up_figure("compare", trace, trace, "--json").stdout)
    assert compared["figures"][-1]["name"] == "kernels"
    assert "kernels" in with_a_made_up_figure("compare", trace, trace, "--full").stdout
    kept, broken = (with_a_made_up_figure("check", trace, "--max-kernels", limit) for limit in (1, 0.5))
    assert (kept.returncode, broken.returncode) == (0, 1)
    assert "1 kernels per step, at most 0.5 allowed" in broken.stdout
    against = with_a_made_up_figure("check", trace, "--baseline", tmp_path / "before.json")
    assert "1 kernels per step, 1 in the baseline" in against.stdout
    assert "'pinprof/per_step/kernels': 1.0" in with_a_made_up_figure(trace, then=SCALARS).stdout
