"""Holds pinprof's verdict and predicted saving to changes that other people made, and that they told of in public.

    PYTHONPATH=. python scripts/exam_cases.py make FOLDER --clones CLONES [--changed] [--only NAME]...
    PYTHONPATH=. python scripts/exam_cases.py record FOLDER OUT [--only NAME]... [--seconds 540]
    PYTHONPATH=. python scripts/exam_cases.py measure FOLDER OUT [--only NAME]... [--seconds 540]
    PYTHONPATH=. python scripts/exam_cases.py keep OUT
    PYTHONPATH=. python scripts/exam_cases.py table

`make` writes each program before its change below FOLDER, from clones that lie in CLONES/OWNER+NAME; `--changed`
commits the change of the thread on top. `record` needs the first alone: it runs `pinprof run` on each program and
notes what is said of it. `measure` lets both versions run in turns, each with a clock at the ends of its steps: the
median ratio of the steps, its range, and how far a version drifts from itself. `keep` writes what OUT has to
scripts/cases: forecasts with the date, and never over others, for they are committed before the change is made; and
what was measured. `table` compares.
"""

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from pinprof.ground.outputs import write_whole
from scripts.examination.case_table import table
from scripts.examination.cases import CASES, Case
from scripts.examination.processes import Hook, Noted, Place, reported, run, run_hooked
from scripts.examination.turns import AFTER, BEFORE, Turns, in_turns
from scripts.examination.verdict import truth_of_run
from scripts.recordings import machine_of

HARNESSES = Path(__file__).parent / "cases"
FORECASTS, MEASURED = HARNESSES / "forecasts.json", HARNESSES / "measured.json"
PATIENCE_SECONDS = 100.0
KEPT_FIGURES = ("rule", "file", "line", "saving_ms", "range_ms", "at_most_ms", "irregular")
KEPT_FINDINGS = 8
DIGITS = 4
TRUTH = Hook("truth", steps=30, least_s=4.0, most_s=10.0)
NAMED = {case.name: case for case in CASES}


@click.group()
def main() -> None:
    """Examine pinprof with cases of other people."""


only = click.option("--only", multiple=True, metavar="NAME", help="Take this case alone; may be repeated.")
seconds = click.option("--seconds", default=540.0, show_default=True, help="Begin no case that may not end by then.")
FOLDER = click.Path(file_okay=False, path_type=Path)


@main.command()
@click.argument("folder", type=FOLDER)
@click.option("--clones", type=FOLDER, required=True)
@click.option("--changed", is_flag=True, help="Commit the changes, too.")
@only
def make(folder: Path, clones: Path, *, changed: bool, only: Sequence[str]) -> None:
    """Write the programs."""
    for case in _chosen(only):
        program_folder = folder / case.name
        program_folder.mkdir(parents=True, exist_ok=True)
        clone = clones / case.clone.replace("/", "+") / "repo"
        _git(program_folder, "init", "--quiet")
        (program_folder / ".gitignore").write_text("__pycache__/\nout/\ndata/\nlog/\n*.pickle\n*.h5\n")
        _write(case, clone, case.commit_before, program_folder)
        _commit(program_folder, BEFORE)
        if changed:
            if case.after:
                _write(case, clone, case.after, program_folder)
            for edit in case.edits:
                edit.apply(program_folder)
            _commit(program_folder, AFTER)


@main.command()
@click.argument("folder", type=FOLDER)
@click.argument("out", type=FOLDER)
@only
@seconds
def record(folder: Path, out: Path, only: Sequence[str], seconds: float) -> None:
    """Note what pinprof says of each program before its change."""
    for case, place in _in_time(folder, out, only, seconds):
        if _git(place.repository, "log", "-1", "--format=%s").strip() != BEFORE:
            print(f"{case.name}: has its change already; make it anew without --changed", flush=True)
            continue
        trace = out / f"{case.name}.json.gz"
        command = place.command(profiled=["--force", "-o", str(trace)])
        ended = run(place, command, {}, PATIENCE_SECONDS, out / f"{case.name}.log")
        answered, said = reported(place, trace, out / f"{case.name}.report", PATIENCE_SECONDS)
        if said is None:
            print(f"{case.name}: {ended.last_line} | {answered.last_line}", flush=True)
            continue
        noted = {"case": case.name, **forecast(said)}
        _append(out / "forecasts.jsonl", noted)
        print(f"{case.name:20} {ended.seconds:5.1f} s  {noted['verdict']}", flush=True)


def forecast(trace: Noted) -> Noted:
    """Return what of a report is held to what comes of the change."""
    steps, verdict = trace["steps"], trace["verdict"] or {}
    return {
        "gpu": trace["devices"][0]["name"],
        "torch": trace["torch_version"],
        "step_ms": steps["step_ms"],
        "step_range_ms": steps["range_ms"],
        "traced_ms": steps["traced_ms"],
        "busy_ms": steps["busy_ms"],
        "waits": {
            f"{site['file']}:{site['line']}": site["stall_ms"] / steps["count"] for site in trace["syncs"]["sites"]
        },
        "verdict": verdict.get("headline"),
        "do": verdict.get("do"),
        "findings": [
            {
                **{key: finding[key] for key in KEPT_FIGURES},
                "lines": [f"{site['file']}:{site['line']}" for site in finding["sites"][:4]],
            }
            for finding in trace["findings"][:KEPT_FINDINGS]
        ],
    }


