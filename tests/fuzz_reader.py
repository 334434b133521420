"""Feeds mutated traces to pinprof: each is reported on, or refused with a TraceError. Anything else is a crash.

python tests/fuzz_reader.py -max_total_time=600        (libFuzzer's options)

Coverage guides the mutations, which begin with pieces of real recordings and with hand-built traces. What broke is kept
in the working folder as libFuzzer does, to be read with `pinprof report`.
"""

import gzip
import json
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import atheris

with atheris.instrument_imports(include=["pinprof"]):
    from pinprof.ground.errors import TraceError
    from pinprof.measurement.measure import measure
    from pinprof.report.trace.json import traces_to_json
    from pinprof.report.trace.text import trace_to_text
    from pinprof.rules.search import find
    from pinprof.trace import read_trace
    from pinprof.trace.reader import blocks

RECORDINGS = Path(__file__).parents[1] / "traces"
SEEDS = (
    "clean.json.gz",
    "small_kernels.stack.json.gz",
    "loader_pinned.json.gz",
    "ranks/averaged_loss.rank0.before.json.gz",
)
SEED_EVENTS = 60
"""Of each recording, so that a mutation meets something that matters."""
LARGEST = 40_000
INSTRUMENTED_MB = 16_000
"""atheris keeps some 300 kB of each run; without it the same files are read in 70 MB."""
SMALL_BLOCK_BYTES = 4096
"""So that small traces have several blocks, too."""
WORDS = (
    *('"ph":', '"X"', '"M"', '"cat":', '"name":', '"ts":', '"dur":', '"pid":', '"tid":', '"args":', '"correlation":'),
    *('"stream":', '"device":', '"bytes":', '"traceEvents":', '"kernel"', '"gpu_memcpy"', '"cuda_runtime"', '"cpu_op"'),
    *('"ProfilerStep#1"', '"cudaStreamSynchronize"', "N/A", "NaN", "Infinity", "1e400", "-1", "null", "\\u0000", "\\"),
    *('"Collective name":', '"Process Group Ranks":', "},{", "{}", "[]", "18446744073709551616", "0x10"),
)


BYTES_SHARE, MOST_CHANGES = 0.4, 6
KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")
ARGUMENTS = ("correlation", "stream", "device", "bytes", "fromDevice", "Collective name", "Process Group Ranks", "name")
CATEGORIES = (
    *("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver"),
    *("cpu_op", "python_function", "overhead"),
)
TEXTS = (
    *("", "0", "0x1", "-1", "1e400", "X", "M", "ProfilerStep#0", "ProfilerStep#99999999999999999999", "aten::item"),
    *("Memcpy HtoD (Pageable -> Device)", "train.py(3): step", "</script>", "\x1b[31m", "\u202e", "a" * 500),
    *("cudaStreamSynchronize", "cudaMemcpyAsync", "cudaEventRecord", "cudaStreamWaitEvent", "cudaGraphLaunch"),
    *("ncclDevKernel_AllReduce", "pinprof line 0"),
)
NUMBERS = (0, -1, 1, 7, 2**31, 2**63, -(2**63), 1e308, -0.0, 0.5)
VALUES: tuple[Any, ...] = (None, True, *NUMBERS, *TEXTS, [], {}, [1], {"a": 1})
"""What is put in place of anything: nothing, too large, of another type, or of another meaning."""


def main() -> None:
    """Run libFuzzer with the options of the command line."""
    blocks.BLOCK_BYTES = SMALL_BLOCK_BYTES
    with tempfile.TemporaryDirectory() as folder:
        seeds, words = Path(folder) / "seeds", Path(folder) / "words"
        write_seeds(seeds)
        words.write_text("".join(f"{json.dumps(word)}\n" for word in WORDS))
        target = Path(folder) / "trace.json"
        options = [f"-max_len={LARGEST}", f"-dict={words}", "-timeout=20", f"-rss_limit_mb={INSTRUMENTED_MB}"]
        atheris.Setup(
            [sys.argv[0], *options, *sys.argv[1:], str(seeds)],
            lambda data: try_trace(data, target),
            custom_mutator=mutated,
        )
        atheris.Fuzz()


def mutated(data: bytes, most: int, seed: int) -> bytes:
    """Change values, keys and the order of events in every second trace, and bytes in the others."""
    chance = Random(seed)
    if chance.random() < BYTES_SHARE:
        return atheris.Mutate(data, most)
    try:
        document = json.loads(data)
        events = document if isinstance(document, list) else document["traceEvents"]
        for _ in range(chance.randint(1, MOST_CHANGES)):
            change(events, chance)
        text: bytes = json.dumps(document, indent=chance.choice((None, 1, 2))).encode()
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError):
        return atheris.Mutate(data, most)
    return text if len(text) <= most else atheris.Mutate(data, most)


def change(events: list[Any], chance: Random) -> None:
    """Change one thing in a list of events."""
    place = chance.randrange(len(events))
    event = events[place]
    match chance.randrange(6):
        case 0:
            events.insert(chance.randrange(len(events)), json.loads(json.dumps(event)))
        case 1:
            del events[place]
        case 2:
            events[place] = chance.choice(VALUES)
        case 3:
            shifted = float(event["ts"]) + chance.choice((-1e3, -1, 1e-3, 1, 1e3, 1e9, -1e15))
            event["ts"] = chance.choice((shifted, str(shifted), int(shifted)))
        case 4:
            inner = event.setdefault("args", {})
            inner[chance.choice((*inner, *ARGUMENTS))] = chance.choice(VALUES)
        case _:
            event[chance.choice((*event, *KEYS))] = chance.choice((*VALUES, *CATEGORIES))


def try_trace(data: bytes, target: Path) -> None:
    """Report on the bytes as on a trace file."""
    target.write_bytes(data)
    try:
        trace = read_trace(target)
        profile = measure(trace)
        findings = find(profile, trace)
        trace_to_text(profile, findings)
        traces_to_json([(profile, findings)])
    except TraceError as error:
        if "\n" in str(error):
            raise ValueError("a refusal of several lines") from error


def write_seeds(folder: Path) -> None:
    """Write traces to begin with: some events of each kind from real recordings, plain and compressed."""
    folder.mkdir()
    for name in SEEDS:
        document: dict[str, Any] = json.loads(gzip.decompress((RECORDINGS / name).read_bytes()))
        by_kind: dict[str, list[Any]] = {}
        for event in document["traceEvents"]:
            by_kind.setdefault(f"{event.get('ph')} {event.get('cat')}", []).append(event)
        share = max(SEED_EVENTS // len(by_kind), 1)
        document["traceEvents"] = [event for events in by_kind.values() for event in events[:share]]
        document.pop("pinprof_lines", None)
        text = json.dumps(document, indent=2).encode()
        stem = name.replace("/", "-").removesuffix(".json.gz")
        (folder / f"{stem}.json").write_bytes(text)
        (folder / f"{stem}.list.json").write_bytes(json.dumps(document["traceEvents"]).encode())
        (folder / f"{stem}.json.gz").write_bytes(gzip.compress(text))


if __name__ == "__main__":
    main()
