"""The table of the exam, in Markdown, and its summary, a line for each program and one of sums."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from scripts.examination.verdict import median_of_runs, stated_range_ms, verdict

HEAD = (
    "program",
    "truth: regular step, median (runs), ms",
    "mean / median of all",
    "pinprof's step (range), ms",
    "off",
    "lines",
    "wrong",
    "ledger / wall, s",
    "what falls short",
)

Noted = dict[str, Any]

NOTHING = "-"


def table(programs: Mapping[str, Noted]) -> str:
    """Return a row for each program and a line of sums."""
    verdicts = {name: verdict(noted) for name, noted in programs.items()}
    rows = [_row(HEAD), _row(["---"] * len(HEAD))]
    rows += [_row([name, *_cells(noted, verdicts[name])]) for name, noted in programs.items()]
    right = sum(judged["right"] for judged in verdicts.values())
    with_lines = [judged for judged in verdicts.values() if judged["lines"] is not None]
    found = sum(min(judged["found"]) for judged in with_lines)
    lines = sum(judged["lines"] for judged in with_lines)
    wrong = sum(len(judged["wrong"]) for judged in with_lines)
    rows += ["", f"{right} of {len(verdicts)} steps right; {found} of {lines} lines found, {wrong} wrong.", ""]
    return "\n".join(rows)


def summary(programs: Mapping[str, Noted]) -> str:
    """Return for each program the truth, each stated range, whether it holds, and the bias; and these in sums.

    A program that the end of the time cut short does not count.
    """
    lines: list[str] = []
    judged = {name: verdict(noted) for name, noted in programs.items()}
    for name, noted in programs.items():
        truths = [run for run in noted.get("truth", []) if run.get("regular_ms") is not None]
        lines.append(f"{name:20} truth {_spread(median_of_runs(truths))} ms{', cut short' if noted.get('cut') else ''}")
        for off, range_ms, holds, within in zip(
            *(judged[name][key] for key in ("off", "ranges_ms", "holds", "truths_in")), strict=False
        ):
            answer = "holds" if holds else "does not hold"
            lines.append(
                f"{'':20} range {range_ms[0]:.2f} to {range_ms[1]:.2f} ms {answer}, "
                f"{within} of {len(truths)} truths in it; bias {100 * off:+.1f} %"
            )
    whole = [judged[name] for name, noted in programs.items() if not noted.get("cut")]
    holds = [answer for entry in whole for answer in entry["holds"]]
    bias = [100 * statistics.fmean(entry["off"]) for entry in whole if entry["off"]]
    if len(bias) > 1:
        error = statistics.stdev(bias) / math.sqrt(len(bias))
        lines.append(
            f"{len(bias)} programs: {sum(holds)} of {len(holds)} ranges hold; bias {statistics.fmean(bias):+.1f} % on "
            f"average (standard error {error:.1f} %), median {statistics.median(bias):+.1f} %"
        )
    return "\n".join(lines)


def _cells(noted: Noted, judged: Noted) -> list[str]:
    truth, runs = noted.get("truth", []), noted.get("pinprof", [])
    lines = NOTHING if judged["lines"] is None else f"{'/'.join(map(str, judged['found']))} of {judged['lines']}"
    ledgers = zip(judged["ledger_s"], judged["wall_s"], strict=True)
    return [
        _spread(median_of_runs(truth)),
        f"{_figure(median_of_runs(truth, 'mean_ms'))} / {_figure(median_of_runs(truth, 'median_ms'))}",
        "<br>".join(_step(run) for run in runs) or NOTHING,
        "<br>".join(f"{100 * off:+.1f} %" for off in judged["off"]) or NOTHING,
        lines,
        NOTHING if judged["lines"] is None else str(len(judged["wrong"])),
        "<br>".join(f"{total:.1f} / {wall:.1f}" for total, wall in ledgers) or NOTHING,
        "<br>".join(_short_of(noted, judged)),
    ]


def _short_of(noted: Noted, judged: Noted) -> list[str]:
    faults = [f"not found: {line}" for line in judged.get("missing", [])]
    faults += [f"wrong: {line}" for line in judged.get("wrong", [])]
    if any(judged.get("unplaced", [])):
        faults.append(f"waits without a line: {'/'.join(map(str, judged['unplaced']))}")
    if False in judged["holds"]:
        faults.append(f"truth outside of the range in {judged['holds'].count(False)} of {len(judged['holds'])}")
    for kind in ("truth", "pinprof"):
        faults += [f"{kind}: {run['error']}" for run in noted.get(kind, []) if run.get("error")]
    lines_error = noted.get("lines", {}).get("error")
    return [_escaped(fault) for fault in [*faults, *([f"lines: {lines_error}"] if lines_error else [])]]


def _step(run: Noted) -> str:
    steps = run.get("steps") or {}
    if steps.get("step_ms") is None:
        return "none"
    stated = stated_range_ms(steps)
    range_ = f" ({stated[0]:.2f} to {stated[1]:.2f})" if stated else ""
    source = "" if steps["step_source"] == "measured" else f" {steps['step_source']}"
    return f"{steps['step_ms']:.2f}{range_}{source}"


def _spread(runs: tuple[float, float, float] | None) -> str:
    return NOTHING if runs is None else f"{runs[0]:.2f} ({runs[1]:.2f} to {runs[2]:.2f})"


def _figure(runs: tuple[float, float, float] | None) -> str:
    return NOTHING if runs is None else f"{runs[0]:.2f}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
