"""Record programs on this machine, each with the truth: its step without a profiler.

Run from the repository root:  PYTHONPATH=. python scripts/record.py KIND [--only NAME]... FOLDER

  traces     the workloads of pinprof, without stacks and with them; truth.json
  pairs      programs before and after a fix (scripts/pairs.py); pairs.json
  ranks      jobs of several ranks before and after a fix, a GPU for each rank if there are enough; pairs.json
  launches   programs bound by launches, and with fewer of them: graphs, compiled, fused; pairs.json
  rules      programs with what a rule is for, slow and mended, without stacks and with them; rules.json
  estimates  programs bound by launches, recorded plainly, with stacks, and with memory: truth for estimates of the
             step, from which scripts/fit_calibration.py makes rows of traces/estimates.json; steps.json

Each side of a program has a process of its own, which times the step and then records it; one runs at a time, so that
timing has quiet. A rank of a job is a process that times both sides in turns. FOLDER keeps what it has of other
programs. `launches` needs torchvision, timm and transformers.
"""

import gc
import gzip
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
import torch
from torch import distributed

from pinprof.capture.window.recording import profile
from pinprof.workloads import WORKLOADS, workload
from scripts.launch_programs import rules, sides
from scripts.launch_programs.models import PROGRAMS, Program, program
from scripts.launch_programs.sides import COMPILED, EAGER, FUSED, GRAPH_MODEL, GRAPH_STEP, LOOPED, REDUCED
from scripts.pair_programs.parts import Step
from scripts.pairs import NAMED_PAIRS, PAIRS, RANK_PAIRS, Pair, Scenario
from scripts.recordings import (
    FailedError,
    Notes,
    Windows,
    in_processes,
    in_words,
    machine_of,
    of_windows,
    record,
    warmed,
    window,
    write_packed,
)

OF_WORKLOADS, OF_PAIRS = Windows(10, 5, 0.3, least_steps=10), Windows(20, 5, 0.3)
OF_LAUNCHES, OF_RULES, OF_ESTIMATES = Windows(12, 8, 0.25), Windows(10, 4, 0.25), Windows(12, 6, 0.25)
WORKLOAD_STEPS = {False: 5, True: 3}  # without and with stacks, which make a trace several times larger
PAIR_STEPS, JOB_STEPS, PROGRAM_STEPS = 6, 4, 2
SIDE_SECONDS, LAUNCHES_SECONDS = 120, 400  # no side may take longer, nor all sides of a program with what is compiled
VERSIONS = ("before", "after")
COMPILING = ("recompiling",)
"""Programs whose steps compile: they are too long to time in windows, and to record with stacks."""
WAYS: dict[str, dict[str, bool]] = {"plain": {}, "stacks": {"stacks": True}, "memory": {"memory": True}}
FEWER_LAUNCHES: dict[str, tuple[str, Scenario]] = {
    FUSED: ("a fused optimizer", {"fused_optimizer": True}),
    GRAPH_STEP: ("the whole step in a CUDA graph", {"cuda_graph": "step"}),
    GRAPH_MODEL: ("forward and backward in CUDA graphs", {"cuda_graph": "model"}),
    COMPILED: ("torch.compile", {}),
    REDUCED: ("torch.compile, mode reduce-overhead", {}),
}
"""Each side in words, and what predicts it; nothing predicts what torch.compile brings."""


class Order(NamedTuple):
    """What is asked of a recording."""

    out: Path
    device: torch.device
    scale: float
    ranks: int
    compiles: bool


class Kind(NamedTuple):
    """What can be recorded: the file of notes with the key of its entries, the programs, and what takes one of them.

    It yields entries with their names.
    """

    file: str
    key: str
    names: Sequence[str]
    take: Callable[[str, Order], Iterator[tuple[str, object]]]


def take_workload(name: str, order: Order) -> Iterator[tuple[str, object]]:
    """Time a workload, and record it without stacks and with them, each in a process of its own."""
    (means,) = in_processes([partial(_time_workload, name, order)], SIDE_SECONDS)
    files: dict[str, int] = {}
    for with_stack, steps in WORKLOAD_STEPS.items():
        path = order.out / f"{name}{'.stack' * with_stack}.json.gz"
        in_processes([partial(_record_workload, name, path, order, with_stack)], SIDE_SECONDS)
        files[path.name] = steps
    yield name, {"name": name, "plain_ms": of_windows(means), "files": files}


