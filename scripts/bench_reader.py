"""Times the reading of big traces, by pinprof, into HTA, by HTA itself and by `json.load`; and whole reports on them.

Run from the repository root:  PYTHONPATH=. python scripts/bench_reader.py bench FILE...
                               PYTHONPATH=. python scripts/bench_reader.py report --megabytes 274 --megabytes 1100

The big traces are real ones, repeated in time with fresh ids: `make OUT --megabytes 274`. Each reading, and each
command, has a process of its own; they take turns within one run, so that a noisy machine slows all of them alike.
`report` takes four kinds of recordings, and counts imports, too; its peer makes plain Python objects of the file:
orjson where it is installed, else json.
"""

import gzip
import importlib.util
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout, suppress
from itertools import cycle, product
from mmap import PAGESIZE
from pathlib import Path
from typing import NamedTuple

import click

from pinprof.ground.processes import children_of

ROOT = Path(__file__).parents[1]
SOURCES = ("small_kernels.stack", "loader_pinned", "small_kernels")
"""Recordings that are repeated in turn: small kernels with and without Python functions, and copies with syncs."""

NUMBER = re.compile(
    rb'(?P<ts>(?<="ts": )\d+)(?=\.)'
    rb"|(?P<step>(?<=ProfilerStep#)\d+)"
    rb'|(?:(?<="id": )|(?<="correlation": )|(?<="External id": )|(?<="Ev Idx": )|(?<="Python id": )'
    rb'|(?<="Python parent id": )|(?<="Sequence number": )|(?<="wait_on_cuda_event_record_corr_id": ))\d+'
)
"""What must differ from repeat to repeat: whole microseconds, numbers of steps, ids."""
OP_PROCESS = re.compile(rb'"cat": "cpu_op".*?"pid": (\d+)', re.DOTALL)
EVENTS = b'"traceEvents": [\n'
ONCE = (b'"ph": "M"', b'"ph": "i"', b'"cat": "Trace"')
"""Events that a trace holds once: names of threads, the span and the window of the recording."""
LAUNCHES, WORK = (b'"cat": "cuda_',), (b'"cat": "kernel"', b'"cat": "gpu_mem')
"""Categories of calls, and of what they launch."""
CORRELATION = re.compile(rb'"correlation": (\d+)')
PAUSE_US = 1000
SAMPLE_S = 0.01
"""How often memory is looked at."""
RSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes: the unit in which the system counts the peak of a process that has ended."""
KINDS = {
    "many small kernels": ROOT / "traces" / "launches" / "mobilenet.before.json.gz",
    "with Python stacks": ROOT / "traces" / "mask_loss.stack.json.gz",
    "many waits": ROOT / "traces" / "pairs" / "policy_checks.before.json.gz",
    "rank with collectives": ROOT / "traces" / "ranks" / "timed_parts_ranks.rank0.before.json.gz",
}
"""Recordings on which reports are timed: what takes longest differs from one to the next."""
PEER = "orjson" if importlib.util.find_spec("orjson") else "json"


class Part(NamedTuple):
    """A recording, cut where its numbers are."""

    head: bytes
    once: list[bytes]
    pieces: list[bytes]
    """Texts between the numbers."""
    numbers: list[tuple[str, int]]
    begin_us: int
    length_us: int


class Cost(NamedTuple):
    """What a command took; memory in bytes, at its peak."""

    seconds: float
    cpu_seconds: float
    parent: int
    """Memory of the process that was started."""
    child: int
    """Memory of the largest of those that it starts."""
    together: int
    output: str


@click.group()
def main() -> None:
    """Make big traces and time their reading."""


@main.command()
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--megabytes", default=274, show_default=True, type=click.IntRange(1), help="Decompressed size.")
@click.option("--source", multiple=True, type=click.Path(exists=True, path_type=Path), help="Recordings to repeat.")
def make(out: Path, megabytes: int, source: tuple[Path, ...]) -> None:
    """Write a big trace to OUT, compressed if the name ends in .gz."""
    paths = source or tuple(ROOT / "traces" / f"{name}.json.gz" for name in SOURCES)
    documents = [gzip.decompress(path.read_bytes()) for path in paths]
    first = _process(documents[0])
    parts = [_part(_as_process(document, first)) for document in documents]
    size = events = 0
    with gzip.open(out, "wb", compresslevel=6) if out.suffix == ".gz" else out.open("wb") as file:
        for block in _document(parts, megabytes * 1_000_000):
            size += file.write(block)
            events += block.count(b'"ph": ')
    click.echo(f"{out}: {size / 1e6:.0f} MB decompressed, {events} events")


def _process(document: bytes) -> bytes:
    """Return the id of the process that ran the first op."""
    match = OP_PROCESS.search(document)
    return match[1] if match else b"0"


def _as_process(document: bytes, process: bytes) -> bytes:
    """Return a trace as one of another process: one file with several would not be a trace that anybody has."""
    own = _process(document)
    return re.sub(rb'(?<="[pt]id": )%b\b' % own, process, document)


def _part(document: bytes) -> Part:
    head, _, body = document.partition(EVENTS)
    events = body[: body.rindex(b"\n  ]")].split(b"\n  },\n")
    events[-1] = events[-1].removesuffix(b"\n  }")
    repeated = _launched([event for event in events if not any(mark in event for mark in ONCE)])
    once = [event for event in events if any(mark in event for mark in ONCE)]
    text = b"\n  },\n".join(repeated) + b"\n  }"
    numbers = [(match.lastgroup or "id", int(match[0])) for match in NUMBER.finditer(text)]
    pieces = re.split(NUMBER.pattern.replace(b"?P<ts>", b"?:").replace(b"?P<step>", b"?:"), text)
    times = [number for kind, number in numbers if kind == "ts"]
    return Part(head, once, pieces, numbers, min(times), max(times) - min(times) + PAUSE_US)


def _launched(events: list[bytes]) -> list[bytes]:
    """Return events without the work that was queued before the recording: later it would look like lost launches."""
    launches = {match[1] for event in events if _is_of(LAUNCHES, event) and (match := CORRELATION.search(event))}
    return [
        event
        for event in events
        if not (_is_of(WORK, event) and (match := CORRELATION.search(event))) or match[1] in launches
    ]


def _is_of(categories: tuple[bytes, ...], event: bytes) -> bool:
    return any(category in event for category in categories)


def _document(parts: list[Part], size: int) -> Iterator[bytes]:
    yield parts[0].head + EVENTS
    size -= len(parts[0].head) + sum(len(event) + 6 for event in parts[0].once)
    now_us, shift = parts[0].begin_us, {"id": 0, "step": 0}
    for part in cycle(parts):
        shift["ts"] = now_us - part.begin_us
        shift["step"] -= min((number for of, number in part.numbers if of == "step"), default=0)
        text = [b""] * (2 * len(part.numbers) + 1)
        text[::2] = part.pieces
        text[1::2] = [b"%d" % (number + shift[kind]) for kind, number in part.numbers]
        block = b"".join(text) + b",\n"
        yield block
        size -= len(block)
        now_us += part.length_us
        for kind in ("id", "step"):
            shift[kind] += max((number for of, number in part.numbers if of == kind), default=-1) + 1
        if size <= 0:
            break
    yield b"\n  },\n".join(parts[0].once) + b'\n  }\n  ],\n  "traceName": "big.json"\n}\n'


READERS = {
    "pinprof": ("from pinprof.trace import read_trace", "read_trace(path)"),
    # as far as a TraceAnalysis, further than HTA's own below, which neither aligns ranks nor drops steps
    "pinprof.hta": ("import pinprof, pinprof.hta.analysis", "pinprof.hta.trace_analysis({0: path})"),
    "HolisticTraceAnalysis": (
        "from hta.common.trace import Trace",
        "Trace(trace_files={0: path}, trace_dir='').parse_traces(use_multiprocessing=False)",
    ),
    "json.load": ("import gzip, json", "json.load((gzip.open if path.endswith('.gz') else open)(path, 'rb'))"),
}
"""What a reader imports beforehand, and the code that reads the file of this `path`."""
TIMED = "import sys, time\npath = sys.argv[1]\n{}\nbegin = time.perf_counter()\n{}\nprint(time.perf_counter() - begin)"


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option("--rounds", default=3, show_default=True, help="Readings of each file by each reader.")
@click.option("--only", multiple=True, type=click.Choice(list(READERS)), help="Time these readers alone.")
def bench(files: tuple[str, ...], rounds: int, only: tuple[str, ...]) -> None:
    """Print a Markdown table of medians: seconds, ratio to HolisticTraceAnalysis, peak memory per decompressed byte."""
    readers = only or tuple(READERS)
    print("| file | reader | seconds | times as fast as HTA | peak RSS, MB | of decompressed size |")
    print("|---|---|---:|---:|---:|---:|")
    for file in files:
        size = _decompressed_size(file)
        measured: dict[str, list[tuple[float, int]]] = {reader: [] for reader in readers}
        for _ in range(rounds):
            for reader in readers:
                measured[reader].append(_measure(reader, file))
        seconds = {reader: statistics.median(time for time, _ in runs) for reader, runs in measured.items()}
        theirs = seconds.get("HolisticTraceAnalysis")
        for reader, runs in measured.items():
            peak = statistics.median(memory for _, memory in runs)
            ratio = f"{theirs / seconds[reader]:.1f}" if theirs else ""
            print(
                f"| {Path(file).name} ({size / 1e6:.0f} MB) | {reader} | {seconds[reader]:.2f} | {ratio} "
                f"| {peak / 1e6:.0f} | {peak / size:.2f} |",
                flush=True,
            )


def _decompressed_size(file: str) -> int:
    if not file.endswith(".gz"):
        return Path(file).stat().st_size
    size = 0
    with gzip.open(file) as stream:
        while block := stream.read(1 << 24):
            size += len(block)
    return size


def _measure(reader: str, file: str) -> tuple[float, int]:
    """Return seconds of one reading, imports left out, and the peak memory of its processes together in bytes."""
    cost = cost_of([sys.executable, "-c", TIMED.format(*READERS[reader]), file])
    return float(cost.output), cost.together


@main.command()
@click.option("--megabytes", multiple=True, default=(274,), show_default=True, type=click.IntRange(1), help="Unpacked.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(KINDS)), help="Kinds of recordings [all].")
@click.option("--rounds", default=3, show_default=True, help="Runs of each command on each trace.")
def report(megabytes: Sequence[int], kinds: Sequence[str], rounds: int) -> None:
    """Print a Markdown table of medians: seconds, CPU seconds, peak memory, and seconds in relation to the peer's."""
    print(f"| recording | MB | command | seconds | of {PEER}'s | CPU seconds | peak RSS, MB |")
    print("|---|---:|---|---:|---:|---:|---:|")
    slowest: dict[str, tuple[float, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for size, kind in product(megabytes, kinds or KINDS):
            trace = Path(folder) / "trace.json"
            with redirect_stdout(sys.stderr):
                make.main([f"{trace}", "--megabytes", f"{size}", "--source", f"{KINDS[kind]}"], standalone_mode=False)
            for command, ratio in _compare_reports(trace, kind, size, rounds).items():
                slowest[command] = max(slowest.get(command, (0.0, "")), (ratio, f"{kind}, {size} MB"))
    for command, (ratio, which) in slowest.items():
        print(f"slowest {command}: {ratio:.2f} times {PEER}'s seconds ({which})")


def _compare_reports(trace: Path, kind: str, size: int, rounds: int) -> dict[str, float]:
    """Print the rows of a trace, and return the seconds of each command as a multiple of the peer's."""
    load = f"import {PEER}, pathlib, sys; {PEER}.loads(pathlib.Path(sys.argv[1]).read_bytes())"
    command = (sys.executable, "-m", "pinprof", "report", f"{trace}")
    commands = {
        PEER: (sys.executable, "-c", load, f"{trace}"),
        "report": command,
        "report and page": (*command, "--html", f"{trace.with_suffix('.html')}", "--force"),
    }
    runs = [{name: cost_of(words) for name, words in commands.items()} for _ in range(rounds)]
    ratios = {name: statistics.median(run[name].seconds / run[PEER].seconds for run in runs) for name in commands}
    for name, ratio in ratios.items():
        costs = [(run[name].seconds, run[name].cpu_seconds, run[name].together / 1e6) for run in runs]
        seconds, cpu_seconds, peak = map(statistics.median, zip(*costs, strict=True))
        print(
            f"| {kind} | {size} | {name} | {seconds:.2f} | {ratio:.2f} | {cpu_seconds:.2f} | {peak:.0f} |", flush=True
        )
    return {name: ratio for name, ratio in ratios.items() if name != PEER}


def cost_of(command: Sequence[str]) -> Cost:
    """Run a command, which must succeed, and return what it took."""
    begin = time.perf_counter()
    parent = child = together = 0
    with tempfile.TemporaryFile() as output, subprocess.Popen(command, stdout=output) as process:
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            own, *others = resident(process.pid)
            parent, child, together = max(parent, own), max(child, *others, 0), max(together, own + sum(others))
            time.sleep(SAMPLE_S)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read().decode()
    if process.returncode:
        raise click.ClickException(f"{' '.join(command)} ended with {process.returncode}")
    seconds, own_peak = time.perf_counter() - begin, usage.ru_maxrss * RSS_UNIT
    return Cost(seconds, usage.ru_utime + usage.ru_stime, parent, child, max(together, own_peak), said)


def resident(process: int) -> list[int]:
    """Return the bytes that a process and each of its descendants hold, its own first; 0 where that is unknown."""
    own = 0
    with suppress(OSError):
        own = int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGESIZE
    return [own, *(size for child in children_of(process) for size in resident(child))]


if __name__ == "__main__":
    main()
