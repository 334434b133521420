"""Verdict, bar, findings, text, brief and page tell one story: of every recording."""

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from functools import partial
from html import unescape
from pathlib import Path
from random import Random
from typing import Any

import pytest
from quick import slow_but
from recordings import RECORDINGS, TRACES, analysis_of, each_recording, full_text_of, json_of, page_of
from trace_builder import AUTOGRAD, COMPUTE, MAIN, SIDE, TraceBuilder

from pinprof.analysis import analyse
from pinprof.ground.units import NS_PER_MS, duration, how_many, percent, ranged
from pinprof.notebook import Report
from pinprof.report.trace import brief_json, text
from pinprof.report.trace.brief_json import LONGEST_SENTENCE_CHARS
from pinprof.report.trace.json import traces_to_json
from pinprof.report.trace.page import to_html
from pinprof.report.words import cut
from pinprof.rules.search import rule_of
from pinprof.trace import read_trace

WITHIN = 1.001
WORTH = 0.1
"""What may cost a smaller share of the step than this is not named (`verdict.WORTH`)."""
"""The bar may show this much less than the verdict says."""
HELD_UP = {"sync_bubble", "host_wait", "kernel_wait", "other", "outside"}
IDLE = {
    "sync": HELD_UP,
    "allocation": HELD_UP,
    "launch": HELD_UP,
    "python": HELD_UP,
    "host": HELD_UP,
    "copy": {"sync_bubble", "kernel_wait"},
    "input": {"input_wait", "outside"},
    "communication": {"communication_wait", "kernel_wait", "sync_bubble"},
    "gpu": set[str](),
}
"""Why the GPU is idle where a cause of slow steps leaves it without work."""
MOST_CHARACTERS = 200


def contradictions(trace: dict[str, Any]) -> list[str]:
    """Return what a trace of the JSON report says against itself."""
    return [*_of_verdict(trace), *_of_order(trace["findings"]), *_of_joint(trace)]


def _of_verdict(trace: dict[str, Any]) -> Iterator[str]:
    verdict = trace["verdict"]
    if verdict["cause"] is None:
        worth = WORTH * (trace["steps"]["step_ms"] or 0.0)
        may = [
            cost for cost in trace["verdicts"] if cost["cause"] not in {"gpu", "host"} and cost["range_ms"][1] >= worth
        ]
        if may and not verdict["headline"]:
            yield "the trace cannot tell the cause, and does not say between which"
        return
    low, high = verdict["range_ms"]
    if not 0 < low <= verdict["ms"] <= high:
        yield f"{verdict['cause']} costs {verdict['ms']} ms, {low} to {high}"
    if trace["step_parts"] and verdict["cause"] != "irregular" and verdict["ms"] > WITHIN * _shown_ms(trace):
        yield f"{verdict['cause']} costs {verdict['ms']} ms, and the bar shows {_shown_ms(trace)} of it"


def _shown_ms(trace: dict[str, Any]) -> float:
    """Return what the bar shows of the verdict's cause in ms."""
    part = max(trace["step_parts"], key=lambda part: part["step_ms"] - part["idle_ms"])
    idle = {row["cause"]: row["time_ms"] or 0 for row in trace["idle"] if row["device"] == part["device"]}
    if trace["steps"]["count"] == 1:
        span = next(gpu["span_ms"] for gpu in trace["gpu"] if gpu["device"] == part["device"])
        idle["outside"] = max(trace["steps"]["traced_ms"] - span, 0.0)
    cause = trace["verdict"]["cause"]
    late = {"host_wait"} if trace["steps"]["bound"] == "input" and cause == "input" else set()
    whole = sum(idle.values())
    known = sum(time for why, time in idle.items() if why in IDLE[cause] | late or why is None)
    shown = part["idle_ms"] * (known / whole if whole else 1.0)
    if cause == "copy":
        return float(shown + part["exposed_ms"])
    if cause in {"gpu", "communication"}:
        return float(shown + part["compute_ms"] + part["overlapped_ms"] + part["memset_ms"])
    return float(shown)


