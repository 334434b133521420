"""Any file is reported on, or refused, in bounded memory and time: memory grows with what is kept, not with the text.

Each of the files is small when packed. Before there was a limit they took gigabytes or minutes.
"""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from command_line import copying_trace, invoke, is_one_line_error
from quick import nightly_but
from trace_builder import TraceBuilder

from pinprof import document
from pinprof.trace import read_trace
from pinprof.trace.reader import blocks

MOST_MB, MOST_CPU_S = 300, 60
"""Modules of pinprof and numpy take some 120 MB of these. No report takes a sixth of the time on a slow machine."""
SIZE = 8_000_000
"""Characters of a file; what took 235 bytes for each three of them takes 630 MB."""
KERNEL = '{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":1,"pid":0,"tid":7,"args":{"device":0,"stream":7}}'
OP = '{"ph":"X","cat":"cpu_op","name":"a","ts":1,"dur":1,"pid":1,"tid":1'


def trace_of(*entries: str, behind: str = "") -> str:
    return f'{{"traceEvents":[{",".join(entries)}]{behind}}}'


def many(entry: str, size: int = SIZE) -> str:
    return ",".join([entry] * (size // (len(entry) + 1)))


def numbered(entry: Callable[[int], str], size: int = SIZE) -> str:
    """Return different entries; those of the fifth part of a size take the time of the others."""
    texts: list[str] = []
    length = 0
    for number in count():
        texts.append(entry(number))
        length += len(texts[-1])
        if length > size // 5:
            break
    return ",".join(texts)


def before(entry: str) -> str:
    return trace_of(many(entry), KERNEL)


def listed(entry: str) -> str:
    return f"[{KERNEL},{many(entry)}]"


def metadata(key: str) -> str:
    return trace_of(KERNEL, behind=f',"{key}":[{many("{}")}]')


def hostile() -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the names of the files, and what makes their texts."""
    for entry in ("{}", "null", "0", "[[]]", '""', '{"ph":""}', '{"ph":"X"}', '{"a":{}}', '{"ph":"i"}'):
        yield f"{entry} before an event", partial(before, entry)
        yield f"{entry} in a list", partial(listed, entry)
    for key in ("pinprof", "pinprof_run", "pinprof_host", "pinprof_lines", "distributedInfo", "deviceProperties", "x"):
        yield f"metadata {key}", partial(metadata, key)
    yield "events twice", lambda: trace_of(KERNEL, behind=f',"traceEvents":[{many("{}")}]')
    yield "no trace", lambda: f'{{"a":[{many("{}")}]}}'
    yield "keys", lambda: "{" + numbered(lambda number: f'"k{number}":{{}}') + f',"traceEvents":[{KERNEL}]}}'
    yield "large arguments", lambda: trace_of(f'{OP},"args":{{"x":[{many("[]")}]}}}}', KERNEL)
    yield "large last arguments", lambda: trace_of(KERNEL, f'{OP},"args":{{"x":[{many("{}")}]}}}}')
    yield "long text", lambda: trace_of(KERNEL, OP.replace('"a"', '"' + "x" * SIZE + '"') + "}")
    yield "deep", lambda: trace_of(KERNEL, OP + ',"args":' + "[" * (SIZE // 2) + "]" * (SIZE // 2) + "}")
    yield "white space", lambda: trace_of(KERNEL, " " * SIZE + KERNEL)
    yield "open text", lambda: f'{{"traceEvents":[{KERNEL},{{"ph":"X","name":"' + '"name":"' * (SIZE // 8)
    yield "open events", lambda: f'{{"traceEvents":[{KERNEL},' + '{"ph":"X","x":[' * (SIZE // 14)
    yield "open braces", lambda: f'{{"traceEvents":[{KERNEL},' + "{" * SIZE
    yield "broken events", lambda: trace_of(many('{"ph":"X","name":"a"b"c":}', SIZE // 4), KERNEL)
    yield "seams", lambda: f'{{"traceEvents":[{KERNEL},{{"ph":"X","name":"' + '},{"ph":' * (SIZE // 32)
    yield "nested keys", lambda: trace_of(KERNEL, behind=',"pinprof":' + '{"pinprof":' * (SIZE // 11))
    yield "threads", lambda: trace_of(KERNEL, numbered(lambda number: OP.replace('"tid":1', f'"tid":{number}') + "}"))
    yield "GPUs", lambda: trace_of(numbered(lambda number: KERNEL.replace('"device":0', f'"device":{number}')))
    yield "categories", lambda: trace_of(KERNEL, numbered(lambda number: OP.replace("cpu_op", f"c{number}") + "}"))
    yield "contexts", contexts
    yield "copies", lambda: trace_of(*(copy_of(number) for number in range(200)))


def contexts() -> str:
    """Return a trace with many waits, and contexts of recorded waits that fit each of them by one side."""
    sync = OP.replace("cpu_op", "cuda_runtime").replace('"a"', '"cudaStreamSynchronize"').replace('"dur":1', '"dur":8')
    ops = OP.replace('"a"', '"aten::y"')
    waits = (
        f"{sync.replace(':1,', f':{10 * n},', 1)}}},{ops.replace(':1,', f':{10 * n + 8},', 1)}}},"
        f"{OP.replace(':1,', f':{10 * n + 9},', 1)}}}".replace('"a"', f'"aten::x{n}"')
        for n in range(9_000)
    )
    fit = '{"op":"cudaStreamSynchronize","thread":"main","before":[],"after":[0],"line":0,"most":1}'
    lines = '[{"file":"a.py","line":1,"function":"f"}]'
    names = json.dumps(["aten::y", *(f"aten::x{n}" for n in range(9_000))])
    recorded = f'{{"names":{names},"lines":{lines},"waits":[{many(fit, SIZE // 2)}]}}'
    return trace_of(KERNEL, *waits, behind=f',"pinprof_contexts":{recorded}')


def copy_of(number: int) -> str:
    return KERNEL.replace('"kernel"', '"gpu_memcpy"').replace('"k"', f'"Memcpy A{number} ({" " * 900}-"')


FILES = dict(hostile())
ALWAYS = {
    *("{} before an event", "0 in a list", "metadata pinprof", "events twice", "no trace", "keys", "large arguments"),
    *("long text", "deep", "open text", "open braces", "broken events", "seams", "threads", "contexts", "copies"),
}
"""The files that are looked at in every run; the others each night."""
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts and limits a process like this")


class Spent(NamedTuple):
    """What a report took."""

    status: int
    megabytes: float
    said: str


FORKER = """
import os, resource, sys
from pinprof.cli import main
import pinprof.cli.report, pinprof.analysis, pinprof.report.trace.text
for line in sys.stdin:
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]),) * 2)
        sys.stdout = open(os.devnull, "w")
        sys.exit(main(["report", line.strip()]))
    _, status, usage = os.wait4(child, 0)
    print(os.waitstatus_to_exitcode(status), usage.ru_maxrss / 1024, flush=True)