def _time_workload(name: str, order: Order) -> list[float]:
    with workload(name).build(order.device, order.scale) as step:
        warmed(step, order.device, OF_WORKLOADS.warm_up_steps)
        return OF_WORKLOADS.measure(step, order.device)


def _record_workload(name: str, path: Path, order: Order, with_stack: bool) -> None:
    with (
        workload(name).build(order.device, order.scale) as step,
        profile(path, steps=WORKLOAD_STEPS[with_stack], with_stack=with_stack, force=True) as recording,
    ):
        while not recording.done:
            step()
            recording.step()
    write_packed(gzip.decompress(path.read_bytes()), path)


def take_pair(name: str, order: Order) -> Iterator[tuple[str, object]]:
    """Time and record both sides of a pair."""
    known = NAMED_PAIRS[name]
    times = [in_processes([partial(_side_of_pair, known, version, order)], SIDE_SECONDS)[0] for version in VERSIONS]
    yield _entry_of_pair(known, times)


def _side_of_pair(known: Pair, version: str, order: Order) -> list[float]:
    torch.manual_seed(0)
    step = warmed(known.build(order.device, version == "after", order.scale), order.device, OF_PAIRS.warm_up_steps)
    means = OF_PAIRS.measure(step, order.device)
    record(step, order.device, order.out / f"{known.name}.{version}.json.gz", PAIR_STEPS)
    return means


def _entry_of_pair(known: Pair, times: Sequence[list[float]]) -> tuple[str, dict[str, object]]:
    before, after = map(of_windows, times)
    facts = {"scenario": known.scenario, "looked_at": known.looked_at}
    return known.name, {**facts, "before_ms": before, "after_ms": after}


def take_ranks(name: str, order: Order) -> Iterator[tuple[str, object]]:
    """Time both sides of a job in turns on all ranks, then record them."""
    known = NAMED_PAIRS[name]
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{folder}/store"
        ranks = [partial(_be_rank, rank, meeting, known, order) for rank in range(order.ranks)]
        times = in_processes(ranks, SIDE_SECONDS)[0]
    label, entry = _entry_of_pair(known, times)
    share = {"shared_gpu": True} if order.device.type == "cuda" and torch.cuda.device_count() < order.ranks else {}
    yield label, {**entry, "late": known.late, "rule": known.rule, **share}


def _be_rank(rank: int, meeting: str, known: Pair, order: Order) -> list[list[float]]:
    """Be one rank: time the step of both sides in turns, begun on all ranks at once, then record each side."""
    device = _device_of(rank, order)
    patience = timedelta(seconds=SIDE_SECONDS)
    distributed.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        init_method=meeting,
        rank=rank,
        world_size=order.ranks,
        timeout=patience,
    )
    steps = [_built_side(known, fixed, device, order.scale) for fixed in (False, True)]

    def together(step: Step, count: int) -> float:
        distributed.barrier()
        return window(step, device, 0.0, count)

    def count_of(step: Step) -> int:
        """Return the steps of a window, the same on all ranks."""
        took = torch.tensor([together(step, OF_PAIRS.warm_up_steps)], device=device)
        distributed.all_reduce(took, distributed.ReduceOp.MAX)
        return max(int(OF_PAIRS.least_s * 1000 / took.item()), 1)

    counts = [count_of(step) for step in steps]
    turns = [[together(*side) for side in zip(steps, counts, strict=True)] for _ in range(OF_PAIRS.number)]
    for step, version in zip(steps, VERSIONS, strict=True):
        record(step, device, order.out / f"{known.name}.rank{rank}.{version}.json.gz", JOB_STEPS)
        distributed.barrier()
    distributed.destroy_process_group()
    return [list(means) for means in zip(*turns, strict=True)]


