"""Examine pinprof with scripts of other people, as they stand in their repositories, against truth measured in turns.

Run from the repository root:  PYTHONPATH=. python scripts/exam.py OUT --programs FOLDER [--only NAME]... [--repeat 3]

FOLDER holds clones, each under the name of its repository; the exam was made with these commits:

  github.com/pytorch/examples                   77f55b912142e11fcfdf5b530231fb9c52f181e8
  github.com/KellerJordan/cifar10-airbench      f1c599c4af24aca803e3e65a6a7e52a502e09d0e
  github.com/huggingface/pytorch-image-models   aa4b5850c1543fa488abf260f18390eda46cf85d
  github.com/karpathy/nanoGPT                   3adf61e154c3fe3fca428ad6bc3818b27a3b8291
  github.com/karpathy/minGPT                    37baab71b9abea1b76ab957409a1cc2fbfba8a26
  github.com/karpathy/llm.c                     f1e2ace651495b74ae22d45d1723443fd00ecd3a
  github.com/kuangliu/pytorch-cifar             49b7aa97b0c12fe0d4054e670403a16b6b834ddd
  github.com/vwxyzjn/cleanrl                    fe8d8a03c41a7ef5b523e2e354bd01c363e786bb
  github.com/pyg-team/pytorch_geometric         5c6461b2305ad068a6d61165b3c55852a11aaa41
  github.com/huggingface/accelerate             16cb6eb80dd9aa8b4df1a63ef57863e455d53b83
  github.com/locuslab/TCN                       2f8c2b8
  github.com/pmixer/SASRec.pytorch              fde8a9c
  github.com/TeaPearce/Conditional_Diffusion_MNIST  657b498
  github.com/codertimo/BERT-pytorch             d10dc4f
  github.com/rosinality/vq-vae-2-pytorch        ef5f67c

Besides torch they need torchvision, timm, transformers, accelerate, torch-geometric, scipy, tensorboard, tiktoken,
tyro, gymnasium 0.29, einops and lmdb. Data are made up in the folders of the programs; nothing is fetched.

First each program runs once in torch's sync debug mode, several side by side: nothing is timed. Then each program runs
in turns alone, with a clock at the ends of its steps (the truth), and under `pinprof run`, as users call it: truth,
pinprof, truth, pinprof, truth. With --repeat 3 pinprof runs as `pinprof run --repeat 3`, whose range should hold the
truths. OUT/exam.jsonl gets a line for each program once it is examined; a second call goes on with the others.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import click
import torch

from pinprof.ground.outputs import write_whole
from scripts.examination.made_up import make
from scripts.examination.processes import Ended, Hook, Noted, Place, reported, run, run_hooked
from scripts.examination.program import PlaceError
from scripts.examination.programs import NAMED_PROGRAMS, PROGRAMS
from scripts.examination.verdict import table, truth_of_run, verdict
from scripts.recordings import machine_of

REPORT_SECONDS = 120
RESERVED_SECONDS = 30  # of the time, for reports after the last run
TRUTH = Hook("truth", 100, 6.0, 12.0)
LINES = Hook("lines", 200, 12.0, 25.0)  # at least 12 s, for what comes after these steps
KEPT_OF_STEPS = (
    *("count", "source", "step_ms", "range_ms", "step_source", "bound", "traced_ms", "regular", "runs", "irregular"),
)
KEPT_OF_SITES = (
    *("file", "line", "function", "cause", "call", "thread", "verdict", "count", "per_step", "library"),
    *("called", "steps"),  # of those that were seen elsewhere
)

LOCKS: dict[tuple[Path, str], Lock] = {}


@click.command()
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--programs", "folder", required=True, type=click.Path(exists=True, path_type=Path), help="The clones.")
@click.option(
    "--only", multiple=True, type=click.Choice(list(NAMED_PROGRAMS)), help="Take this alone; may be repeated."
)
@click.option("--gpus", default=1, show_default=True, help="Take the programs for this number of GPUs.")
@click.option("--repeat", default=1, show_default=True, help="Processes of each `pinprof run`.")
@click.option("--turns", default=2, show_default=True, help="How often each program runs under pinprof.")
@click.option("--patience", default=110.0, show_default=True, help="Seconds until a process under pinprof is ended.")
@click.option("--jobs", default=6, show_default=True, help="Programs side by side where nothing is timed.")
@click.option("--seconds", default=3600.0, show_default=True, help="End within this time.")
def main(out: Path, folder: Path, *, only: tuple[str, ...], gpus: int, **options: Any) -> None:
    """Examine pinprof; what is noted of each program goes to OUT/exam.jsonl at once, and the table to OUT/exam.md."""
    out.mkdir(parents=True, exist_ok=True)
    exam = Exam(out.resolve(), options)
    chosen = [NAMED_PROGRAMS[name] for name in only] or [entry for entry in PROGRAMS if entry.gpus == gpus]
    exam.hold([Place(entry, (folder / entry.repository).resolve()) for entry in chosen])
    print(table(exam.examined))


class Exam:
    """Runs the programs, and writes a line of exam.jsonl for each."""

    def __init__(self, out: Path, options: Noted) -> None:
        self._out, self._options = out, options
        self._deadline = time.perf_counter() + options["seconds"] - RESERVED_SECONDS
        self._path = out / "exam.jsonl"
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        self.examined: dict[str, Noted] = {entry["program"]: entry for entry in map(json.loads, lines)}

    def hold(self, places: list[Place]) -> None:
        """Make the data, run what is not timed, then one program after the other; leave out those that are examined."""
        places = [place for place in places if self.examined.get(place.program.name, {"cut": True})["cut"]]
        machine = machine_of("cuda" if torch.cuda.is_available() else "cpu")
        noted: dict[str, Noted] = {
            place.program.name: {"program": place.program.name, "machine": machine, "truth": [], "pinprof": []}
            for place in places
        }
        self._side_by_side(self._make_data, [(place,) for place in places])
        pairs = [(place, noted[place.program.name]) for place in places]
        self._side_by_side(self._note_lines, pairs)
        longest_s = 0.0
        for place, entry in pairs:
            before_s = self._left_s
            if before_s <= longest_s:
                print(f"{place.program.name:20} no time left", flush=True)
                continue
            self._take_turns(place, entry)
            longest_s = max(longest_s, before_s - self._left_s)
            entry["cut"] = not self._left_s
            entry["verdict"] = verdict(entry)
            self.examined[place.program.name] = entry
            with self._path.open("a") as lines:
                lines.write(json.dumps(entry) + "\n")
            write_whole(self._out / "exam.md", table(self.examined))
            print(table({place.program.name: entry}), flush=True)

    def _take_turns(self, place: Place, entry: Noted) -> None:
        """Run the program alone and under pinprof in turns, alone at first and at last; then read the reports."""
        for turn in range(self._options["turns"]):
            self._note_truth(place, entry)
            if self._left_s:
                self._profile(place, entry, turn)
        if self._left_s:
            self._note_truth(place, entry)
        self._side_by_side(self._report, [(place, profiled) for profiled in entry["pinprof"]])

    @property
    def _left_s(self) -> float:
        return max(0.0, self._deadline - time.perf_counter())

    def _make_data(self, place: Place) -> None:
        began = time.perf_counter()
        for name in place.program.data:
            with LOCKS.setdefault((place.repository, name), Lock()):
                make(name, place.repository, place.folder)
        for edit in place.program.repairs:
            with suppress(PlaceError):  # done before
                edit.apply(place.folder)
        print(f"{place.program.name:20} data {time.perf_counter() - began:5.1f} s", flush=True)

    def _note_truth(self, place: Place, entry: Noted) -> None:
        """Run the program alone, with a clock at the ends of its steps."""
        ended, stamps = self._hooked(place, TRUTH)
        truth = truth_of_run(stamps) if stamps else {"error": _error(ended)}
        entry["truth"].append({**truth, "seconds": ended.seconds})
        print(f"{place.program.name:20} truth {ended.seconds:5.1f} s, step {truth.get('regular_ms')}", flush=True)

    def _note_lines(self, place: Place, entry: Noted) -> None:
        """Run the program in sync debug mode."""
        if self._left_s:
            ended, lines = self._hooked(place, LINES)
            entry["lines"] = lines or {"error": _error(ended)}
            print(f"{place.program.name:20} lines {ended.seconds:5.1f} s", flush=True)

    def _hooked(self, place: Place, hook: Hook) -> tuple[Ended, Noted | None]:
        return run_hooked(place, hook, self._out / f"{place.program.name}.{hook.mode}", self._left_s)

    def _profile(self, place: Place, entry: Noted, turn: int) -> None:
        """Run the program as a user of pinprof would."""
        trace, times = self._out / f"{place.program.name}.{turn}.json.gz", self._options["repeat"]
        options = ["--force", "-o", str(trace)]
        if times > 1:
            options += ["--repeat", str(times)]
        longest = min(self._options["patience"] * times, self._left_s)
        ended = run(place, place.command(profiled=options), {}, longest, trace.with_suffix(".log"))
        print(f"{place.program.name:20} pinprof {ended.seconds:5.1f} s, status {ended.status}", flush=True)
        profiled = {"trace": trace.name, "seconds": ended.seconds, "status": ended.status, "tail": ended.tail}
        if ended.status != 0:
            profiled["error"] = _error(ended)
        entry["pinprof"].append(profiled)

    def _report(self, place: Place, profiled: Noted) -> None:
        """Read what `pinprof report` says of the trace, or of that of the first rank."""
        name = profiled["trace"].removesuffix(".json.gz")
        traces = sorted([*self._out.glob(f"{name}.json.gz"), *self._out.glob(f"{name}.rank*.json.gz")])
        profiled["traces"] = [trace.name for trace in traces]
        if not traces:
            profiled.setdefault("error", "no trace was written")
            return
        ended, said = reported(place, traces[0], self._out / f"{name}.report", REPORT_SECONDS)
        profiled.update(judged_part(said) if said else {"error": _error(ended)})

    def _side_by_side(self, work: Callable[..., None], arguments: Iterable[tuple[Any, ...]]) -> None:
        with ThreadPoolExecutor(self._options["jobs"]) as pool:
            for started in [pool.submit(work, *words) for words in arguments]:
                if problem := started.exception():
                    print(f"failed: {problem!r}", file=sys.stderr, flush=True)


def _error(ended: Ended) -> str:
    return ended.last_line if ended.status is not None else f"not done in time; last: {ended.last_line}"


def judged_part(trace: Noted) -> Noted:
    """Return what of the report on a trace is judged."""
    steps, syncs = trace["steps"], trace["syncs"]
    sites = [site for site in syncs["sites"] if site["verdict"] != "profiler"]
    elsewhere = [{"cause": "seen_elsewhere", **site} for site in syncs.get("seen_elsewhere") or []]
    return {
        "steps": {name: steps[name] for name in KEPT_OF_STEPS if name in steps},
        "sites": [{name: site.get(name) for name in KEPT_OF_SITES} for site in [*sites, *elsewhere]],
        "seen_elsewhere": syncs.get("seen_elsewhere"),
        "ledger": steps.get("ledger"),
        "missing": trace["missing"],
        "findings": [
            {name: finding[name] for name in ("rule", "file", "line", "saving_ms")} for finding in trace["findings"]
        ],
    }


if __name__ == "__main__":
    main()
