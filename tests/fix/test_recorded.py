"""`pinprof fix` on a script that was recorded on a GPU, mended, and recorded again."""

import shutil
from pathlib import Path

import pytest
from command_line import invoke
from recordings import TRACES, analysis_of

from pinprof.trace.lines import Place

RUNS = TRACES / "runs"
BEFORE, AFTER = RUNS / "images.before.json.gz", RUNS / "images.after.json.gz"


def changed(patch: str) -> list[str]:
    """Return the lines that a patch takes away and adds."""
    return [line for line in patch.splitlines() if line.startswith(("+", "-")) and line[:3] not in ("+++", "---")]


def test_the_patch_is_the_one_whose_step_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (RUNS / "slow.py", BEFORE):
        shutil.copy(path, tmp_path)  # written anew, so newer than the trace: its hash tells that it is what ran
    monkeypatch.chdir(tmp_path)
    patch = invoke("fix", BEFORE.name).stdout
    assert changed(patch) == changed((RUNS / "slow.diff").read_text())
    assert "slow.py:22 PIN202" in patch


def test_the_measured_step_lies_in_the_predicted_range() -> None:
    shown = invoke("verify", BEFORE, AFTER).stdout
    assert "predicted (7.14 to 11.5 ms)" in shown
    assert "7.83 ms  measured without profiler" in shown


def test_python_is_not_charged_to_lines_that_wait() -> None:
    found = next(each for each in analysis_of(BEFORE).findings if each.rule.id == "PIN603")
    assert found.evidence.place == Place("slow.py", 20, "main")
    assert "slow.py:19" not in found.evidence.text, "it waits for its copies"
