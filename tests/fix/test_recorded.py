"""`pinprof fix` on a script that was recorded on a GPU, mended, and recorded again."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import invoke
from recordings import TRACES, analysis_of
from trace_builder import TraceBuilder

from pinprof.fix import plan_changes
from pinprof.fix.core.patch import joint_saving
from pinprof.trace.lines import Place
from pinprof.units import duration

RUNS = TRACES / "runs"
BEFORE, AFTER = RUNS / "images.before.json.gz", RUNS / "images.after.json.gz"


def changed(patch: str) -> list[str]:
    """Return the lines that a patch takes away and adds."""
    return [line for line in patch.splitlines() if line.startswith(("+", "-")) and line[:3] not in ("+++", "---")]


@pytest.mark.slow
def test_the_patch_is_the_one_whose_step_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (RUNS / "slow.py", BEFORE):
        shutil.copy(path, tmp_path)  # written anew, so newer than the trace: its hash tells that it is what ran
    monkeypatch.chdir(tmp_path)
    patch = invoke("fix", BEFORE.name).stdout
    assert changed(patch) == changed((RUNS / "slow.diff").read_text())
    assert "slow.py:22 PIN202" in patch


def test_the_measured_step_lies_in_the_predicted_range() -> None:
    shown = invoke("verify", BEFORE, AFTER).stdout
    assert "predicted (5.80 to 10.4 ms)" in shown
    assert "7.83 ms  measured without profiler" in shown


def test_python_is_not_charged_to_lines_that_wait() -> None:
    finding = next(finding for finding in analysis_of(BEFORE).findings if finding.rule.id == "PIN603")
    assert finding.evidence.place == Place("slow.py", 20, "main")
    assert "slow.py:19" not in finding.evidence.text, "it waits for its copies"


@pytest.mark.slow
def test_what_all_changes_save_is_replayed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(RUNS)
    made = plan_changes(analysis_of(BEFORE))
    whole = made.patches().saving
    assert whole is not None
    for change in made.certain:
        alone = made.patches(without=[other for other in made.certain if other is not change]).saving
        assert alone is not None
        assert alone == change.saving
        assert alone.saving_ns < whole.saving_ns
    joint = analysis_of(BEFORE).findings.joint
    assert joint is not None
    assert whole.saving_ns < joint.saving_ns, "some findings stay"
    assert f"all together predicted to save {duration(whole.saving_ns)} per step" in invoke("fix", BEFORE).stdout


def test_nobody_says_what_changes_save_of_which_one_is_not_known() -> None:
    analysis = analysis_of(BEFORE)
    changes = plan_changes(analysis, [str(RUNS / "slow.py")], folder=RUNS).certain
    assert joint_saving([replace(changes[0], edits=None), *changes[1:]], analysis) is None
    assert joint_saving([], analysis) is None


def test_a_file_that_is_not_here_is_said_to_be_so_though_other_places_have_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(TRACES / "empty_cache.stack.json.gz", tmp_path)
    monkeypatch.chdir(tmp_path)
    shown = invoke("fix", "empty_cache.stack.json.gz").stdout
    assert "waits.py:100 PIN303: the file is not here; name it after the trace" in shown


def test_a_trace_that_is_cut_off_or_has_no_work_of_a_gpu_is_said_to_be_so(tmp_path: Path) -> None:
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes((TRACES / "clean.json.gz").read_bytes()[:5000])
    assert "ends too early" in invoke("fix", cut).stdout
    plain = tmp_path / "cpu.json"
    builder = TraceBuilder()
    for start in builder.steps(4):
        builder.op("aten::mm", start + 100, 500)
    builder.write(plain)
    assert "The recording has no work of a GPU" in invoke("fix", plain).stdout
