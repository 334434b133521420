"""Times `pinprof report` on big traces, without and with its page, as ratios to a JSON parser on the same files.

Run from the repository root:  PYTHONPATH=. python scripts/bench_report.py --megabytes 69 --megabytes 274

The traces are a recording, repeated in time as `bench_reader.py make` does, in a temporary folder. Each command has a
process of its own, imports counted; they take turns within one run, so that a noisy machine slows all of them alike.
The peer makes plain Python objects of the file: orjson where it is installed, else json.
"""

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from scripts.bench_reader import make, resident

ROOT = Path(__file__).parents[1]
RECORDING = ROOT / "traces" / "pairs" / "policy_checks.before.json.gz"
"""Of the bundled recordings the one with most calls: many waits of a few lines."""
SIZES = (69, 274)
"""Megabytes of the traces, unpacked."""
PEER = "orjson" if importlib.util.find_spec("orjson") else "json"
SAMPLE_S = 0.01
"""How often memory is looked at."""


class Cost(NamedTuple):
    """What a command took."""

    seconds: float
    """Of the CPU."""
    peak: int
    """Peak memory of its processes together, in bytes."""


@click.command()
@click.option("--megabytes", multiple=True, default=SIZES, type=click.IntRange(1), help="Decompressed size of a trace.")
@click.option("--source", type=click.Path(exists=True, path_type=Path), default=RECORDING, help="Recording to repeat.")
@click.option("--rounds", default=1, show_default=True, help="Runs of each command on each trace.")
def main(megabytes: Sequence[int], source: Path, rounds: int) -> None:
    """Print a Markdown table of medians: seconds, peak memory, and both in relation to the peer's."""
    print(f"| trace, MB | command | CPU seconds | of {PEER}'s | peak RSS, MB | of {PEER}'s |")
    print("|---:|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for size in megabytes:
            trace = Path(folder) / f"{size}.json"
            make.main([f"{trace}", "--megabytes", f"{size}", "--source", f"{source}"], standalone_mode=False)
            _compare(trace, size, rounds)
            trace.unlink()


def _compare(trace: Path, size: int, rounds: int) -> None:
    load = f"import {PEER}, pathlib, sys; {PEER}.loads(pathlib.Path(sys.argv[1]).read_bytes())"
    report = (sys.executable, "-m", "pinprof", "report", f"{trace}")
    commands = {
        PEER: (sys.executable, "-c", load, f"{trace}"),
        "report": report,
        "report and page": (*report, "--html", f"{trace.with_suffix('.html')}", "--force"),
    }
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            costs[name].append(_cost(command))
    medians = {name: _median(of_command) for name, of_command in costs.items()}
    peer = medians[PEER]
    for name, cost in medians.items():
        print(
            f"| {size} | {name} | {cost.seconds:.2f} | {cost.seconds / peer.seconds:.2f} "
            f"| {cost.peak / 1e6:.0f} | {cost.peak / peer.peak:.2f} |",
            flush=True,
        )


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(statistics.median(cost.seconds for cost in costs), int(statistics.median(cost.peak for cost in costs)))


def _cost(command: Sequence[str]) -> Cost:
    """Run a command, which must succeed, and return what it took."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | {"PINPROF_NO_PROGRESS": "1"})
    peak = [0]
    watcher = threading.Thread(target=_watch, args=(process, peak))
    watcher.start()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    watcher.join()
    if process.returncode:
        raise click.ClickException(f"{' '.join(command)} ended with {process.returncode}")
    return Cost(usage.ru_utime + usage.ru_stime, peak[0])


def _watch(process: "subprocess.Popen[bytes]", peak: list[int]) -> None:
    while process.returncode is None:
        peak[0] = max(peak[0], sum(resident(process.pid)))
        time.sleep(SAMPLE_S)


if __name__ == "__main__":
    main()
