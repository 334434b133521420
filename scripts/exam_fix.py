"""Examine `pinprof fix` and `pinprof try` with scripts of other people into which faults are put.

Run from the repository root, in this order:

  PYTHONPATH=. python scripts/exam_fix.py plant OUT --programs FOLDER    copies, faults and made-up data
  PYTHONPATH=. python scripts/exam_fix.py record OUT                     `pinprof run` of each; needs a GPU
  PYTHONPATH=. python scripts/exam_fix.py pretend OUT                    without a GPU: a few steps on the CPU instead
  PYTHONPATH=. python scripts/exam_fix.py mend OUT                       `pinprof fix` of each recording
  PYTHONPATH=. python scripts/exam_fix.py prove OUT                      `pinprof try` of each program

FOLDER holds the clones that scripts/exam.py names. The faults, and what the right outcome of each is, stand in
scripts/examination/faults.txt; those of programs that `fix` was not made with, in unseen.txt: `--only unseen`.
Each command skips what has been done, and stops when its budget is spent.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import click
from pinprof.fix import Chosen

from pinprof.outputs import write_whole
from scripts.examination.grafted import grafted, seen_lines
from scripts.examination.judged import (
    Row,
    difference,
    judge_patch,
    judged_part,
    table_of_mends,
    table_of_proofs,
    with_reasons,
)
from scripts.examination.planted import Planted, patched_in_place, plant
from scripts.examination.planting import UNSEEN_VARIANTS, VARIANTS, Variant
from scripts.examination.processes import Ended, run

START_LEAST_SECONDS = 20.0
"""With less time left no program is started: it would not come to its steps."""
FIX_SECONDS = 300.0
PRETENDED_STEPS = "3"
SMALLER = {
    "nanogpt_eager": ("--batch_size=2", "--eval_iters=1", "--n_layer=1"),
    "forward_forward": ("--train_size", "500"),
    "imagenet_resnet50": ("--batch-size", "2", "--workers", "2"),
}
"""What makes a step of a large program bearable on a CPU."""
CALLS = {"optimizer": 1, "backward": 2}
"""Calls of a marker for one of the program's: where functions are noted, `backward` calls itself once more."""
UNSEEN = "unseen"
EVERY = (*VARIANTS, *UNSEEN_VARIANTS)
RECORDED = (("record", ".gz"), ("pretended", ""))
SHORT = ("--force", "--max-warmup", "30", "--plain-seconds", "4", "--watch-steps", "0")

out_argument = click.argument("out", type=click.Path(file_okay=False, path_type=Path))
only_option = click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Take this variant alone; may be repeated. `unseen`: those of programs that fix was not made with.",
)
budget_option = click.option("--budget", default=3600.0, show_default=True, help="Stop after this number of seconds.")
at_once_option = click.option("--at-once", default=4, show_default=True, help="Programs at once on each GPU.")
gpus_option = click.option("--gpus", default="0", show_default=True, help="The GPUs, with commas between.")


