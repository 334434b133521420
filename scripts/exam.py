"""Examine pinprof with scripts of other people, as they stand in their repositories, against truth measured in turns.

Run from the repository root:  PYTHONPATH=. python scripts/exam.py OUT --programs FOLDER [--only NAME]...

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

With --more:

  github.com/yunjey/pytorch-tutorial            0500d3df5a2a8080ccfccbc00aca0eacc21818db
  github.com/eriklindernoren/PyTorch-GAN        36d3c77e5ff20ebe0aeefd322326a134a279b93e
  github.com/karpathy/makemore                  988aa59e4d8fefa526d06f3b453ad116258398d4
  github.com/karpathy/ng-video-lecture          52201428ed7b46804849dea0b3ccf0de9df1a5c3
  github.com/weiaicunzai/pytorch-cifar100       11d8418f415b261e4ae3cb1ffe20d06ec95b98e4
  github.com/akamaster/pytorch_resnet_cifar10   d5489e8995e81e91ce6b1d69dcc98ad579b0b153

They need, beside torch: torchvision, timm, transformers, accelerate, torch-geometric, scipy, tensorboard, tiktoken,
tyro and gymnasium 0.29. Data are made up in the folders of the programs; nothing is fetched.

First each program runs once in torch's sync debug mode, several side by side: nothing is timed. Then each turn takes
every program once: alone, with a clock at the ends of its steps (the truth), and under `pinprof run`, as users call it.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import click
import torch

from pinprof.outputs import write_whole
from scripts.examination.made_up import make
from scripts.examination.processes import Ended, Place, run
from scripts.examination.programs import MORE, PROGRAMS, program
from scripts.examination.table import table
from scripts.examination.truth import of_run
from scripts.recordings import machine_of

START_SECONDS = 60  # of a program, until its first steps
REPORT_SECONDS = 120
LINES_STEPS = 200
LINES_SECONDS = 12.0, 25.0  # least, for what comes after these steps, and most
KEPT_OF_STEPS = ("count", "source", "step_ms", "range_ms", "step_source", "bound", "traced_ms", "regular", "irregular")
KEPT_OF_SITES = (
    *("file", "line", "function", "cause", "call", "thread", "verdict", "count", "per_step", "library"),
    *("called", "steps"),  # of those that were seen elsewhere
)

Noted = dict[str, Any]
SAVING = Lock()
LOCKS: dict[tuple[Path, str], Lock] = {}


@click.command()
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--programs", "folder", type=click.Path(exists=True, path_type=Path), help="The clones.")
@click.option("--only", multiple=True, metavar="NAME", help="Take this program alone; may be repeated.")
@click.option("--skip", multiple=True, metavar="NAME", help="Leave this program out; may be repeated.")
@click.option("--gpus", default=1, show_default=True, help="Take the programs for so many GPUs.")
@click.option("--turns", default=3, show_default=True)
@click.option("--steps", default=100, show_default=True, help="Of each truth, at least, if they take no longer.")
@click.option("--least-seconds", default=6.0, show_default=True, help="Of each truth's steps, at least.")
@click.option("--seconds", default=12.0, show_default=True, help="Of each truth's steps, at most.")
@click.option("--patience", default=110.0, show_default=True, help="Seconds until a `pinprof run` is given up.")
@click.option("--jobs", default=6, show_default=True, help="Programs side by side where nothing is timed.")
@click.option("--budget", default=3600.0, show_default=True, help="Start nothing new after so many seconds.")
@click.option("--no-lines", is_flag=True, help="Judge the steps alone, in half of the time.")
@click.option("--more", is_flag=True, help="Take the programs that estimates are learned from, too.")
@click.option("--traces-only", is_flag=True, help="Judge nothing: leave the traces of `pinprof run` in OUT.")
@click.option("--table", "only_table", is_flag=True, help="Print the table of what OUT has, and run nothing.")
def main(
    out: Path,
    folder: Path | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    gpus: int,
    *,
    only_table: bool,
    **options: Any,
) -> None:
    """Examine pinprof; what was noted goes to OUT/exam.json at once, and the table to OUT/exam.md."""
    out.mkdir(parents=True, exist_ok=True)
    if not only_table:
        if folder is None:
            raise click.UsageError("give the folder of the clones: --programs FOLDER")
        known = (*PROGRAMS, *MORE) if options["more"] else PROGRAMS
        asked = [program(name) for name in only] or [each for each in known if each.gpus == gpus]
        places = [Place(each, (folder / each.repository).resolve()) for each in asked if each.name not in skip]
        Exam(out.resolve(), options).hold(places)
    print(table(Exam(out.resolve(), options).noted["programs"]))


class Exam:
    """Runs the programs and keeps what was noted of each up to date in exam.json."""

    def __init__(self, out: Path, options: Noted) -> None:
        self._out, self._options = out, options
        self._deadline = time.perf_counter() + options["budget"]
        self._path = out / "exam.json"
        self.noted: Noted = (
            json.loads(self._path.read_text()) if self._path.exists() else {"machine": {}, "programs": {}}
        )

    def hold(self, places: list[Place]) -> None:
        """Make the data, then take all programs in turns."""
        self.noted["machine"] = machine_of("cuda" if torch.cuda.is_available() else "cpu")
        self._side_by_side(self._make_data, places)
        judges = not self._options["traces_only"]
        if judges and not self._options["no_lines"]:
            self._side_by_side(self._note_lines, [each for each in places if not self._of(each).get("lines")])
        for turn in range(self._options["turns"]):
            reports: list[tuple[Place, Noted]] = []
            for place in places:
                if len(self._of(place)["pinprof"]) <= turn and self._has_time(place):
                    if judges:
                        self._note_truth(place)
                    reports.append((place, self._profile(place, turn)))
            if judges:
                self._side_by_side(self._report, reports)

    def _make_data(self, place: Place) -> None:
        began = time.perf_counter()
        for name in place.program.data:
            with LOCKS.setdefault((place.repository, name), Lock()):
                make(name, place.repository, place.folder)
        print(f"{place.program.name:20} data {time.perf_counter() - began:5.1f} s", flush=True)

    def _note_truth(self, place: Place) -> None:
        """Run the program alone, with a clock at the ends of its steps."""
        options = self._options
        ended, noted = self._hooked(place, "truth", options["steps"], (options["least_seconds"], options["seconds"]))
        truth = of_run(noted) if noted else {"error": self._error(ended)}
        self._of(place)["truth"].append({**truth, "seconds": ended.seconds})
        self._save()
        print(f"{place.program.name:20} truth {ended.seconds:5.1f} s, step {truth.get('regular_ms')}", flush=True)

    def _note_lines(self, place: Place) -> None:
        """Run the program in sync debug mode."""
        if not self._has_time(place):
            return
        ended, noted = self._hooked(place, "lines", LINES_STEPS, LINES_SECONDS)
        self._of(place)["lines"] = noted or {"error": self._error(ended)}
        self._save()
        print(f"{place.program.name:20} lines {ended.seconds:5.1f} s", flush=True)

    def _hooked(self, place: Place, mode: str, steps: int, seconds: tuple[float, float]) -> tuple[Ended, Noted | None]:
        """Run the program with hooks; return what the first of its processes noted that made steps."""
        noted = self._out / f"{place.program.name}.{mode}"
        environment = {
            "EXAM_MODE": mode,
            "EXAM_OUT": str(noted),
            "EXAM_STEPS": str(steps),
            "EXAM_LEAST_SECONDS": str(seconds[0]),
            "EXAM_SECONDS": str(seconds[1]),
            "EXAM_MARKER": place.program.marker,
            "EXAM_CALLS_PER_STEP": str(place.program.calls_per_step),
        }
        ended = run(place, place.command(), environment, START_SECONDS + seconds[1], noted.with_suffix(f".{mode}.log"))
        files = sorted(self._out.glob(f"{noted.name}.*.json"))
        found: Noted | None = json.loads(files[0].read_text()) if files else None
        for file in files:
            file.unlink()
        return ended, found

    def _profile(self, place: Place, turn: int) -> Noted:
        """Run the program as a user of pinprof would."""
        trace = self._out / f"{place.program.name}.{turn}.json.gz"
        short = self._options["no_lines"] or self._options["traces_only"]
        windows = ["--windows", "plain,lean", "--watch-steps", "0"] if short else []
        command = place.command(profiled=["--force", *windows, "-o", str(trace)])
        ended = run(place, command, {}, self._options["patience"], trace.with_suffix(".log"))
        print(f"{place.program.name:20} pinprof {ended.seconds:5.1f} s, status {ended.status}", flush=True)
        noted = {"trace": trace.name, "seconds": ended.seconds, "status": ended.status, "tail": ended.tail}
        if ended.status != 0:
            noted["error"] = self._error(ended)
        self._of(place)["pinprof"].append(noted)
        self._save()
        return noted

    def _report(self, profiled: tuple[Place, Noted]) -> None:
        """Read what `pinprof report` says of the trace, or of that of the first rank."""
        place, noted = profiled
        name = noted["trace"].removesuffix(".json.gz")
        traces = sorted([*self._out.glob(f"{name}.json.gz"), *self._out.glob(f"{name}.rank*.json.gz")])
        noted["traces"] = [trace.name for trace in traces]
        if not traces:
            noted.setdefault("error", "no trace was written")
        else:
            answer = self._out / f"{name}.report"
            command = [sys.executable, "-m", "pinprof", "report", "--force", "--json", str(answer), str(traces[0])]
            ended = run(place, command, {}, REPORT_SECONDS, self._out / f"{name}.report.log")
            noted.update(read(answer) if ended.status == 0 else {"error": self._error(ended)})
        self._save()

    def _of(self, place: Place) -> Noted:
        entry: Noted = self.noted["programs"].setdefault(place.program.name, {"truth": [], "pinprof": []})
        return entry

    def _error(self, ended: Ended) -> str:
        return ended.last_line if ended.status is not None else f"not done in time; last: {ended.last_line}"

    def _has_time(self, place: Place) -> bool:
        left = self._deadline - time.perf_counter()
        if left < 0:
            print(f"{place.program.name:20} no time left", flush=True)
        return left >= 0

    def _side_by_side(self, work: Callable[[Any], None], items: Iterable[Any]) -> None:
        with ThreadPoolExecutor(self._options["jobs"]) as pool:
            for done in [pool.submit(work, item) for item in items]:
                if problem := done.exception():
                    print(f"failed: {problem!r}", file=sys.stderr, flush=True)

    def _save(self) -> None:
        with SAVING:
            write_whole(self._path, json.dumps(self.noted, indent=1) + "\n")
            write_whole(self._path.with_suffix(".md"), table(self.noted["programs"]))


def read(answer: Path) -> Noted:
    """Return what of the report is judged."""
    trace = json.loads(answer.read_text())["traces"][0]
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
            {name: each[name] for name in ("rule", "file", "line", "saving_ms")} for each in trace["findings"]
        ],
    }


if __name__ == "__main__":
    main()
