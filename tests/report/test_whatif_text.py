from collections.abc import Callable

import pytest
from fitting import fitting
from recordings import ROOT, TRACES, analysis_of, trace_of

from pinprof.details import details_of
from pinprof.prediction import Prediction, Scenario, predict
from pinprof.prediction.predict import EVERYTHING
from pinprof.prediction.scenarios import OptionChange, changes_of
from pinprof.prediction.verification import verify
from pinprof.report import whatif
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
    golden(f"whatif-{name}.txt", kept(whatif.prediction_to_text(*predicted(name, scenario), width=WIDTH)))


def test_the_usual_scenarios_read_as_kept(golden: Callable[[str, str], None]) -> None:
    ((trace, _),), now = predicted("readback_blocking", Scenario())
    pinned = predict(trace, Scenario(pin=True))
    named = [("pinned copies", "--pin", pinned), ("no allocations", "--drop-allocs", now)]
    golden("whatif-usual.txt", kept(whatif.to_overview([trace], now, named, width=WIDTH)))


@pytest.mark.parametrize(
    ("before", "after"), [("pageable_blocking", "prefetch"), ("mask_loss", "clean"), ("clean", "loss_item")]
)
def test_a_comparison_reads_as_kept(before: str, after: str, golden: Callable[[str, str], None]) -> None:
    old, new = (analysis_of(TRACES / f"{name}.json.gz") for name in (before, after))
    made = verify(old.details, old.profile, new.details, new.profile)
    golden(f"verify-{before}-{after}.txt", kept(whatif.verified_to_text(old.trace, made, width=WIDTH)))
    document = fitting(whatif.verification_to_json(made))
    assert document["schema"] == "pinprof.verify/1"
    assert document["predicted_saving_ms"] == pytest.approx(
        document["baseline_step_ms"] - document["predicted_step_ms"], abs=1e-5
    )
    assert document["measured_step_ms"] == pytest.approx(made.measured_ns / 1e6, abs=1e-5)


def test_the_guide_has_every_option_of_a_scenario() -> None:
    guide = (ROOT / "pinprof" / "guides" / "what-if.md").read_text()
    options = set(Scenario.__struct_fields__) - {"machine"}  # which the command finds
    assert [name for name in options if f"`--{name.replace('_', '-')}" not in guide] == []
