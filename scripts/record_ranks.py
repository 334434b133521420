"""Record jobs of several ranks on this machine, a GPU for each rank, before and after a fix; time both unprofiled.

Run from the repository root:  PYTHONPATH=. python scripts/record_ranks.py OUT_DIR [--only NAME]...

Each side has processes of its own, which time the step first and record it then.
"""

import multiprocessing
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import click
import torch
from torch import distributed

from scripts.pair_programs import of_ranks
from scripts.pair_programs.of_ranks import RankBuild
from scripts.pair_programs.parts import Step
from scripts.pairs import NO_WAITS, PIN_AND_GO_ON, Scenario
from scripts.record_pairs import LEAST_SECONDS, PLAIN_WINDOWS, SIDES, WARM_UP_STEPS
from scripts.recordings import (
    Alone,
    Notes,
    device_option,
    end_with,
    in_words,
    machine_of,
    of_windows,
    only_option,
    out_argument,
    record,
    scale_option,
    warmed,
    window,
)

SIDE_SECONDS = 120


class RankPair(NamedTuple):
    """A job and the same with a fix; the fix of a sleep has no scenario.

    `looked_at`: the prediction was developed with it.
    """

    name: str
    build: RankBuild
    scenario: Scenario | None
    looked_at: bool = False


PAIRS = (
    RankPair("logging_rank", of_ranks.logging_rank, NO_WAITS),
    RankPair("pageable_rank", of_ranks.pageable_rank, PIN_AND_GO_ON, looked_at=True),
    RankPair("pageable_ranks", of_ranks.pageable_ranks, PIN_AND_GO_ON),
    RankPair("averaged_loss", of_ranks.averaged_loss, NO_WAITS),
    RankPair("timed_parts_ranks", of_ranks.timed_parts, NO_WAITS),
    RankPair("sleeping_rank", of_ranks.sleeping_rank, None),
)


@click.command()
@out_argument
@only_option
@click.option("--ranks", default=2, show_default=True)
@device_option
@scale_option
def main(out: Path, only: tuple[str, ...], ranks: int, device: str, scale: float) -> None:
    """Record the jobs into OUT, with pairs.json."""
    (out / "pairs.json").unlink(missing_ok=True)
    notes = Notes(out / "pairs.json", "pairs")
    machine = Alone("fork", SIDE_SECONDS).run(machine_of, device)[1]
    command = " ".join(["PYTHONPATH=. python scripts/record_ranks.py", out.name, *sys.argv[2:]])
    notes.save(machine={**machine, "ranks": ranks, "scale": scale}, command=command)
    failed = []
    for pair in (pair for pair in PAIRS if not only or pair.name in only):
        began = time.perf_counter()
        windows = {f"{side}_ms": job(Side(out, pair.name, side, ranks, device, scale)) for side in SIDES}
        times = {name: of_windows(means) for name, means in windows.items() if means}
        if len(times) == len(SIDES):
            notes.keep(pair.name, {"scenario": pair.scenario, "looked_at": pair.looked_at, **times})
        else:
            failed.append(pair.name)
        medians = " -> ".join(in_words(times[name]) if name in times else "FAILED" for name in windows)
        print(f"{pair.name:20} {time.perf_counter() - began:5.1f} s  {medians} ms", flush=True)
    end_with(failed)


class Side(NamedTuple):
    """What is run on all ranks."""

    out: Path
    name: str
    side: str
    ranks: int
    device: str
    scale: float


def job(run: Side) -> list[float]:
    """Run one side on all ranks; return the plain windows in ms, none if a rank failed."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{folder}/store"
        processes = [context.Process(target=run_rank, args=(rank, sender, meeting, run)) for rank in range(run.ranks)]
        for process in processes:
            process.start()
        deadline = time.monotonic() + SIDE_SECONDS
        for process in processes:
            process.join(max(deadline - time.monotonic(), 0.0))
        alive = [process for process in processes if process.is_alive()]
        for process in alive:
            process.kill()
            process.join()
    if any(process.exitcode for process in processes):
        return []
    windows: list[float] = receiver.recv()
    return windows


def run_rank(rank: int, sender: Any, meeting: str, run: Side) -> None:
    """Be one rank: time the step, then record it."""
    device = torch.device(run.device, rank) if run.device == "cuda" else torch.device(run.device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(
        backend, init_method=meeting, rank=rank, world_size=run.ranks, timeout=timedelta(seconds=SIDE_SECONDS)
    )
    torch.manual_seed(0)
    pair = next(known for known in PAIRS if known.name == run.name)
    step = warmed(pair.build(device, run.side == "after", run.scale), device, WARM_UP_STEPS)
    count = steps_per_window(step, device)
    windows = [together(step, device, count) for _ in range(PLAIN_WINDOWS)]
    record(step, device, run.out / f"{run.name}.rank{rank}.{run.side}.json.gz")
    if rank == 0:
        sender.send(windows)
    distributed.barrier()
    distributed.destroy_process_group()


def steps_per_window(step: Step, device: torch.device) -> int:
    """Return how many steps make a window: the same on all ranks."""
    took = torch.tensor([together(step, device, WARM_UP_STEPS)], device=device)
    distributed.all_reduce(took, distributed.ReduceOp.MAX)
    return max(int(LEAST_SECONDS * 1000 / took.item()), 1)


def together(step: Step, device: torch.device, count: int) -> float:
    """Run this number of steps, begun on all ranks at once; return their mean in milliseconds."""
    distributed.barrier()
    return window(step, device, 0.0, count)


if __name__ == "__main__":
    main()