def _device_of(rank: int, order: Order) -> torch.device:
    """Return the rank's GPU, and choose it; ranks share GPUs if there are more of them.

    NCCL refuses ranks of one host on one GPU, so that each gets a host of its own: then they meet over sockets.
    """
    if order.device.type != "cuda":
        return order.device
    count = torch.cuda.device_count()
    if count < order.ranks:
        os.environ["NCCL_HOSTID"] = f"host of rank {rank}"
    torch.cuda.set_device(rank % count)
    return torch.device("cuda", rank % count)


def _built_side(known: Pair, fixed: bool, device: torch.device, scale: float) -> Step:
    torch.manual_seed(0)
    return warmed(known.build(device, fixed, scale), device, OF_PAIRS.warm_up_steps)


def take_launches(name: str, order: Order) -> Iterator[tuple[str, object]]:
    """Time all sides of a program in turns in one process, since a new one has another pace; record it as written."""
    known = program(name)
    after = [FUSED, *((GRAPH_STEP, GRAPH_MODEL) if order.device.type == "cuda" else ())]
    after += [COMPILED, REDUCED] if order.compiles and known.compiled else []
    after += [LOOPED] if known.looped else []
    ((times, failed),) = in_processes([partial(_sides_in_turns, known, (EAGER, *after), order)], LAUNCHES_SECONDS)
    compared = [(EAGER, side) for side in after if side != LOOPED] + [(LOOPED, FUSED)] * known.looped
    for before, side in compared:
        if before in times and side in times:
            words, scenario = FEWER_LAUNCHES[side]
            trace = _name_of(known, before)
            windows = {"before_ms": of_windows(times[before]), "after_ms": of_windows(times[side])}
            facts = {"what": f"{known.what}: {words}", "trace": trace, "scenario": scenario}
            yield f"{trace}.{side}", {**facts, "looked_at": known.looked_at, **windows}
    if failed:
        raise FailedError("; ".join(f"{side}: {why}" for side, why in failed.items()))