@main.command()
@click.argument("folder", type=FOLDER)
@click.argument("out", type=FOLDER)
@click.option("--turns", default=8, show_default=True, help="Processes of each version.")
@only
@seconds
def measure(folder: Path, out: Path, turns: int, only: Sequence[str], seconds: float) -> None:
    """Let each program run in turns with and without the change of the thread."""
    for case, place in _in_time(folder, out, only, seconds):
        if AFTER not in _git(place.repository, "tag").split():
            print(f"{case.name}: has no change; make it with --changed", flush=True)
            continue
        if case.has_both_versions:
            taken = turns_of_process(place, turns, out / f"{case.name}.log")
        else:
            taken = in_turns(partial(step_ms, place, out / case.name), turns)
        _git(place.repository, "checkout", "--quiet", AFTER)
        if not taken.pairs_ms:
            print(f"{case.name}: no version made steps; see {out / case.name}.*.log", flush=True)
            continue
        figures = {name: getattr(taken, name) for name in ("ratio", "range", "drift", "pairs_ms")}
        _append(out / "measured.jsonl", {"case": case.name, "gpu": machine_of("cuda")["gpu"], **figures})
        print(f"{case.name:20} {taken}", flush=True)


def step_ms(place: Place, noted: Path, version: str) -> float | None:
    """Return the mean regular step of a version in a process of its own, or None where it made none."""
    _git(place.repository, "checkout", "--quiet", version)
    _, stamps = run_hooked(place, TRUTH, noted.with_name(f"{noted.name}.{version}"), PATIENCE_SECONDS)
    return truth_of_run(stamps).get("regular_ms") if stamps else None


def turns_of_process(place: Place, turns: int, log: Path) -> Turns:
    """Return the turns of a program that runs both versions by itself and prints their steps."""
    ended = run(place, [*place.command(), "--turns", str(turns)], {}, PATIENCE_SECONDS, log)
    return Turns(tuple(map(tuple, json.loads(ended.last_line))) if ended.status == 0 else ())


@main.command()
@click.argument("out", type=FOLDER)
def keep(out: Path) -> None:
    """Keep forecasts, which nothing changes any more, and what was measured."""
    now = time.strftime("%Y-%m-%d %H:%M")
    forecasts, measured = _kept(FORECASTS), _kept(MEASURED)
    for entry in _lines(out / "forecasts.jsonl"):
        forecasts.setdefault(entry.pop("case"), {"frozen": now, **_rounded(entry)})
    for entry in _lines(out / "measured.jsonl"):
        measured[entry.pop("case")] = {"measured": now, **_rounded(entry)}
    for file, content in ((FORECASTS, forecasts), (MEASURED, measured)):
        write_whole(file, json.dumps(content, indent=1) + "\n")


@main.command(name="table")
def print_table() -> None:
    """Print what was predicted and what came of it: of programs as they stand, and of those written again."""
    forecasts, measured = _kept(FORECASTS), _kept(MEASURED)
    for written_again in (False, True):
        cases = [case for case in CASES if case.has_both_versions is written_again and case.name in forecasts]
        if cases:
            print(table(forecasts, measured, cases), end="\n\n")


def _kept(file: Path) -> Noted:
    return json.loads(file.read_text()) if file.exists() else {}


def _lines(file: Path) -> list[Noted]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return {key: _rounded(item) for key, item in value.items()} if isinstance(value, dict) else value


def _chosen(only: Sequence[str]) -> list[Case]:
    return [NAMED[name] for name in only] if only else list(CASES)


def _in_time(folder: Path, out: Path, only: Sequence[str], seconds: float) -> Iterator[tuple[Case, Place]]:
    """Yield the cases that are there, as long as one that takes as long as the longest would end in time."""
    out.mkdir(parents=True, exist_ok=True)
    began = last = time.perf_counter()
    longest_s = 0.0
    for case in _chosen(only):
        now = time.perf_counter()
        longest_s, last = max(longest_s, now - last), now
        if now - began + longest_s > seconds:
            print(f"{case.name}: no time left", flush=True)
        elif (folder / case.name).exists():
            yield case, Place(case.program, (folder / case.name).resolve())


def _write(case: Case, clone: Path, commit: str, folder: Path) -> None:
    """Write the program of a commit, let it run with the libraries of today, and put its harness there."""
    if case.clone:
        names = _git(clone, "ls-tree", "-r", "--name-only", commit).splitlines()
        files = [name for name in names if name.endswith(case.files)]
        archive = subprocess.run(["git", "archive", commit, *files], cwd=clone, capture_output=True, check=True)  # noqa: S607
        subprocess.run(["tar", "x", "-C", str(folder)], input=archive.stdout, check=True)  # noqa: S607
    for source, target in ((case.harness, "case"), ("stand_ins", "stand_ins")):
        (folder / f"{target}.py").write_text((HARNESSES / f"{source}.py").read_text())
    for edit in case.repairs:
        edit.apply(folder)


def _commit(folder: Path, version: str) -> None:
    _git(folder, "add", "--all")
    _git(folder, "-c", "user.name=exam", "-c", "user.email=exam@localhost", "commit", "--quiet", "-m", version)
    _git(folder, "tag", version)


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout  # noqa: S607


def _append(file: Path, entry: Noted) -> None:
    with file.open("a") as lines:
        lines.write(json.dumps(entry) + "\n")


if __name__ == "__main__":
    main()
