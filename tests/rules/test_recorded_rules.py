"""Rules held to recordings of programs that have what they are for, and of the same ones without it."""

import json
from typing import Any

import pytest
from quick import slow_but
from recordings import TRACES, analysis_of

from pinprof.rules.rule import Finding
from pinprof.rules.search import RULES

FOLDER = TRACES / "rules"
NEW = {"PIN605", "PIN607"} | {rule.id for rule in RULES if rule.family == "gpu"}
RULE_OF = {
    "tf32_off": "PIN701",
    "nchw_amp": "PIN702",
    "math_attention": "PIN703",
    "clip_loop": "PIN607",
    "ema_loop": "PIN607",
    "recompiling": "PIN605",
}

MENDED = sorted(path.name.removesuffix(".json.gz") for path in FOLDER.glob("*.mended.json.gz"))
"""The same programs without what the rules find."""


def found(name: str) -> dict[str, Finding]:
    """Return what these rules find, by number."""
    findings = analysis_of(FOLDER / f"{name}.json.gz").findings
    return {finding.rule.id: finding for finding in findings if finding.rule.id in NEW}


def saved_ms(name: str) -> float:
    """Return how much shorter the step is without it, as measured without a profiler."""
    programs: dict[str, Any] = json.loads((FOLDER / "rules.json").read_text())["programs"]
    return float(programs[name]["median"] - programs[f"{name}.mended"]["median"])


def test_the_rules_of_the_recordings_are_there() -> None:
    assert set(RULE_OF.values()) <= {rule.id for rule in RULES if rule.family in ("launches", "gpu")}
    assert {path.name.split(".")[0] for path in FOLDER.glob("*.json.gz")} == set(RULE_OF)


@pytest.mark.parametrize("name", slow_but(["clip_loop"], RULE_OF))
def test_a_program_with_it_is_told_so_and_nothing_else_of_these_rules(name: str) -> None:
    assert set(found(name)) == {RULE_OF[name]}
    assert found(name)[RULE_OF[name]].severity == "high"


@pytest.mark.parametrize("name", slow_but(["clip_loop.mended"], MENDED))
def test_a_program_without_it_is_told_none_of_these_rules(name: str) -> None:
    assert not found(name)


def test_tf32_saves_no_more_than_was_said_at_most() -> None:
    most = found("tf32_off")["PIN701"].most_ns
    assert most is not None
    assert 15 < saved_ms("tf32_off") <= most / 1e6 < 18.98


def test_channels_that_are_last_save_the_changes_of_layout_and_more() -> None:
    saving = found("nchw_amp")["PIN702"].saving
    assert saving is not None
    assert 6 < saving.saving_ns / 1e6 < saved_ms("nchw_amp")


def test_averaging_all_weights_together_saves_about_what_was_said() -> None:
    saving = found("ema_loop")["PIN607"].saving
    assert saving is not None
    assert saving.saving_ns / 1e6 == pytest.approx(saved_ms("ema_loop"), abs=1)


def test_pinning_promises_nothing_where_the_thread_that_pins_takes_as_long_as_the_step() -> None:
    analysis = analysis_of(TRACES / "loaders" / "pageable_64_mib.json.gz")
    (finding,) = (finding for finding in analysis.findings if finding.rule.id in {"PIN104", "PIN105"})
    assert finding.saving
    low, high = finding.saving.range_ns
    assert low < 0.3e6 < high  # measured in turns: 37.1 and 38.4 ms, 32.8 and 32.5
    assert finding.saving.saving_ns < 0.05 * 32.8e6


def test_a_thread_that_pins_too_slowly_is_named_and_not_its_workers() -> None:
    findings = {
        finding.rule.id: finding for finding in analysis_of(TRACES / "loaders" / "pinned_late.json.gz").findings
    }
    assert "its workers make a batch every 5.11 ms: the thread that pins them" in findings["PIN401"].evidence.text
    assert "PIN403" not in findings


def test_a_host_that_waits_for_the_thread_that_pins_while_the_gpu_works_is_not_late() -> None:
    """Its loader is never late: the host runs ahead of the GPU, which works for 99 % of the step."""
    findings = {finding.rule.id: finding for finding in analysis_of(TRACES / "loader_pinned.json.gz").findings}
    saving = findings["PIN301"].saving
    assert saving
    assert saving.saving_ns > 0.3e6
    assert findings["PIN701"].most_ns


def test_the_line_after_a_copy_is_not_blamed_for_the_unmapping_of_its_batch() -> None:
    findings = {finding.rule.id: finding for finding in analysis_of(TRACES / "runs" / "images.before.json.gz").findings}
    assert "unmapping them takes 3.11 ms" in findings["PIN104"].evidence.text
    assert "PIN603" not in findings  # 17 % of the samples are at slow.py:20, which follows x, y = x.cuda(), y.cuda()
