"""The report as Markdown: what a pull request shows, and names of the trace that are only letters there."""

import re
from pathlib import Path

import pytest
from analysed import analysed, host_alone
from command_line import invoke, is_one_line_error
from recordings import RECORDINGS, TRACES, analysis_of, each_recording
from trace_builder import TraceBuilder

from pinprof.report.trace.first_screen import first_screen
from pinprof.report.trace.markdown import code_span, fenced, inline, traces_to_markdown
from pinprof.report.trace.verdict import headline


@pytest.mark.parametrize("path", each_recording(RECORDINGS))
def test_it_has_verdict_bar_three_findings_and_their_code(path: Path) -> None:
    profile, findings = analysis_of(path).profile, analysis_of(path).findings
    text = traces_to_markdown([(profile, findings)])
    assert inline(headline(first_screen(profile, findings))) in text
    assert ("```text\n█" in text or "```text\n░" in text or "```text\n▓" in text) == bool(profile.parts)
    shown = re.findall(r"^\*\*\d\. .*\((PIN\d+)\): ", text, re.MULTILINE)
    assert 0 < len(shown) <= 3 or not findings
    assert text.count("<details>") == text.count("</details>") == len(shown)
    assert len(re.findall(r"^`{3,}", text, re.MULTILINE)) % 2 == 0


def test_what_the_trace_names_is_escaped(tmp_path: Path) -> None:
    hostile = "`</details><img src=x> @torvalds #1 [a](http://evil.example) www.evil.example $x$ | *b*\x1b[31m"
    builder = TraceBuilder()
    for start in builder.steps(4):
        builder.op(hostile, start + 100, 700)
        builder.function(f"{hostile}.py(1): {hostile}", start + 90, 800)
        builder.kernel(start + 110, 300, launch=start + 105, name=hostile)
        builder.call("cudaStreamSynchronize", start + 120, 600)
    analysis = analysed(builder, tmp_path)
    text = traces_to_markdown([(analysis.profile, analysis.findings)])
    assert "torvalds" in text
    assert "\x1b" not in text
    outside = re.sub(r"^(`{3,}).*?^\1$|(`+)(?!`).*?(?<!`)\2(?!`)", "", text, flags=re.DOTALL | re.MULTILINE)
    for obeyed in ("<img", "@torvalds", "#1", "[a](", "http://", "www.", "</details><"):
        assert not re.search(rf"(?<!\\){re.escape(obeyed)}", outside), obeyed


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("# GPU", r"\# GPU"),
        ("- a - b", r"\- a - b"),
        ("1. a", r"1\. a"),
        ("---", r"\---"),
        ("9.17 ms of `a*b` - and a*b", r"9.17 ms of `a*b` - and a\*b"),
        ("@me #1 http://a www.b", "@\u200bme \\#\u200b1 http:\u200b//a www\u200b.b"),
    ],
)
def test_letters_stay_letters(text: str, written: str) -> None:
    assert inline(text) == written


@pytest.mark.parametrize("text", ["a", "`", "a``b", "```\n# after"])
def test_nothing_in_code_ends_it(text: str) -> None:
    ticks = re.match("`+", fenced(text, "text"))
    assert ticks
    assert ticks[0] not in text
    assert len(ticks[0]) >= 3
    if "\n" not in text:
        assert code_span(text).strip("` ") == text.strip("` ")


def test_it_is_written_or_printed_alone(tmp_path: Path) -> None:
    trace = TRACES / "loss_item_host_work.stack.json.gz"
    printed = invoke("report", trace, "--md", "-")
    assert printed.stdout.startswith(f"### `{trace}`\n")
    assert "losses.append(loss.item())" in printed.stdout
    assert "losses.append(loss.item())" not in invoke("report", trace, "--md", "-", "--no-source").stdout
    file = tmp_path / "report.md"
    assert "Sync-bound" in invoke("report", trace, "--md", file).stdout
    assert file.read_text() == printed.stdout
    assert is_one_line_error(invoke("report", trace, "--md", file))


def test_without_gpu_work_it_says_how_to_record_it(tmp_path: Path) -> None:
    analysis = analysed(host_alone(), tmp_path, "no_gpu.json.gz")
    text = traces_to_markdown([(analysis.profile, analysis.findings)])
    assert "```text" not in text
    assert "Before you trust this trace:" in text