"""
"""Reports on each file whose name it reads, in a process of its own that has the modules already.

The system ends a report that takes too much of a processor's time, however busy the machine is.
"""


@pytest.fixture(scope="module")
def spent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], Spent]]:
    """Return a function that reports on a file and returns what that took."""
    errors = tmp_path_factory.mktemp("forker") / "errors.txt"
    with (
        errors.open("wb") as said,
        subprocess.Popen(
            [sys.executable, "-c", FORKER, str(MOST_CPU_S)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        ) as forker,
    ):
        assert forker.stdin
        assert forker.stdout

        def report(path: Path) -> Spent:
            assert forker.stdin
            assert forker.stdout
            before = errors.stat().st_size
            print(path, file=forker.stdin, flush=True)
            status, megabytes = forker.stdout.readline().split()
            return Spent(int(status), float(megabytes), errors.read_text()[before:])

        yield report
        forker.stdin.close()


@LINUX
@pytest.mark.slow
@pytest.mark.parametrize("name", nightly_but(ALWAYS, [(name,) for name in FILES]))
def test_memory_and_time_are_bounded(name: str, tmp_path: Path, spent: Callable[[Path], Spent]) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(FILES[name]().encode(), 1))
    took = spent(path)
    assert took.status in {0, 2}, took
    assert "itself failed" not in took.said
    assert took.megabytes < MOST_MB, took


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["{}", "null", "7", "[[], {}]", '"a, b"', '"\\\\\\""'])
@pytest.mark.parametrize("first", [True, False])
def test_entries_that_are_no_events_are_cut_between_and_counted(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, first: bool
) -> None:
    for name, size in (("BLOCK_BYTES", 1_500), ("MAX_ENTRY_BYTES", 5_000), ("MAX_WHOLE_BYTES", 10_000)):
        monkeypatch.setattr(blocks, name, size)
    others = [entry] * (1_000_000 // len(entry))
    path = tmp_path / "trace.json"
    path.write_text(trace_of(*(others if first else ()), *[KERNEL] * 3, *([] if first else others), KERNEL))
    trace = read_trace(path)
    assert len(trace.gpu) == 4
    assert trace.skipped.get("malformed", 0) == (0 if entry == "{}" else len(others))
    assert trace.cut is None


NUMBERS = (10**400, 2**63, -(2**63), 10**17, -1, 1e308, -1e308, 1e17)
HOST = {
    "interval_ms": 10.0,
    "samples": 2,
    "steps": 3,
    "window_ms": 30.0,
    "frames": [{"file": "train.py", "line": 1, "function": "f", "origin": "user"}],
    "stacks": [{"frames": [0], "count": 2}],
}
TIMES = {"step_ns": [10] * 3, "own_ns": [0] * 3, "input_ns": [1] * 3, "gpu_ns": [5] * 3}
METADATA = {
    "distributedInfo": {"rank": 1, "world_size": 2},
    "deviceProperties": [{"id": 0, "computeMajor": 9}],
    "baseTimeNanoseconds": 1,
    "pinprof": {
        "steps_before": 3,
        "plain": {"steps": 3, "mean_ms": 1.0, "p10_ms": 1.0, "p90_ms": 1.0},
        "made": {
            "loaders": [{"num_workers": 2, "prefetch_factor": 2, "persistent_workers": True, "drawn": 2}],
            "cpus": 4,
        },
        "unread": {"inputs": [[3, 4]], "parameters": 2, "modules": ["A"], "elements": 5},
    },
    "pinprof_host": HOST,
    "pinprof_worker": HOST,
    "pinprof_run": {"start_up_ns": 1, "after_ns": 1, "windows": [["plain", 1], ["recorded", 2]], **TIMES},
}


def numbers_in(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from numbers_in(entry, (*path, key))
    elif isinstance(value, list):
        yield from numbers_in(value[0], (*path, 0))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


@pytest.mark.slow
@pytest.mark.parametrize("number", NUMBERS, ids=range(len(NUMBERS)))
def test_a_number_of_the_metadata_is_never_a_size_and_never_overflows(number: float, tmp_path: Path) -> None:
    steps = TraceBuilder()
    for step in range(3):
        steps.op(f"ProfilerStep#{step}", 100 * step, 99)
        steps.kernel(100 * step + 4, 50, launch=100 * step)
    events = steps.document()["traceEvents"]
    for place in numbers_in(METADATA):
        metadata = json.loads(json.dumps(METADATA))
        holder = metadata
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = number
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({**metadata, "traceEvents": events}))
        result = invoke("report", str(path), "--full")
        assert result.exit_code in {0, 2}, (place, result.stderr)


@pytest.mark.parametrize("option", ["--baseline", "--config", "--machine"])
@pytest.mark.parametrize("name", ["long.json", "a\0b"])
def test_files_without_an_end_or_a_possible_name_are_refused(
    option: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "LARGEST_DOCUMENT_BYTES", 1_000)
    trace = copying_trace(tmp_path)
    (tmp_path / "long.json").write_text(" " * 1_001)
    result = invoke("whatif" if option == "--machine" else "check", trace, option, tmp_path / name)
    assert is_one_line_error(result), result


CHAINS = {
    "brackets": "x = " + "(" * 190 + "1" + ")" * 190,
    "too many brackets": "x = " + "(" * 3000 + "1" + ")" * 3000,
    "a sum": "x = " + "1+" * 4_000 + "1",
    "long sum": "x = " + "1+" * 60_000 + "1",
    "calls": "x = a" + "()" * 4_000 + " $",
    "minus": "x = " + "-" * 9_000 + "1",
    "not": "x = " + "not " * 2_000 + "1",
    "attributes": "x = a" + ".a" * 4_000,
    "lambdas": "x = " + "lambda:" * 1_400 + "1",
    "branches": "if a: pass\n" + "elif a: pass\n" * 20_000,
    "statements": "x=1\n" * 124_000,
    "blocks": "\n".join(" " * depth + "if a:" for depth in range(99)) + "\n" + " " * 99 + "pass",
}


@pytest.mark.slow
@LINUX
@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_a_source_beside_a_trace_never_ends_a_report(
    chain: str, tmp_path: Path, spent: Callable[[Path], Spent]
) -> None:
    source = tmp_path / "train.py"
    source.write_text(f"def f(x):\n    x.item()\n\n{chain}\n")
    os.utime(source, (0, 0))
    builder = TraceBuilder()
    builder.function("train.py(1): f", 0, 90)
    builder.kernel(5, 50, launch=1)
    builder.call("cudaStreamSynchronize", 3, 60)
    took = spent(builder.write(tmp_path / "trace.json"))  # a crash of Python's parser ends only its process
    assert took.status == 0, took


@pytest.mark.parametrize("trailing", [b"garbage", b'\n{"traceEvents": []}', b"]"])
@pytest.mark.parametrize("as_list", [True, False])
def test_bytes_after_the_end_are_told_of_in_one_sentence(trailing: bytes, tmp_path: Path, *, as_list: bool) -> None:
    builder = TraceBuilder()
    builder.kernel(5, 8, launch=1)
    document = builder.document()
    whole = json.dumps(document["traceEvents"] if as_list else document).encode()
    path, copy = tmp_path / "trace.json", tmp_path / "copy.json"
    path.write_bytes(whole + trailing)
    sentence = f"{len(trailing.strip())} byte"
    said = invoke("report", str(path), "--full").stdout
    assert sentence in said
    assert "after the end of the trace" in " ".join(said.split())
    result = invoke("export", str(path), "-o", str(copy))
    assert sentence in result.stderr
    assert "too early" not in result.stderr
    assert json.loads(copy.read_text())
    assert read_trace(copy).trailing == 0
