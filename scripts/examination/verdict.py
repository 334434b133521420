"""Measures a program's step by its own clock, and compares what pinprof reports: the step, lines of waits, the ledger.

Regular steps are chosen by a rule that is not pinprof's. The table of the exam has a row for each program.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

WARM_UP_STEPS = 20
"""Left out at the start, or a quarter of the steps where there are few."""
LONGEST = 3.0
"""Times the median: a step whose own time, without waiting for input, is longer is irregular."""
FEWEST_FOR_ERROR = 2
"""Programs: fewer have no standard error."""
NS_PER_MS = 1e6
ALLOWED = 0.03
"""How far the regular step may be off, where the truth's own spread is not wider."""
SEEN_BY_SYNC_DEBUG = (
    *("item", "optimizer_state", "bool", "tolist", "to_cpu", "print", "nonzero", "mask_index", "masked_select"),
    *("unique", "seen_elsewhere", "repeat_interleave", "equal", "blocking_copy_htod", "blocking_copy_dtoh"),
    *("tensor_from_host",),
)
"""Causes of waits that sync debug mode warns of: if it never named the line of one, the line is wrong."""

SILENT = ("synchronize", "to", "cuda", "copy_")
"""Calls that can wait without its warning: a synchronize, and a non-blocking copy of pageable memory."""

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

NOTHING = "-"

Noted = dict[str, Any]
Line = tuple[str, int]