def _of_order(findings: list[dict[str, Any]]) -> Iterator[str]:
    """Yield findings out of their order: what saves, or adds to some steps, most first, what is only bounded last.

    What launches the whole step in another way may stand behind what launches less, wherever that stands.
    """
    whole = {place for place, finding in enumerate(findings) if rule_of(finding["rule"]).of_whole_step}
    ordered = (finding for place, finding in enumerate(findings) if not whole & {place, place + 1})
    savings = [finding["cost_ms"] if finding["irregular"] else finding["saving_ms"] or 0.0 for finding in ordered]
    if savings != sorted(savings, reverse=True):
        yield f"findings save {savings}"
    places = [place for place, finding in enumerate(findings) if finding["at_most_ms"] is not None]
    measured = [place for place, finding in enumerate(findings) if finding["saving_ms"] is not None]
    if places and measured and places[0] < measured[-1]:
        yield "what saves at most so much stands before what is measured"


def _of_joint(trace: dict[str, Any]) -> Iterator[str]:
    of_steps = (finding for finding in trace["findings"] if not finding["irregular"])  # others come on top of the step
    best = max((finding["saving_ms"] or 0.0 for finding in of_steps), default=0.0)
    if trace["joint"] and WITHIN * trace["joint"]["saving_ms"] < best:
        yield f"all fixes save {trace['joint']['saving_ms']} ms together, the best of them {best} ms"


def disagreements(path: Path, whole: dict[str, Any]) -> list[str]:
    """Return where text, brief and page of a recording say something else than its trace of the JSON report."""
    entry = (analysis_of(path).profile, analysis_of(path).findings)
    short, full = text.to_brief(*entry, width=10_000), full_text_of(path)
    of_brief = json.loads(brief_json.traces_to_brief_json([entry]))["traces"][0]
    page = re.sub(r"\s+", " ", unescape(re.sub("<[^>]+>", "", str(page_of(path)))))
    return [
        *_of_sentence(whole["verdict"]["headline"], short, full, of_brief["verdict"]["sentence"], page),
        *_of_advice(whole, short, full, of_brief["verdict"]),
        *_of_page(whole, page),
        *_of_texts(whole["findings"], short, of_brief["findings"]),
        *_of_findings(whole, full, page),
        *_of_figures(whole, full, page),
        *_of_documents(Report(analysis_of(path)), whole, of_brief),
    ]


def _of_advice(whole: dict[str, Any], short: str, full: str, of_brief: dict[str, Any]) -> Iterator[str]:
    """Yield where something else is to be done first, or what to do is not joined with the verdict."""
    do, place = whole["verdict"]["do"], whole["verdict"]["finding"]
    if do is None:
        return
    if _plain(do) not in _plain(full):
        yield f"the full report lacks: {do}"
    if of_brief["do"] != cut(do, LONGEST_SENTENCE_CHARS):
        yield f"the brief says: {of_brief['do']}"
    if place is None:
        if do not in short and whole["gpu"]:
            yield f"the short report lacks: {do}"
        return
    if whole["findings"][place]["saving_ms"] and place:
        yield f"what to do first saves {whole['findings'][place]['saving_ms']} ms, and another finding more"
    first = re.search(r"^ +1\. .* \((PIN\d+)\)$", short, re.MULTILINE)
    if do not in short and (not first or first[1] != whole["findings"][place]["rule"]):
        yield f"the short report begins with {first and first[1]}, not with: {do}"
    cause = whole["verdict"]["cause"]
    if cause is not None and cause not in rule_of(whole["findings"][place]["rule"]).answers and "as for" not in do:
        yield f"what to do first is not about {cause}, and does not say so: {do}"


def _of_page(whole: dict[str, Any], page: str) -> Iterator[str]:
    """Yield what to do first where a page neither says it nor has it among the changes that are shown at first."""
    do, place = whole["verdict"]["do"], whole["verdict"]["finding"]
    at_first = page.partition(" more change")[0]
    is_shown = _plain(do or "") in _plain(page) if place is None else whole["findings"][place]["rule"] in at_first
    if not is_shown:
        yield f"the page lacks: {do}"


