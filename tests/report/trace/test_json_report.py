from pathlib import Path
from typing import Any

import pytest
from detector import FOLDER, LOSS, detector
from fitting import fitting
from one_after_another import one_after_another
from recordings import TRACES
from trace_builder import TraceBuilder, without_known_events

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


def test_times_are_milliseconds_and_add_up(recorded: dict[str, Any]) -> None:
    gpu = recorded["gpu"][0]
    assert gpu["busy_ms"] + gpu["idle_ms"] == pytest.approx(gpu["span_ms"], abs=1e-6)
    assert sum(row["time_ms"] for row in recorded["idle"]) == pytest.approx(gpu["idle_ms"], abs=1e-5)
    overlap = recorded["overlap"]
    assert sum(row["exposed_ms"] for row in overlap["reasons"]) == pytest.approx(overlap["exposed_ms"], abs=1e-5)
    assert 5 < recorded["steps"]["step_ms"] < 20


def test_the_profilers_own_synchronize_is_listed_but_in_no_sum(recorded: dict[str, Any]) -> None:
    syncs = recorded["syncs"]
    own = [site for site in syncs["sites"] if site["verdict"] == "profiler"]
    others = [site for site in syncs["sites"] if site["verdict"] != "profiler"]
    assert len(own) == 1
    assert syncs["count"] == sum(site["count"] for site in others) == 9
    assert syncs["per_step"] == 3
    assert syncs["stall_ms"] == pytest.approx(sum(site["stall_ms"] for site in others))


def test_findings_have_their_savings_and_all_of_them_together() -> None:
    (recorded,) = document_of(TRACES / "overlap_default_pinned.json.gz")["traces"]
    step = recorded["steps"]["step_ms"]
    first, last = recorded["findings"]
    low, high = first["range_ms"]
    assert low < first["saving_ms"] < high
    assert first["saving_fraction"] == pytest.approx(first["saving_ms"] / step, rel=1e-5)
    assert last["saving_ms"] is None
    joint = recorded["joint"]
    assert joint.keys() == {"saving_ms", "saving_fraction", "range_ms", "predicted_step_ms", "without"}
    assert joint["without"] == []
    assert joint["predicted_step_ms"] == pytest.approx(step - joint["saving_ms"], abs=1e-5)
    assert joint["saving_ms"] >= first["saving_ms"]


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


def test_a_finding_has_what_its_fix_makes_possible() -> None:
    (trace,) = document_of(TRACES / "overlap_default_pageable.json.gz")["traces"]
    first, last, _ = trace["findings"]
    assert first["then"].keys() == {"rule", "what", "saving_ms", "saving_fraction", "range_ms"}
    assert first["then"]["rule"] == "PIN301"
    assert first["then"]["saving_ms"] > first["saving_ms"]
    assert last["then"] is None


def test_what_nothing_filled_is_null_or_empty(tmp_path: Path) -> None:
    (trace,) = document_of(without_known_events().write(tmp_path / "trace.json"))["traces"]
    assert (
        trace["steps"]["step_ms"] is trace["steps"]["range_ms"] is trace["overlap"]["fraction"] is trace["rank"] is None
    )
    assert trace["joint"] is None
    assert trace["gpu"] == trace["copies"] == trace["findings"] == trace["syncs"]["sites"] == []


def test_events_of_old_versions_are_counted_by_their_present_names(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for old in ("Kernel", "Memcpy", "Memset", "Runtime", "Operator", "mtia_runtime"):
        builder.event(old, "x", 0, 1)
    (trace,) = document_of(builder.write(tmp_path / "trace.json"))["traces"]
    present = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cpu_op")
    assert [trace["events"][name] for name in present] == [1] * len(present)
    assert trace["events"]["other"] == {"mtia_runtime": 1}


def test_a_site_has_its_library_and_the_path_to_it(tmp_path: Path) -> None:
    (trace,) = document_of(detector().write(tmp_path / "trace.json"))["traces"]
    own, loss = (
        next(site for site in trace["syncs"]["sites"] if site["line"] == line and site["cause"] == cause)
        for line, cause in ((32, "item"), (30, "mask_index"))
    )
    assert (own["library"], own["path"]) == (None, [])
    assert loss["library"] == {"file": f"{FOLDER}/roi_heads.py", "line": 32, "function": "fastrcnn_loss"}
    assert loss["path"] == ["train.py:30:main", f"{FOLDER}/generalized_rcnn.py:104:forward", LOSS]
