"""Recordings of generate, gpt-fast and loops by hand: each prefill and decode is found, and what to do fits."""

import json
from typing import Any

import pytest
from recordings import TRACES, analysis_of

FOLDER = TRACES / "serving"
TRUTH: dict[str, dict[str, Any]] = json.loads((FOLDER / "truth.json").read_text())


@pytest.mark.parametrize("name", TRUTH)
def test_each_prefill_and_decode_of_a_program_without_marks_is_found(name: str) -> None:
    truth, analysis = TRUTH[name], analysis_of(FOLDER / f"{name}.json.gz")
    decodes = analysis.trace.model_calls.decodes.tolist()
    assert decodes == [False] + [True] * truth["decodes"]
    assert analysis.profile.steps.source == "model_call"
    phases = {phase.name: phase for phase in analysis.profile.serving}
    prefill, decode = phases["prefill"], phases["decode"]
    assert (prefill.requests, decode.requests, decode.tokens) == (truth["requests"],) * 3
    assert prefill.tokens == (truth["prompt"] and truth["requests"] * truth["prompt"])
    assert (prefill.graphs, decode.graphs) == (0, truth["graphs"])
    fixes = [finding.fix for finding in analysis.findings if finding.rule.id == "PIN601"]
    assert [truth["advice"] in fix for fix in fixes] == ([True] if truth["advice"] else [])


def test_pinprof_run_marks_the_size_of_each_call() -> None:
    analysis = analysis_of(FOLDER / "kv_batch.json.gz")
    assert analysis.trace.model_calls.decodes.tolist() == [True] * 5
    (decode,) = analysis.profile.serving
    assert (decode.name, decode.requests, decode.tokens, decode.count) == ("decode", 8, 8, 4)  # the last one has no end
    assert analysis.profile.steps.source == "profiler_step"
