"""The table of the exam, in Markdown."""

from collections.abc import Sequence
from typing import Any

from scripts.examination.truth import of_runs
from scripts.examination.verdict import verdict

HEAD = (
    "program",
    "truth: regular step (runs), ms",
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


def table(programs: dict[str, Noted]) -> str:
    """Return a row for each program and a line of sums."""
    verdicts = {name: verdict(noted) for name, noted in programs.items()}
    rows = [_row(HEAD), _row(["---"] * len(HEAD))]
    rows += [_row([name, *_cells(noted, verdicts[name])]) for name, noted in programs.items()]
    judged = list(verdicts.values())
    right = sum(each["right"] for each in judged)
    found = sum(min(each["found"]) for each in judged if each["lines"] is not None)
    lines = sum(each["lines"] for each in judged if each["lines"] is not None)
    wrong = sum(len(each["wrong"]) for each in judged if each["lines"] is not None)
    rows += ["", f"{right} of {len(judged)} steps right; {found} of {lines} lines found, {wrong} wrong.", ""]
    return "\n".join(rows)


def _cells(noted: Noted, judged: Noted) -> list[str]:
    truth, runs = noted.get("truth", []), noted.get("pinprof", [])
    lines = NOTHING if judged["lines"] is None else f"{'/'.join(map(str, judged['found']))} of {judged['lines']}"
    ledgers = zip(judged["ledger_s"], judged["wall_s"], strict=True)
    return [
        _spread(of_runs(truth)),
        f"{_figure(of_runs(truth, 'mean_ms'))} / {_figure(of_runs(truth, 'median_ms'))}",
        "<br>".join(_step(run) for run in runs) or NOTHING,
        "<br>".join(f"{100 * off:+.1f} %" for off in judged["off"]) or NOTHING,
        lines,
        NOTHING if judged["lines"] is None else str(len(judged["wrong"])),
        "<br>".join(f"{total:.1f} / {wall:.1f}" for total, wall in ledgers) or NOTHING,
        "<br>".join(_short_of(noted, judged)),
    ]


def _short_of(noted: Noted, judged: Noted) -> list[str]:
    said = [f"not found: {line}" for line in judged.get("missing", [])]
    said += [f"wrong: {line}" for line in judged.get("wrong", [])]
    if any(judged.get("unplaced", [])):
        said.append(f"waits without a line: {'/'.join(map(str, judged['unplaced']))}")
    if False in judged["in_range"]:
        said.append(f"truth outside of the range in {judged['in_range'].count(False)} of {len(judged['in_range'])}")
    for kind in ("truth", "pinprof"):
        said += [f"{kind}: {run['error']}" for run in noted.get(kind, []) if run.get("error")]
    lines_error = noted.get("lines", {}).get("error")
    return [_escaped(each) for each in [*said, *([f"lines: {lines_error}"] if lines_error else [])]]


def _step(run: Noted) -> str:
    steps = run.get("steps") or {}
    if steps.get("step_ms") is None:
        return "none"
    low, high = steps.get("range_ms") or (None, None)
    range_ = "" if low is None else f" ({low:.2f} to {high:.2f})"
    return f"{steps['step_ms']:.2f}{range_}" + (
        "" if steps["step_source"] == "measured" else f" {steps['step_source']}"
    )


def _spread(runs: tuple[float, float, float] | None) -> str:
    return NOTHING if runs is None else f"{runs[0]:.2f} ({runs[1]:.2f} to {runs[2]:.2f})"


def _figure(runs: tuple[float, float, float] | None) -> str:
    return NOTHING if runs is None else f"{runs[0]:.2f}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