def patience_option(seconds: float) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option of how long a program may take."""
    return click.option("--patience", default=seconds, show_default=True, help="Seconds until a program is given up.")


@click.group()
def main() -> None:
    """Plant faults, record the programs, and prove what is mended."""


@main.command("plant")
@out_argument
@click.option("--programs", "folder", required=True, type=click.Path(exists=True, path_type=Path), help="The clones.")
@only_option
@click.option("--jobs", default=8, show_default=True, help="Variants side by side.")
@click.option("--no-data", is_flag=True, help="Make no data.")
def plant_all(out: Path, folder: Path, only: tuple[str, ...], jobs: int, *, no_data: bool) -> None:
    """Copy each program, plant its faults, and make its data; OUT/planted.json says what stands where."""
    began = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    variants = chosen(only)
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda variant: plant(variant, folder, out.resolve(), data=not no_data), variants))
    programs = [Planted(variant, out.resolve()) for variant in EVERY]
    truths = {planted.name: planted.truth for planted in programs if planted.truth_file.exists()}
    write_whole(out / "planted.json", json.dumps(truths, indent=1) + "\n")
    faults = sum(len(variant.faults) for variant in variants if not variant.sound)
    sound = sum(variant.sound for variant in variants)
    seconds = time.perf_counter() - began
    print(f"{len(variants) - sound} programs with {faults} faults, {sound} sound ones, {seconds:.0f} s")


@main.command()
@out_argument
@only_option
@at_once_option
@gpus_option
@budget_option
@patience_option(90.0)
def record(out: Path, only: tuple[str, ...], at_once: int, gpus: str, *, budget: float, patience: float) -> None:
    """Record each program with `pinprof run`: OUT/record/NAME.json.gz, with what it printed in NAME.log."""
    folder = made_folder(out, "record")

    def record_one(planted: Planted, gpu: str, seconds: float) -> None:
        command = planted.place.command(profiled=[*SHORT, "-o", str(folder / f"{planted.name}.json.gz")])
        ended = run(planted.place, command, {"CUDA_VISIBLE_DEVICES": gpu}, seconds, folder / f"{planted.name}.log")
        say_ended(planted, ended)

    in_lanes(undone(out, only, folder, ".json.gz"), record_one, gpus.split(",") * at_once, budget, patience)
    undone_names = [planted.name for planted in undone(out, only, folder, ".json.gz")]
    print(f"{len(chosen(only)) - len(undone_names)} recorded; left: {' '.join(undone_names) or 'none'}")


@main.command()
@out_argument
@only_option
@click.option("--jobs", default=2, show_default=True, help="Recordings side by side.")
def mend(out: Path, only: tuple[str, ...], jobs: int) -> None:
    """Ask `pinprof fix` what it changes; the patches go to OUT/mend, the table to OUT/mend.md.

    It is asked by the recording of a program, or else by what `pretend` noted.
    """
    folder = made_folder(out, "mend")

    def mend_one(variant: Variant) -> tuple[str, Row]:
        planted = Planted(variant, out.resolve())
        trace, noted = (out.resolve() / kind / f"{planted.name}.json{end}" for kind, end in RECORDED)
        seen = None
        if trace.exists():
            row, patch = by_recording(planted, trace, folder / f"{planted.name}.json")
        elif noted.exists():
            row, patch = by_pretence(planted, noted)
            seen = seen_lines(noted)
        else:
            return planted.name, {"error": "not recorded"}
        (folder / f"{planted.name}.patch").write_bytes(patch)
        if "error" not in row:
            row = with_reasons({**row, **judge_patch(planted, patch, seen)})
        return planted.name, row

    with ThreadPoolExecutor(jobs) as pool:
        rows = dict(pool.map(mend_one, chosen(only)))
    write_whole(out / "mend.json", json.dumps(rows, indent=1) + "\n")
    write_whole(out / "mend.md", table_of_mends(rows))
    print(table_of_mends(rows))


@main.command()
@out_argument
@only_option
@at_once_option
@budget_option
@patience_option(200.0)
def pretend(out: Path, only: tuple[str, ...], at_once: int, *, budget: float, patience: float) -> None:
    """Run a few steps of each program with the CPU in the place of a GPU: OUT/pretended/NAME.json, for `mend`."""
    folder = made_folder(out, "pretended")

    def pretend_one(planted: Planted, _gpu: str, seconds: float) -> None:
        say_ended(planted, run_pretending(planted, folder / planted.name, seconds))

    in_lanes(undone(out, only, folder, ".json"), pretend_one, ["cpu"] * at_once, budget, patience)


def run_pretending(planted: Planted, notes: Path, seconds: float) -> Ended:
    """Run a few steps of a program with the CPU in the place of a GPU; what was noted goes to `notes`.json."""
    environment = {
        "EXAM_MODE": "pretend",
        "EXAM_TOP": str(planted.place.repository),
        "EXAM_OUT": str(notes),
        "EXAM_STEPS": PRETENDED_STEPS,
        "EXAM_MARKER": planted.program.marker,
        "EXAM_CALLS_PER_STEP": str(planted.program.calls_per_step * CALLS[planted.program.marker]),
        "CUDA_VISIBLE_DEVICES": "",
    }
    command = [*planted.place.command(), *SMALLER.get(planted.variant.program, ())]
    ended = run(planted.place, command, environment, seconds, notes.parent / f"{notes.name}.log")
    for noted in notes.parent.glob(f"{notes.name}.*.json"):
        noted.replace(notes.parent / f"{notes.name}.json")
    return ended


@main.command()
@out_argument
@only_option
@at_once_option
@budget_option
@patience_option(100.0)
def numbers(out: Path, only: tuple[str, ...], at_once: int, *, budget: float, patience: float) -> None:
    """Compare the parameters of a few steps of each program on the CPU with those after the patch in OUT/mend."""
    folder = made_folder(out, "numbers")

    def patch_of(planted: Planted) -> Path:
        return out.resolve() / "mend" / f"{planted.name}.patch"

    def compare_one(planted: Planted, _gpu: str, _seconds: float) -> None:
        with patched_in_place(planted, patch_of(planted)):
            run_pretending(planted, folder / f"{planted.name}_after", patience)
        run_pretending(planted, folder / f"{planted.name}_before", patience)
        print(f"{planted.name:20} {difference(folder, planted.name)}", flush=True)

    missing = undone(out, only, folder, "_before.json")
    patched = [planted for planted in missing if patch_of(planted).exists() and patch_of(planted).stat().st_size]
    in_lanes(patched, compare_one, ["cpu"] * at_once, budget, patience)


@main.command()
@out_argument
@only_option
@at_once_option
@gpus_option
@budget_option
@patience_option(600.0)
@click.option("--options", "words", default="--minutes 1.5", show_default=True, help="Options for `pinprof try`.")
@click.option("--table", "only_table", is_flag=True, help="Print the table of what OUT has, and run nothing.")
def prove(
    out: Path,
    only: tuple[str, ...],
    at_once: int,
    gpus: str,
    *,
    budget: float,
    patience: float,
    words: str,
    only_table: bool,
) -> None:
    """Let `pinprof try` mend and prove each program; the answers go to OUT/prove, the table to OUT/prove.md.

    Those at once on a GPU disturb each other's times: more than one is only for what is not a time.
    """
    folder = made_folder(out, "prove")

    def prove_one(planted: Planted, gpu: str, seconds: float) -> None:
        answer, trace = folder / f"{planted.name}.json", out.resolve() / "record" / f"{planted.name}.json.gz"
        options = [*words.split(), "--json", str(answer), "--patch", str(answer.with_suffix(".patch"))]
        options += ["--trace", str(trace)] if trace.exists() else ["--step-marker", planted.program.marker]
        command = planted.place.asked("try", [*options, "--force"])
        ended = run(planted.place, command, {"CUDA_VISIBLE_DEVICES": gpu}, seconds, folder / f"{planted.name}.log")
        if not answer.exists() and seconds == patience:
            answer.write_text(json.dumps({"error": ended.last_line or "its time was up", "seconds": ended.seconds}))
        say_ended(planted, ended)

    if not only_table:
        in_lanes(undone(out, only, folder, ".json"), prove_one, gpus.split(",") * at_once, budget, patience)
    answers = {variant: folder / f"{variant.name}.json" for variant in chosen(only)}
    rows = {
        variant.name: proof(Planted(variant, out.resolve()), answer)
        for variant, answer in answers.items()
        if answer.exists()
    }
    write_whole(out / "prove.json", json.dumps(rows, indent=1) + "\n")
    write_whole(out / "prove.md", table_of_proofs(rows))
    print(table_of_proofs(rows))


def proof(planted: Planted, answer: Path) -> Row:
    """Return what `pinprof try` said of a program, and what its patch does to the planted faults."""
    trial: Row = json.loads(answer.read_text())
    if "error" in trial:
        return trial
    patch = answer.with_suffix(".patch")
    return {**judged_part(trial), **judge_patch(planted, patch.read_bytes() if patch.exists() else b"")}


def by_recording(planted: Planted, trace: Path, answer: Path) -> tuple[Row, bytes]:
    """Return what `pinprof fix` refuses by a recording, and its patch."""
    command = [sys.executable, "-m", "pinprof", "fix", str(trace), "--json", str(answer), "--force"]
    ended = run_at(planted.place.folder, command, FIX_SECONDS)
    if ended.returncode:
        return {"error": ended.stderr.decode(errors="replace").strip()[-300:]}, b""
    fix = json.loads(answer.read_text())
    return {"by": "recording", "refused": fix["refused"]}, b"".join(patch["diff"].encode() for patch in fix["patches"])


def by_pretence(planted: Planted, noted: Path) -> tuple[Row, bytes]:
    """Return what fix refuses, and its patch, by what `pretend` noted on a CPU."""
    patches = grafted(noted, planted.place.repository, planted.place.folder.resolve(), Chosen())
    refused = [{"rule": refusal.rule.id, **refusal.place._asdict(), "why": refusal.why} for refusal in patches.refused]
    return {"by": "pretence", "refused": refused}, b"".join(patch.diff for patch in patches.patches)


def made_folder(out: Path, name: str) -> Path:
    """Return a folder of the results."""
    folder = out.resolve() / name
    folder.mkdir(exist_ok=True)
    return folder


def undone(out: Path, only: tuple[str, ...], folder: Path, ending: str) -> list[Planted]:
    """Return the chosen programs without a file in a folder of the results."""
    return [
        Planted(variant, out.resolve()) for variant in chosen(only) if not (folder / (variant.name + ending)).exists()
    ]


def say_ended(planted: Planted, ended: Ended) -> None:
    """Print how a program ended."""
    print(f"{planted.name:20} {ended.seconds:5.1f} s, status {ended.status} {ended.last_line[:80]}", flush=True)


def in_lanes(
    programs: Sequence[Planted],
    work: Callable[[Planted, str, float], None],
    lanes: Sequence[str],
    budget: float,
    patience: float,
) -> None:
    """Work on each program on a GPU that is free, within `budget` seconds in all and `patience` for each.

    `work` gets the program, the GPU, and the seconds that it may take.
    """
    deadline = time.perf_counter() + budget
    free: Queue[str] = Queue()
    for lane in lanes:
        free.put(lane)

    def in_lane(planted: Planted) -> None:
        lane = free.get()
        try:
            seconds_left = deadline - time.perf_counter()
            if seconds_left >= START_LEAST_SECONDS:
                work(planted, lane, min(patience, seconds_left))
        except Exception as problem:  # noqa: BLE001  # one program's trouble is not the others'
            print(f"{planted.name:20} failed: {problem!r}", file=sys.stderr, flush=True)
        finally:
            free.put(lane)

    with ThreadPoolExecutor(len(lanes)) as pool:
        list(pool.map(in_lane, programs))


def run_at(folder: Path, command: list[str], seconds: float) -> "subprocess.CompletedProcess[bytes]":
    """Run a command of pinprof in a folder."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=seconds, check=False)


def chosen(only: tuple[str, ...]) -> list[Variant]:
    """Return the variants of these names, or all that fix was made with."""
    if only == (UNSEEN,):
        return list(UNSEEN_VARIANTS)
    unknown = set(only) - {variant.name for variant in EVERY}
    if unknown:
        raise click.UsageError(f"no variant {', '.join(sorted(unknown))}")
    return [variant for variant in EVERY if variant.name in only] if only else list(VARIANTS)


if __name__ == "__main__":
    main()