def _sides_in_turns(
    known: Program, names: Sequence[str], order: Order
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Return the mean steps in ms of windows of each side, and why a side failed; record them in the end."""
    times, failed = _timed_in_turns(known, names, order.device)
    for side in (EAGER, LOOPED):
        torch.compiler.reset()
        gc.collect()
        if order.device.type == "cuda":
            torch.cuda.empty_cache()
        if side in times:
            path = order.out / f"{_name_of(known, side)}.before.json.gz"
            record(_built(known, side, order.device), order.device, path, known.steps)
    return times, failed


def _timed_in_turns(
    known: Program, names: Sequence[str], device: torch.device
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Return the windows of each side, one after the other and again: the host's pace changes."""
    steps, failed = dict[str, Step](), dict[str, str]()
    for side in names:
        try:
            steps[side] = _built(known, side, device)
        except Exception as error:  # noqa: BLE001, PERF203  other people's programs may fail in any way
            failed[side] = f"{type(error).__name__}: {error}".partition("\n")[0]
    times: dict[str, list[float]] = {side: [] for side in steps}
    for _ in range(OF_LAUNCHES.number):
        for side, step in steps.items():
            times[side].append(window(step, device, OF_LAUNCHES.least_s))
    return times, failed


def _name_of(known: Program, side: str) -> str:
    return known.name if side == EAGER else f"{known.name}_{side}"


def _built(known: Program, side: str, device: torch.device) -> Step:
    torch.manual_seed(0)
    return warmed(sides.build(known, side, device), device, OF_LAUNCHES.warm_up_steps)


def take_rule(name: str, order: Order) -> Iterator[tuple[str, object]]:
    """Time and record a program of a rule, slow and mended."""
    for mended in (False, True):
        (means,) = in_processes([partial(_side_of_rule, name, mended, order)], SIDE_SECONDS)
        yield _label(name, mended), of_windows(means) if means else None


def _label(name: str, mended: bool) -> str:
    return f"{name}.mended" if mended else name


def _side_of_rule(name: str, mended: bool, order: Order) -> list[float]:
    torch.manual_seed(0)
    step = warmed(rules.PROGRAMS[name](order.device, mended), order.device, OF_RULES.warm_up_steps)
    is_compiling = name in COMPILING and not mended
    means = [] if is_compiling else OF_RULES.measure(step, order.device)
    for ending, stacks in (("", False), *([] if is_compiling else [(".stack", True)])):
        path = order.out / f"{_label(name, mended)}{ending}.json.gz"
        record(step, order.device, path, PROGRAM_STEPS, stacks=stacks)
    return means


def take_estimate(name: str, order: Order) -> Iterator[tuple[str, object]]:
    """Time a program, and record it in each way."""
    (means,) = in_processes([partial(_in_all_ways, name, order)], SIDE_SECONDS)
    yield name, of_windows(means)


def _in_all_ways(name: str, order: Order) -> list[float]:
    step = _built(program(name), EAGER, order.device)
    means = OF_ESTIMATES.measure(step, order.device)
    for way, options in WAYS.items():
        record(step, order.device, order.out / f"{name}.{way}.json.gz", PROGRAM_STEPS, **options)
    return means


NAMES_OF_PROGRAMS = [known.name for known in PROGRAMS]
KINDS = {
    "traces": Kind("truth.json", "workloads", [known.name for known in WORKLOADS], take_workload),
    "pairs": Kind("pairs.json", "pairs", [known.name for known in PAIRS], take_pair),
    "ranks": Kind("pairs.json", "pairs", [known.name for known in RANK_PAIRS], take_ranks),
    "launches": Kind("pairs.json", "pairs", NAMES_OF_PROGRAMS, take_launches),
    "rules": Kind("rules.json", "programs", list(rules.PROGRAMS), take_rule),
    "estimates": Kind("steps.json", "programs", NAMES_OF_PROGRAMS, take_estimate),
}


@click.command(help=__doc__)
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("out", metavar="FOLDER", type=click.Path(file_okay=False, path_type=Path))
@click.option("--only", multiple=True, metavar="NAME", help="Take this one alone; may be repeated.")
@click.option("--device", default="cuda", show_default=True, help="cpu: to rehearse without a GPU.")
@click.option("--scale", default=1.0, show_default=True, help="All sizes times this.")
@click.option("--ranks", default=2, show_default=True, help="Of each job.")
@click.option("--compile/--no-compile", "compiles", default=True, help="Measure torch.compile too.")
@click.option("--budget", default=500.0, show_default=True, help="Start nothing after these seconds.")
def main(kind: str, out: Path, only: tuple[str, ...], device: str, budget: float, **asked: float) -> None:
    """Record programs of a kind."""
    row = KINDS[kind]
    if unknown := [name for name in only if name not in row.names]:
        raise click.BadParameter(f"{', '.join(unknown)}; there are: {', '.join(row.names)}", param_hint="--only")
    began, failed = time.perf_counter(), list[str]()
    notes = Notes(out / row.file, row.key)
    (machine,) = in_processes([partial(machine_of, device)], SIDE_SECONDS)
    words = [out.name if word == str(out) else word for word in sys.argv[1:]]
    command = " ".join(["PYTHONPATH=. python scripts/record.py", *words])
    ranks = {"ranks": asked["ranks"]} if kind == "ranks" else {}
    notes.save(machine={**machine, **ranks, "scale": asked["scale"]}, command=command)
    order = Order(out, torch.device(device), asked["scale"], int(asked["ranks"]), bool(asked["compiles"]))
    for name in only or row.names:
        start = time.perf_counter()
        if start > began + budget:
            print(f"{name}: no time left", flush=True)
            continue
        try:
            for label, entry in row.take(name, order):
                notes.keep(label, entry)
                print(f"{label:28} {steps_in_words(entry)} ms", flush=True)
        except FailedError as error:
            failed.append(name)
            print(f"{name}: FAILED: {error}", flush=True)
        print(f"{name:28} took {time.perf_counter() - start:.1f} s", flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def steps_in_words(entry: object) -> str:
    """Return what an entry says of steps: one, or that before and that after."""
    if not isinstance(entry, dict):
        return "-"
    times = [entry] if "median" in entry else [entry[key] for key in entry if key.endswith("_ms")]
    return " -> ".join(map(in_words, times))


if __name__ == "__main__":
    main()
