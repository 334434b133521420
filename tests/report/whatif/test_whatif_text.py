from collections.abc import Callable

import pytest
from fitting import fitting
from msgspec.structs import replace
from recordings import ROOT, TRACES, analysis_of, trace_of
from trace_builder import TraceBuilder

from pinprof.details import details_of
from pinprof.prediction import Prediction, Scenario, predict
from pinprof.prediction.options import EVERYTHING, OPTIONS, OptionChange, changes_of
from pinprof.prediction.verification import verify
from pinprof.report.whatif import json as whatif_json
from pinprof.report.whatif import text as whatif_text
from pinprof.trace import Trace

WIDTH = 110


def predicted(name: str, scenario: Scenario) -> tuple[list[tuple[Trace, tuple[OptionChange, ...]]], Prediction]:
    trace = trace_of(TRACES / f"{name}.json.gz")
    return [(trace, changes_of(details_of(trace), scenario))], predict(trace, scenario)


def kept(text: str) -> str:
    return text.replace(f"{TRACES}/", "")


@pytest.mark.parametrize(
    ("name", "scenario"),
    [
        ("pageable_blocking", Scenario(pin=True, non_blocking=True)),
        ("empty_cache", EVERYTHING),
        ("loss_item_host_work", Scenario(drop_syncs=("pinprof/workloads/waits.py:58",), host_speed=2.0)),
    ],
)
def test_a_prediction_reads_as_kept(name: str, scenario: Scenario, golden: Callable[[str, str], None]) -> None:
    golden(f"whatif-{name}.txt", kept(whatif_text.prediction_to_text(*predicted(name, scenario), width=WIDTH)))


def test_a_trace_without_steps_saves_of_the_trace() -> None:
    builder = TraceBuilder()
    for start in (0, 1000):
        builder.kernel(start + 10, 500, launch=start)
        builder.call("cudaDeviceSynchronize", start + 20, 500)
    builder.kernel(2010, 500, launch=2000)
    trace, scenario = builder.read(), Scenario(host_speed=2.0)
    made = predict(trace, scenario)
    text = whatif_text.prediction_to_text([(trace, changes_of(details_of(trace), scenario))], made, width=WIDTH)
    assert "of the trace" in text
    assert "of the step" not in text
    assert "of the trace" in whatif_text.to_overview([trace], made, [("faster", "--host-speed 2", made)], width=WIDTH)


def test_the_usual_scenarios_read_as_kept(golden: Callable[[str, str], None]) -> None:
    ((trace, _),), now = predicted("readback_blocking", Scenario())
    pinned = predict(trace, Scenario(pin=True))
    named = [("pinned copies", "--pin", pinned), ("no allocations", "--drop-allocs", now)]
    golden("whatif-usual.txt", kept(whatif_text.to_overview([trace], now, named, width=WIDTH)))


@pytest.mark.parametrize(
    ("before", "after"), [("pageable_blocking", "prefetch"), ("mask_loss", "clean"), ("clean", "loss_item")]
)
def test_a_comparison_reads_as_kept(before: str, after: str, golden: Callable[[str, str], None]) -> None:
    old, new = (analysis_of(TRACES / f"{name}.json.gz") for name in (before, after))
    made = verify(old.details, old.profile, new.details, new.profile)
    golden(f"verify-{before}-{after}.txt", kept(whatif_text.verified_to_text(old.trace, made, width=WIDTH)))
    document = fitting(whatif_json.verification_to_json(made))
    assert document["schema"] == "pinprof.verify/1"
    assert document["predicted_saving_ms"] == pytest.approx(
        document["baseline_step_ms"] - document["predicted_step_ms"], abs=1e-5
    )
    assert document["measured_step_ms"] == pytest.approx(made.measured_ns / 1e6, abs=1e-5)


def test_json_has_the_scenario_the_speedup_and_the_range() -> None:
    document = fitting(
        whatif_json.prediction_to_json(*predicted("pageable_blocking", Scenario(pin=True, pinned_gbps=40.0)))
    )
    assert document["schema"] == "pinprof.whatif/1"
    assert document["scenario"]["pinned_gbps"] == 40
    assert document["speedup"] == pytest.approx(document["baseline_step_ms"] / document["predicted_step_ms"], rel=1e-5)
    low, high = document["range_ms"]
    assert low < document["predicted_step_ms"] < high


def test_every_option_of_a_scenario_is_a_fix_or_sets_a_speed() -> None:
    speeds = {"pinned_gbps", "machine", "host_speed", "gpu_speed"}
    assert OPTIONS.keys() == set(Scenario.__struct_fields__) - speeds


def test_the_guide_has_every_option_of_a_scenario() -> None:
    guide = (ROOT / "pinprof" / "guides" / "what-if.md").read_text()
    options = set(Scenario.__struct_fields__) - {"machine"}  # which the command finds
    assert [name for name in options if f"`--{name.replace('_', '-')}" not in guide] == []


def test_an_option_that_changes_nothing_says_so() -> None:
    scenario = replace(EVERYTHING, cuda_graph=None)  # any step launches something
    text = whatif_text.prediction_to_text(*predicted("clean", scenario))
    for option in set(OPTIONS) - {"cuda_graph", "fused_optimizer"}:
        assert OPTIONS[option].none in text
    assert "no measurable change" in text