def _plain(said: str) -> str:
    return said.replace("\N{NO-BREAK SPACE}", " ").replace("`", "")


def _of_sentence(headline: str | None, short: str, full: str, sentence: str, page: str) -> Iterator[str]:
    if headline is None:
        return
    cause, _, why = headline.partition(": ")
    parts = (("short", short, [headline]), ("full", full, [headline]), ("page", page, [cause, *why.split("; ")]))
    for name, said, of_name in parts:
        yield from (f"the {name} report lacks: {part}" for part in of_name if part.lower() not in said.lower())
    if not sentence.startswith(headline[:MOST_CHARACTERS]):
        yield f"the brief says: {sentence}"


def _of_findings(whole: dict[str, Any], full: str, page: str) -> Iterator[str]:
    """Yield what the full text or the page lacks of a finding, or says otherwise."""
    count = {"full": len(re.findall(r"^  \S.*: PIN\d+ ", full, re.MULTILINE)), "page": page.count("Safe if:")}
    for finding in whole["findings"]:
        parts = [finding["title"], finding["evidence"], finding["fix"]]
        if finding["saving_ms"]:
            low, high = (end * NS_PER_MS for end in finding["range_ms"])
            saves = f"save{'' if low <= 0 else 's'} {ranged(finding['saving_ms'] * NS_PER_MS, (low, high))}"
            share = f", {percent(finding['saving_fraction'])} of the "
            parts.append(f"{saves}{' per step, in the longer steps' if finding['irregular'] else share}")
        yield from _lacking(parts, full, page)
    yield from (f"the {name} has {found} findings" for name, found in count.items() if found != len(whole["findings"]))


def _of_figures(whole: dict[str, Any], full: str, page: str) -> Iterator[str]:
    """Yield figures of the document that the full text or the page lacks."""
    steps, said = whole["steps"], [lack["what"] for lack in whole["missing"]]
    if steps["busy_fraction"] and "works for" in (whole["verdict"]["headline"] or ""):
        said.append(f"works for {percent(steps['busy_fraction'])} of the ")
    yield from _lacking(whole["verdict"]["evidence"], full)
    if steps["step_ms"]:
        low, high = (end * NS_PER_MS for end in steps["range_ms"])
        length = ranged(steps["step_ms"] * NS_PER_MS, (low, high))
        said += [length.number.removeprefix("about "), length.range]
    yield from _lacking(said, full, page)
    for rows, on_page in ((_rows, page), (_rows_of_text, None)):
        rounded = [_lacking(rows(whole, off_ns), full, on_page) for off_ns in (-0.5, 0.0, 0.5)]
        yield from set.intersection(*map(set, rounded))


def _rows(whole: dict[str, Any], off_ns: float) -> Iterator[str]:
    """Yield the rows of tables; `off_ns` is what the document may have rounded from their times."""
    time = partial(_time, off_ns)
    for kind in whole["kernel_sums"]["kinds"] if whole["kernel_sums"] else ():
        if kind["share"] is not None:
            yield f"{kind['kind']} {how_many(kind['count'])} {time(kind['ms'])} {percent(kind['share'])}"
    yield from (f"{time(fill['ms'])} in " for phase in whole["serving"] for fill in phase["fills"])
    for row in whole["copies"]:
        if row["count"]:
            yield f"{row['direction']} {row['host_memory'] or '-'} {row['count']}"


def _rows_of_text(whole: dict[str, Any], off_ns: float) -> Iterator[str]:
    """Yield the rows of the phases and of idle time, which the page divides in another way."""
    time = partial(_time, off_ns)
    for phase in whole["launches"]["phases"] if whole["launches"] else ():
        yield f"{phase['phase'] or '-'} {how_many(phase['launches'])} {time(phase['host_ms'])}"
        yield time(phase["kernel_ms"])
    yield from (time(row["time_ms"]) for row in whole["idle"] if row["time_ms"])


def _time(off_ns: float, ms: float) -> str:
    return duration(ms * NS_PER_MS + off_ns)


