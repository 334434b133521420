"""The short report: what it says, in how many lines, and that it says where to change what."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from analysed import host_alone
from quick import slow_but
from recordings import TRACES, analysis_of
from trace_builder import TraceBuilder

from pinprof.analyses.copies import REASONS
from pinprof.analyses.idle import IDLE_CAUSES
from pinprof.analyses.syncs.causes import WAIT_CAUSES
from pinprof.analysis import analyse
from pinprof.report.source import Code
from pinprof.report.trace.text import to_brief, trace_to_text
from pinprof.trace import read_trace

WIDTH = 100
NAMES = (
    *("clean", "mask_loss.stack", "pageable_blocking.stack", "small_kernels", "launches/bert.before"),
    *("pairs/everything_at_once.before", "ranks/sleeping_rank.rank1.before"),
)
CODES = [code for code in (*WAIT_CAUSES, *IDLE_CAUSES, *REASONS) if "_" in code]


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Find no source: whether the project's files are older than its traces depends on how it was checked out."""
    monkeypatch.chdir(tmp_path)


def text_of(builder: TraceBuilder, folder: Path, width: int = WIDTH, code: Code = Code()) -> str:  # noqa: B008
    analysis = analyse(read_trace(builder.write(folder / "trace.json")))
    return to_brief(analysis.profile, analysis.findings, width=width, code=code).replace(f"{folder}/", "")


@pytest.mark.parametrize("name", slow_but(["clean", "mask_loss.stack"], NAMES))
def test_the_short_report_reads_as_kept(name: str, golden: Callable[[str, str], None]) -> None:
    analysis = analyse(read_trace(TRACES / f"{name}.json.gz"))  # another test may have found the sources
    named = replace(analysis.profile, path=f"{name}.json.gz")  # short or long, where the checkout lies
    text = to_brief(named, analysis.findings, width=WIDTH)
    golden(f"brief-{name.replace('/', '-')}.txt", text)
    assert len(text.splitlines()) <= 30
    assert max(map(len, text.splitlines())) <= WIDTH
    full = trace_to_text(analysis.profile, analysis.findings, width=WIDTH, rows=1000)
    assert not [code for code in CODES if code in text + full]


def test_a_trace_of_two_gpus_names_the_one_that_is_drawn(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start in builder.steps(4):
        builder.kernel(start + 100, 500, launch=start + 50)
        builder.kernel(start + 100, 300, launch=start + 60, device=1)
    text = text_of(builder, tmp_path)
    assert "This is GPU 0. Idle on the others: 70 %." in text
    assert text.count("the host runs no op and no call") == 1  # once, by the finding


def test_a_trace_of_the_host_alone_says_how_to_record_the_gpu_once(tmp_path: Path) -> None:
    text = " ".join(text_of(host_alone(), tmp_path).split())
    assert (
        "100 µs per step as traced; no GPU work was recorded. Ops, own time as traced: aten::add 5.00 µs (6 %)" in text
    )
    assert "To see copies and waits: record with ProfilerActivity.CUDA on a machine with a GPU." in text
    assert text.count("ProfilerActivity.CUDA") == 1
    assert "█" not in text


def test_a_file_that_lost_the_work_of_the_gpu_says_so_first(tmp_path: Path) -> None:
    whole = host_alone().write(tmp_path / "whole.json").read_text()
    cut = tmp_path / "cut.json"
    cut.write_text(whole[: whole.rindex("}, {")])
    analysis = analyse(read_trace(cut))
    text = " ".join(to_brief(analysis.profile, analysis.findings, width=WIDTH).split())
    assert "per step as traced; the end of the file is lost, and with it all work of the GPU. Copy the file" in text
    assert "The file is cut off. What is left of it: 100 µs per step as traced" in text
    assert "machine with a GPU" not in text
    assert "Ops, own time" not in text


SOURCE = "\ndef train():\n    for x in loader:\n        losses.append(loss(model(x)).item())\n"


def waiting(folder: Path) -> TraceBuilder:
    """Return steps that wait at a line of a source file, which this writes before the trace."""
    (folder / "train.py").write_text(SOURCE)
    os.utime(folder / "train.py", (1, 1))
    builder = TraceBuilder()
    for start in builder.steps(4):
        builder.function("train.py(2): train", start + 1, 980)
        builder.kernel(start + 10, 300, launch=start + 5)
        builder.op("aten::item", start + 20, 400)
        builder.call("cudaStreamSynchronize", start + 25, 390)
        builder.function("<built-in method item of Tensor object at 0x7f00>", start + 15, 410)
        builder.kernel(start + 600, 380, launch=start + 590)
    return builder


def test_the_line_to_change_is_quoted_unless_it_is_to_be_shared(tmp_path: Path) -> None:
    text = text_of(waiting(tmp_path), tmp_path)
    assert "`.item()` waits for the GPU (PIN201)\n     train.py:4  losses.append(loss(model(x)).item())\n" in text
    shared = text_of(waiting(tmp_path), tmp_path, code=Code(quotes=False))
    assert "     train.py:4\n" in shared
    assert "losses" not in shared


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_a_place_stays_whole_at_any_width(tmp_path: Path, width: int) -> None:
    text = text_of(waiting(tmp_path), tmp_path, width)
    assert "     train.py:4" in text
    between = text.splitlines()[1:-1]  # the first line and the last have the path of the trace, which is never broken
    assert max(map(len, between)) <= width


def test_batches_that_are_not_pinned_have_one_finding_with_both_changes() -> None:
    analysis = analysis_of(TRACES / "runs" / "images.before.json.gz")
    text = to_brief(analysis.profile, analysis.findings, width=200)
    assert "1. saves about 6 ms (2.2 to 8.1), 38 %: batches that are not pinned (PIN104)" in text
    assert "→ Add non_blocking=True, and pin_memory=True to the DataLoader" in text
    assert "PIN102" not in [finding.rule.id for finding in analysis.findings]
    assert f"All {len(analysis.findings)} findings (--full) together" in text


def test_what_a_change_makes_possible_is_told_with_what_both_save() -> None:
    analysis = analysis_of(TRACES / "pageable_blocking.json.gz")
    text = to_brief(analysis.profile, analysis.findings, width=200)
    assert "With the copies one step ahead, on a stream of their own (PIN301), together: saves 2.8 ms" in text
