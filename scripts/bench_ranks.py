"""Times the report on a job of many ranks: seconds, memory, and how both go with the number of processes.

Run from the repository root:  PYTHONPATH=. python scripts/bench_ranks.py make FOLDER --ranks 256
                               PYTHONPATH=. python scripts/bench_ranks.py bench FOLDER --jobs 1 --jobs 2

The ranks are those of a recorded job of two, with other clocks and ids: the last one is the rank that slept 20 ms in
each step, all others the one that waited for it. So the report has to name the last one; if not, the benchmark fails.
"""

import json
import multiprocessing
import re
import sys
import tempfile
from pathlib import Path

import click
from isal import igzip

from pinprof.ground.processes import available_cores
from scripts.bench_reader import OP_PROCESS, Cost, cost_of
from scripts.bench_reader import make as repeat

ROOT = Path(__file__).parents[1]
WAITING, SLEEPING = (ROOT / "traces" / "ranks" / f"sleeping_rank.rank{rank}.before.json.gz" for rank in (0, 1))
WHOLE_US = re.compile(rb'(?<="ts": )\d+(?=\.)')
SHOWN_RANKS = 30
"""More ranks of a group torch does not write."""


@click.group()
def main() -> None:
    """Make the traces of a job of many ranks and time the report on it."""


@main.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--ranks", default=256, show_default=True, type=click.IntRange(2))
@click.option("--megabytes", type=click.IntRange(1), help="Decompressed size of each trace  [as recorded, 5].")
def make(folder: Path, ranks: int, megabytes: int | None) -> None:
    """Write the traces of a job of many ranks into FOLDER."""
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as other, multiprocessing.get_context("spawn").Pool() as pool:
        sources = [_repeated(path, megabytes, Path(other)) if megabytes else path for path in (WAITING, SLEEPING)]
        tasks = [(sources[rank == ranks - 1], folder / f"rank{rank}.json.gz", rank, ranks) for rank in range(ranks)]
        sizes = pool.starmap(_write_rank, tasks, chunksize=1)
    (folder / "sizes.txt").write_text(f"{sum(sizes)}\n")
    packed = sum(path.stat().st_size for path in folder.glob("*.gz"))
    print(f"{folder}: {ranks} ranks, {sum(sizes) / 1e9:.2f} GB, packed {packed / 1e9:.3f} GB")


def _repeated(path: Path, megabytes: int, folder: Path) -> Path:
    """Return a recording that is repeated in time until it is of this size."""
    out = folder / path.name
    repeat.main([f"{out}", "--source", f"{path}", "--megabytes", f"{megabytes}"], standalone_mode=False)
    return out


def _write_rank(source: Path, out: Path, rank: int, ranks: int) -> int:
    """Write a recording as that of a rank, and return its size: other clock, process, number and group."""
    data = igzip.decompress(source.read_bytes())
    process = OP_PROCESS.search(data)
    assert process, "a trace has ops"
    shift = rank * 7919 % 1000
    data = WHOLE_US.sub(lambda match: b"%d" % (int(match[0]) + shift), data)
    data = re.sub(rb'(?<="[pt]id": )%b\b' % process[1], b"%d" % (int(process[1]) + rank), data)
    data = re.sub(rb'"rank": \d+, "world_size": \d+', b'"rank": %d, "world_size": %d' % (rank, ranks), data, count=1)
    group = ", ".join([*map(str, range(min(ranks, SHOWN_RANKS))), *["..."] * (ranks > SHOWN_RANKS)]).encode()
    data = data.replace(b'"Process Group Ranks": "[0, 1]"', b'"Process Group Ranks": "[%b]"' % group)
    out.write_bytes(igzip.compress(data, 2))
    return len(data)


@main.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--jobs", multiple=True, type=click.IntRange(1), help="Processes, several in turn  [1, 2, 4, ... cores].")
@click.option("--rounds", default=1, show_default=True, help="Runs with each number; the fastest counts.")
def bench(folder: Path, jobs: tuple[int, ...], rounds: int) -> None:
    """Print a Markdown table: seconds, memory and cost per GB of `pinprof report FOLDER` by number of processes."""
    size = int((folder / "sizes.txt").read_text()) / 1e9
    packed = sum(path.stat().st_size for path in folder.glob("*.gz")) / 1e9
    ranks = len(list(folder.glob("*.gz")))
    cores = available_cores()
    print(f"{ranks} ranks, {size:.2f} GB, packed {packed:.3f} GB; {cores} cores\n")
    print("| processes | seconds | times as fast | CPU s per GB | per packed GB | parent, MB | child, MB | all, MB |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    first = None
    for count in jobs or [*(2**power for power in range(10) if 2**power < cores), cores]:
        cost = min((_report(folder, count, ranks - 1) for _ in range(rounds)), key=lambda cost: cost.seconds)
        first = first or cost.seconds
        print(
            f"| {count} | {cost.seconds:.1f} | {first / cost.seconds:.1f} "
            f"| {cost.cpu_seconds / size:.1f} | {cost.cpu_seconds / packed:.0f} "
            f"| {cost.parent / 1e6:.0f} | {cost.child / 1e6:.0f} | {cost.together / 1e6:.0f} |",
            flush=True,
        )


def _report(folder: Path, jobs: int, slowest: int) -> Cost:
    with tempfile.TemporaryDirectory() as other:
        out = Path(other) / "job.json"
        command = [sys.executable, "-m", "pinprof", "report", f"{folder}", "--json", f"{out}", "--jobs", f"{jobs}"]
        cost = cost_of(command)
        ranks = json.loads(out.read_text())["ranks"]
    if (ranks["slowest_rank"], len(ranks["rows"])) != (slowest, slowest + 1):
        sys.exit(f"the report on {len(ranks['rows'])} ranks names rank {ranks['slowest_rank']}, which is {slowest}")
    return cost


if __name__ == "__main__":
    main()