def truth_of_run(noted: Noted) -> Noted:
    """Return what the noted ends of steps say, times in ms.

    A step that waits for input within an epoch is regular. One in which another pass over data begins, and that is
    longer than `LONGEST` medians with all its waiting, is not: workers are started there, or an evaluation is made.
    """
    ends, waited, epochs = (np.asarray(noted[name], np.int64) for name in ("ends_ns", "waited_ns", "epochs"))
    skipped = min(WARM_UP_STEPS, len(ends) // 4)
    steps, inputs, begun = (np.diff(totals[skipped:]) for totals in (ends, waited, epochs))
    if len(steps) == 0:
        return {"steps": 0}
    own = steps - inputs
    regular = own <= LONGEST * np.median(own)
    regular &= (begun == 0) | (steps <= LONGEST * np.median(steps))
    tail_ns = noted["synchronized_ns"] - noted["ends_ns"][-1]
    return {
        "steps": len(steps),
        "mean_ms": float(steps.mean()) / NS_PER_MS,
        "median_ms": float(np.median(steps)) / NS_PER_MS,
        "regular_ms": float(steps[regular].mean()) / NS_PER_MS,
        "irregular": int((~regular).sum()),
        "irregular_ms": float(steps[~regular].sum()) / NS_PER_MS,
        "input_share": float(inputs.sum() / steps.sum()),
        "queued_ms": tail_ns / NS_PER_MS,
        "steps_ms": [round(float(step) / NS_PER_MS, 3) for step in steps],
    }


def median_of_runs(runs: Sequence[Noted], figure: str = "regular_ms") -> tuple[float, float, float] | None:
    """Return the median, the least and the largest of a figure over the runs that have it."""
    values = [run[figure] for run in runs if run.get(figure) is not None]
    return (statistics.median(values), min(values), max(values)) if values else None


def verdict(noted: Noted) -> Noted:
    """Return the verdict on all that was noted of one program."""
    return {**of_steps(noted), **of_lines(noted), **of_ledger(noted)}


def of_steps(noted: Noted) -> Noted:
    """Compare each reported step with the truth measured in turns with it.

    `ranges_ms`: what each run of pinprof states, for other runs with --repeat, else for itself. `holds`: whether the
    median truth lies in each.
    """
    truth = median_of_runs(noted.get("truth", []))
    reported = [run["steps"] for run in noted.get("pinprof", []) if run.get("steps")]
    steps = [entry["step_ms"] for entry in reported if entry.get("step_ms") is not None]
    if truth is None or not steps:
        return {"off": [], "right": False, "ranges_ms": [], "holds": []}
    median, least, largest = truth
    ranges = [stated for entry in reported if (stated := stated_range_ms(entry))]
    return {
        "off": [step / median - 1 for step in steps],
        "right": all(abs(step / median - 1) <= ALLOWED or least <= step <= largest for step in steps),
        "ranges_ms": ranges,
        "holds": [low <= median <= high for low, high in ranges],
    }


def stated_range_ms(steps: Noted) -> tuple[float, float] | None:
    """Return the range that a report states: for other runs if the program was repeated, else for its own."""
    range_ms = (steps.get("runs") or {}).get("range_ms") or steps.get("range_ms")
    return (range_ms[0], range_ms[1]) if range_ms else None


def of_lines(noted: Noted) -> Noted:
    """Compare the lines that pinprof named in any run with those that sync debug mode did."""
    waits = noted.get("lines", {})
    true, later = ({_line(wait["user"]) for wait in waits.get(when, []) if wait["user"]} for when in ("lines", "later"))
    runs = [run["sites"] for run in noted.get("pinprof", []) if run.get("sites") is not None]
    if "steps" not in waits or not runs:
        return {"lines": None}
    found: list[set[Line]] = [{line for line in true if any(_same(line, site) for site in sites)} for sites in runs]
    others = [site for sites in runs for site in sites if not any(_same(line, site) for line in true | later)]
    kept = {(site["file"], site["line"], site["cause"]): site for site in others if site["line"] is not None}
    return {
        "lines": len(true),
        "found": [len(lines) for lines in found],
        "missing": [_short(file, line) for file, line in sorted(true - found[0].intersection(*found[1:]))],
        "unplaced": [sum(_unplaced(site) for site in sites) for sites in runs],
        "wrong": [_said(site) for site in kept.values() if _would_warn(site)],
        "also": [_said(site) for site in kept.values() if not _would_warn(site)],
    }


def of_ledger(noted: Noted) -> Noted:
    """Compare the sum of each ledger with the wall time of the process, in seconds; not of several processes."""
    runs = [run for run in noted.get("pinprof", []) if run.get("ledger") and not run["steps"].get("runs")]
    sums = [math.fsum(entry["ms"] for entry in run["ledger"]) / 1000 for run in runs]
    return {"ledger_s": sums, "wall_s": [run["seconds"] for run in runs]}


def _line(place: list[Any]) -> Line:
    return place[0], place[1]


def _same(line: Line, site: Noted) -> bool:
    """Tell whether a site is at this line: its file may be told from any folder above it."""
    if site["file"] is None or site["line"] != line[1]:
        return False
    one, other = PurePath(line[0]).parts, PurePath(site["file"]).parts
    shared = min(len(one), len(other))
    return one[-shared:] == other[-shared:]


def _would_warn(site: Noted) -> bool:
    came_once = site["cause"] == "seen_elsewhere" and site.get("steps") == 1  # maybe later than the truth went
    return site["cause"] in SEEN_BY_SYNC_DEBUG and site.get("called") not in SILENT and not came_once


def _unplaced(site: Noted) -> bool:
    return site["line"] is None and site["cause"] in SEEN_BY_SYNC_DEBUG


def _said(site: Noted) -> str:
    return f"{_short(site['file'], site['line'])} ({site['cause']})"


def _short(file: str, line: int) -> str:
    return f"{'/'.join(PurePath(file).parts[-2:])}:{line}"


def table(programs: Mapping[str, Noted]) -> str:
    """Return a row of Markdown for each program, and lines of sums; a program that was cut short has no range there."""
    verdicts = {name: verdict(noted) for name, noted in programs.items()}
    rows = [_row(HEAD), _row(["---"] * len(HEAD))]
    rows += [_row([name, *_cells(noted, verdicts[name])]) for name, noted in programs.items()]
    right = sum(judged["right"] for judged in verdicts.values())
    with_lines = [judged for judged in verdicts.values() if judged["lines"] is not None]
    lines_found = sum(min(judged["found"]) for judged in with_lines)
    lines = sum(judged["lines"] for judged in with_lines)
    wrong = sum(len(judged["wrong"]) for judged in with_lines)
    rows += ["", f"{right} of {len(verdicts)} steps right; {lines_found} of {lines} lines found, {wrong} wrong."]
    whole = [judged for name, judged in verdicts.items() if not programs[name].get("cut")]
    rows += ["", _sum_of_ranges(whole), ""]
    return "\n".join(rows)


def _sum_of_ranges(verdicts: Iterable[Noted]) -> str:
    """Return how many stated ranges hold the truth, and by how much pinprof's steps are too long on average."""
    judged = [entry for entry in verdicts if entry["off"]]
    holds = [answer for entry in judged for answer in entry["holds"]]
    bias = [100 * statistics.fmean(entry["off"]) for entry in judged]
    if len(bias) < FEWEST_FOR_ERROR:
        return f"{sum(holds)} of {len(holds)} ranges hold."
    error = statistics.stdev(bias) / math.sqrt(len(bias))
    mean, median = statistics.fmean(bias), statistics.median(bias)
    return (
        f"{sum(holds)} of {len(holds)} ranges hold; bias {mean:+.1f} % on average (standard error {error:.1f} %), "
        f"median {median:+.1f} %."
    )


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