def _lacking(parts: Iterable[str], full: str, page: str | None = None) -> list[str]:
    letters = {"full": _letters(full)} | ({} if page is None else {"page": _letters(page)})
    return [
        f"the {name} lacks: {part}" for part in parts for name, said in letters.items() if _letters(part) not in said
    ]


def _letters(said: str) -> str:
    return re.sub(r"\s+", "", _plain(said)).lower()


def _of_documents(report: Report, whole: dict[str, Any], of_brief: dict[str, Any]) -> Iterator[str]:
    """Yield where the brief or the object of Python has another figure than the document."""
    if (of_brief["step"]["step_ms"], of_brief["joint"]) != (whole["steps"]["step_ms"], whole["joint"]):
        yield "the brief's step, or its joint saving"
    shown = [tuple(row) for row in report.findings[["rule", "title", "evidence"]].itertuples(index=False)]
    if shown != [(row["rule"], row["title"], row["evidence"]) for row in whole["findings"]]:
        yield "the findings of Python"
    of_python = (report.step_ms, report.step_range_ms and [*report.step_range_ms], report.verdict)
    if of_python != (whole["steps"]["step_ms"], whole["steps"]["range_ms"], whole["verdict"]["headline"]):
        yield "the step of Python"
    shares = [cost["fraction"] for cost in whole["verdicts"]]
    yield from (f"a share of {share}" for share in (*shares, whole["verdict"]["fraction"]) if share and share > 1)


def _of_texts(findings: list[dict[str, Any]], short: str, of_brief: list[dict[str, Any]]) -> Iterator[str]:
    order = [(finding["rule"], finding["title"]) for finding in findings]
    named = [(rule, title) for title, rule in re.findall(r"^ +\d\. .*?: (.*) \((PIN\d+)\)$", short, re.MULTILINE)]
    for name, shown in (("short", named), ("brief", [(entry["rule"], entry["title"]) for entry in of_brief])):
        places: list[int] = []
        for entry in shown:
            places += [place for place, known in enumerate(order) if known == entry and place not in places][:1]
        if places != sorted(places):
            yield f"the {name} report names findings in another order: {[rule for rule, _ in shown]}"


def alike() -> TraceBuilder:
    """Make steps with kernels, ops, and waits of two threads that take equally long."""
    builder = TraceBuilder()
    for start in builder.steps(4):
        for thread, stream, name in ((MAIN, COMPUTE, "b"), (AUTOGRAD, SIDE, "a")):
            builder.op(f"aten::{name}", start + 10, 50, thread=thread)
            builder.kernel(start + 100, 300, launch=start + 20, name=f"kernel_{name}", stream=stream, thread=thread)
            builder.op(f"aten::wait_{name}", start + 90, 330, thread=thread)
            builder.call("cudaStreamSynchronize", start + 95, 310, thread=thread)
            builder.memory(start + 30, 1 << 20, thread=thread)
    return builder


@pytest.mark.parametrize("path", slow_but([None], [None, TRACES / "small_kernels.json.gz"]))
def test_the_order_of_the_events_in_a_file_changes_nothing(path: Path | None, tmp_path: Path) -> None:
    document = json.loads(gzip.decompress(path.read_bytes())) if path else alike().document()
    file, reports = tmp_path / "trace.json", []
    for seed in range(3):
        file.write_text(json.dumps(document))
        analysis = analyse(read_trace(file))
        entry = (analysis.profile, analysis.findings)
        page = re.sub("<script.*?</script>", "", str(to_html([analysis])), flags=re.DOTALL)
        reports.append((text.trace_to_text(*entry), text.to_brief(*entry), traces_to_json([entry]), page))
        Random(seed).shuffle(document["traceEvents"])
    assert reports[1:] == reports[:1] * 2


@pytest.mark.parametrize("path", each_recording(RECORDINGS))
def test_no_report_contradicts_itself(path: Path) -> None:
    whole = json.loads(json_of(path))["traces"][0]
    assert contradictions(whole) + disagreements(path, whole) == []
