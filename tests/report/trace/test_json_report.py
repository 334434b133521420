from pathlib import Path
from typing import Any

import pytest
from fitting import fitting
from one_after_another import one_after_another
from recordings import TRACES
from trace_builder import TraceBuilder

from pinprof.measurement.measure import measure
from pinprof.report.trace.json import traces_to_json
from pinprof.rules.search import find
from pinprof.trace import read_trace


def document_of(*paths: Path) -> dict[str, Any]:
    entries = []
    for path in paths:
        trace = read_trace(path)
        profile = measure(trace)
        entries.append((profile, find(profile, trace)))
    document: dict[str, Any] = fitting(traces_to_json(entries))
    return document


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    (trace,) = document_of(TRACES / "mask_loss.stack.json.gz")["traces"]
    assert isinstance(trace, dict)
    return trace


def test_what_is_pinned_is_there_as_recorded(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.copy("DtoD (Device -> Device)", 20, 80, launch=10)
    (without,) = document_of(builder.write(tmp_path / "trace.json"))["traces"]
    assert without["host_memory"] is None
    assert without["copies"][0]["host_memory"] is None  # the host has no part in it
    recorded = {"pinned_bytes": 3, "used_bytes": 2, "peak_bytes": 4, "total_bytes": 9, "available_bytes": 5}
    builder.metadata["pinprof"] = {"host_memory": {**recorded, "limit_bytes": None}, "loaders_pin": True}
    (there,) = document_of(builder.write(tmp_path / "trace.json"))["traces"]
    assert there["host_memory"] == {**recorded, "limit_bytes": None}
    assert there["loader"]["pins"] is True


def test_the_profilers_own_synchronize_is_listed_but_in_no_sum(recorded: dict[str, Any]) -> None:
    syncs = recorded["syncs"]
    own = [site for site in syncs["sites"] if site["verdict"] == "profiler"]
    others = [site for site in syncs["sites"] if site["verdict"] != "profiler"]
    assert len(own) == 1
    assert syncs["count"] == sum(site["count"] for site in others) == 9
    assert syncs["per_step"] == 3
    assert syncs["stall_ms"] == pytest.approx(sum(site["stall_ms"] for site in others))


def test_a_finding_has_its_family_and_all_its_sites(tmp_path: Path) -> None:
    (trace,) = document_of(one_after_another(12).write(tmp_path / "trace.json"))["traces"]
    finding = trace["findings"][0]
    assert finding["family"] == "waits"
    assert [finding[name] for name in ("file", "line", "function")] == ["train.py", None, "value11"]
    assert finding["saving_ms"] > 2.5
    first, *others = finding["sites"]
    assert (first["function"], first["saving_ms"], len(others)) == ("value11", 0, 11)
    assert sum(site["cost_ms"] for site in finding["sites"]) == pytest.approx(finding["cost_ms"])
    (trace,) = document_of(TRACES / "loss_item.stack.json.gz")["traces"]
    for finding in trace["findings"]:
        (site,) = finding["sites"]  # of one place
        assert site == {name: finding[name] for name in site}
