"""Reading in blocks against decoding in one piece: both must give the same trace of whatever is in the file."""

import gzip
import json
import os
import re
import signal
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from recordings import OF_OTHERS, TRACES, WORKLOADS, each_recording

from pinprof.ground.errors import TraceError
from pinprof.ground.processes import Fork
from pinprof.trace import Trace, read_trace
from pinprof.trace.files import open_trace
from pinprof.trace.reader import blocks, salvage, second_core
from pinprof.trace.reader import read as reader
from pinprof.trace.reader.assemble import assemble
from pinprof.trace.reader.events import Event
from pinprof.trace.reader.rows import ReadOptions, part_of_block
from pinprof.trace.reader.unpack import Unpacked
from pinprof.trace.tables import MemoryUse, Table

KERNEL = b"""\
  {
    "ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7,
    "ts": 4381687052431.165, "dur": 28.434,
    "args": {
      "External id": 5,
      "queued": 0, "device": 0, "context": 1,      "stream": 7, "correlation": 669,      "grid": [1, 1, 1]
    }
  }"""
OP = b"""\
  {
    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 100, "tid": 101,
    "ts": 4381687052400.005, "dur": 90.000,
    "args": {
      "External id": 5,"Ev Idx": 2
    }
  }"""
FLOW = b"""\
  {
    "ph": "f", "id": 669, "pid": 0, "tid": 7, "ts": 4381687052431.165,
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }"""


def in_one_piece(path: Path) -> Trace:
    """Return the trace, every event of it decoded."""
    with open_trace(str(path)) as stream:
        content = Unpacked(stream)
        data = b"".join(content)
    read = reader._read_whole(data, ReadOptions(), content.lost)
    return assemble(str(path), read)


def in_blocks(path: Path) -> Trace:
    with open_trace(str(path)) as stream:
        content = blocks.Blocks(Unpacked(stream))
        for _ in content:
            pass
        assert content.whole is None
    return read_trace(path)


def assert_same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()
    elif isinstance(one, (list, MemoryUse)):
        for item, its_counterpart in zip(one, other, strict=True):
            assert_same(item, its_counterpart)
    elif is_dataclass(one):
        for column in fields(one):
            assert_same(getattr(one, column.name), getattr(other, column.name))
    else:
        assert one == other or (one != one and other != other)  # noqa: PLR0124  NaN


def document(*events: bytes, after: bytes = b"") -> bytes:
    """Return a file as torch lays it out."""
    return b'{\n  "schemaVersion": 1,\n  "traceEvents": [\n%b\n  ]%b\n}' % (b",\n".join(events), after)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1500)


@pytest.mark.parametrize("path", each_recording([*WORKLOADS, *OF_OTHERS]))
def test_recordings_read_the_same_in_blocks_and_in_one_piece(path: Path) -> None:
    expected = in_one_piece(path)
    assert_same(read_trace(path), expected)


@pytest.mark.slow
@pytest.mark.parametrize("path", WORKLOADS[::7], ids=lambda path: path.name)
def test_where_blocks_are_cut_does_not_matter(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 5000)  # dozens to hundreds of cuts in each
    expected = in_one_piece(path)
    assert_same(in_blocks(path), expected)


# ---------------------------------------------------------------- on two cores


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> list[Fork]:
    """Give each reading a second process after its first block; return those that were started."""
    started: list[Fork] = []

    class Noted(Fork):
        def __init__(self, work: Any) -> None:
            super().__init__(work)
            started.append(self)

    monkeypatch.setattr(blocks, "BLOCK_BYTES", 5000)
    monkeypatch.setattr(blocks, "START_BYTES", 5000)
    monkeypatch.setattr(second_core, "BLOCKS_ALONE", 1)
    monkeypatch.setattr(second_core, "MAX_SILENCE_S", 0.05)
    monkeypatch.setattr(second_core, "has_spare_core", lambda: True)
    monkeypatch.setattr(second_core, "Fork", Noted)
    return started


@pytest.mark.parametrize("path", each_recording([*WORKLOADS, *OF_OTHERS]))
def test_recordings_read_the_same_on_two_cores(path: Path, helpers: list[Fork]) -> None:
    expected = in_one_piece(path)
    assert_same(read_trace(path), expected)
    assert [helper.is_alive for helper in helpers] == [False]


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_second_process_that_ends_or_stops_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, helpers: list[Fork], end: signal.Signals
) -> None:
    path, decode = TRACES / "prefetch.stack.json.gz", part_of_block
    expected, own = in_one_piece(path), os.getpid()
    monkeypatch.setattr(
        second_core,
        "part_of_block",
        lambda block, shared: decode(block, shared) if os.getpid() == own else os.kill(os.getpid(), end),
    )
    assert_same(read_trace(path), expected)
    assert [helper.is_alive for helper in helpers] == [False]


def test_errors_are_those_of_one_core(monkeypatch: pytest.MonkeyPatch, helpers: list[Fork], tmp_path: Path) -> None:
    monkeypatch.setattr(salvage, "MAX_MALFORMED_EVENTS", 300)
    path = tmp_path / "broken.json"
    path.write_bytes(document(*[*[KERNEL, OP] * 9, b'{"ph": "X", "ts": }', KERNEL] * 290))
    assert read_trace(path).skipped["malformed"] == 290
    path.write_bytes(document(*[*[KERNEL, OP] * 9, b'{"ph": "X", "ts": }', KERNEL] * 310))
    with pytest.raises(TraceError, match="more than 300 events"):
        read_trace(path)
    assert [helper.is_alive for helper in helpers] == [False, False]


def test_a_single_core_starts_no_process(monkeypatch: pytest.MonkeyPatch, helpers: list[Fork]) -> None:
    monkeypatch.setattr(second_core, "has_spare_core", lambda: False)
    read_trace(TRACES / "prefetch.stack.json.gz")
    assert not helpers


# ---------------------------------------------------------------- other programs' layouts

ORDERS = {
    "as torch": ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args"),
    "sorted": ("args", "cat", "dur", "name", "ph", "pid", "tid", "ts"),
    "name first": ("name", "cat", "ph", "ts", "dur", "pid", "tid", "args"),
    "thread last": ("ts", "dur", "args", "name", "cat", "ph", "tid", "pid"),
    "arguments amid": ("pid", "tid", "ts", "ph", "cat", "name", "args", "dur"),
}
STYLES: dict[str, Any] = {
    "one line": {},
    "compact": {"separators": (",", ":")},
    "wide": {"separators": (" , ", " : ")},
    "indent 1": {"indent": 1},
    "indent 4": {"indent": 4},
    "tabs": {"indent": "\t"},
}


def in_order(written: dict[str, Any], order: Sequence[str]) -> dict[str, Any]:
    """Return a document whose events have their keys in this order."""
    events = [
        {key: event[key] for key in (*(key for key in order if key in event), *(event.keys() - {*order}))}
        for event in written["traceEvents"]
    ]
    return {**written, "traceEvents": events}


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    """Return a recording with kernels, copies, syncs, flows and Python functions."""
    document: dict[str, Any] = json.loads(gzip.decompress((TRACES / "small_kernels.stack.json.gz").read_bytes()))
    return {**document, "traceEvents": [*document["traceEvents"][::11], *document["traceEvents"][-20:]]}


@pytest.fixture(scope="module")
def expected(recorded: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Return that recording as it is read in torch's own layout."""
    path = tmp_path_factory.mktemp("recorded") / "trace.json"
    path.write_text(json.dumps(recorded))
    trace = in_one_piece(path)
    assert len(trace.gpu) > 75
    return trace


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_any_layout_reads_the_same(
    tmp_path: Path, recorded: dict[str, Any], expected: Trace, order: Sequence[str], style: Any
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(in_order(recorded, order), **style))
    trace, same = in_blocks(path), replace(expected, path=str(path))
    assert_same(trace, same)
    assert_same(in_one_piece(path), same)


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_escapes_are_read(tmp_path: Path, order: Sequence[str]) -> None:
    kernel, op = json.loads(KERNEL), json.loads(OP)
    events = [
        {**event, "name": f'lib/é\\{number}: "{{f}}"', "args": {**event["args"], "Call stack": "a/b\\c"}}
        for number in range(40)
        for event in (kernel, op)
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(in_order({"traceEvents": events}, order)).replace("/", "\\/"))
    trace = in_blocks(path)
    assert_same(trace, in_one_piece(path))
    assert {trace.gpu.names[code] for code in trace.gpu.name} == {event["name"] for event in events}


EVENTS_WITHIN = [{"name": "x"}, {"ph": "X", "args": {}}, json.loads(KERNEL), json.loads(KERNEL), {"x": [{}, {}]}]


@pytest.mark.parametrize(
    ("inner", "block"),
    [([{"name": "x"}, {"pid": 1}, {"args": {}}, {}], 400), (EVENTS_WITHIN, blocks.BLOCK_BYTES)],
    ids=["small blocks", "events within"],
)
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_objects_beside_each_other_in_arguments_are_no_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: Sequence[str], inner: list[Any], block: int
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block)
    event = json.loads(KERNEL)
    odd = {**event, "args": {**event["args"], "list": inner, "stream": 9}}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(in_order({"traceEvents": [event, odd, event, json.loads(FLOW)] * 20}, order)))
    trace = read_trace(path)
    assert_same(trace, in_one_piece(path))
    assert sorted(trace.gpu.stream.tolist()) == [7] * 40 + [9] * 20
    assert trace.repaired == 0


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_of_a_cut_file_the_whole_events_are_read(tmp_path: Path, order: Sequence[str], style: Any) -> None:
    events = [{**json.loads(KERNEL), "name": f"k{number:03}"} for number in range(30)]
    text = json.dumps(in_order({"traceEvents": events}, order), **style)
    ends = [match.start() for match in re.finditer(r"\}(?=\s*,\s*\{|\s*\])", text)]
    assert len(ends) == 30
    path = tmp_path / "trace.json"
    for at in (ends[3] + 1, ends[20] - 3, ends[20], ends[20] + 1, ends[20] + 2, ends[20] + 30, ends[29] + 1):
        path.write_text(text[:at])
        trace = read_trace(path)
        assert len(trace.gpu) == sum(end < at for end in ends)
        assert trace.cut


# ---------------------------------------------------------------- odd events

# fmt: off
TEXTS = st.one_of(
    st.sampled_from([
        "gemm", "", "a" * 7, "b" * 8, "c" * 9, "x" * 200, "{lambda()#1}", "}}", "{{{", 'quo"te', "back\\slash", "\\",
        '", "pid": 3, "tid": 4, "ts": 5', '"ph": "X"', "\u00e9\u4e2d\U0001f600", "new\nline", "\x7f", "device",
        "ProfilerStep#3", "Memcpy HtoD (Pageable -> Device)", "stream", '"stream": 5', "},\n  {\n",
    ]),
    st.text(max_size=20),
)
CATEGORIES = st.sampled_from([
    "kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cuda_sync", "cpu_op", "user_annotation",
    "python_function", "overhead", "Kernel", "MEMCPY", "Runtime", "gpu_user_annotation", "ac2g", "", "\u00e9",
])
# fmt: on
NUMBERS = st.one_of(
    st.integers(-3, 70),
    st.sampled_from([0, -1, 2**31, 2**40, 10**15, 10**16, 10**17, 2**63, -(2**63), 1.5, 1e300, 7.0, None]),
    st.sampled_from(["0x0", "17", "", "Spans", "-4"]),
)
TIMES = st.one_of(
    st.sampled_from(["0", "0.0", "1754000000123456.789", "4381687052431.165", "5", "12345678", "123456789.5", "1e3"]),
    st.sampled_from(["-0.5", "1.0005", "9999999999999999", "99999999999999999", '"12.5"', "null", "2.25E+2", "{}"]),
    st.integers(0, 10**13).map(lambda ns: f"{ns // 1000}.{ns % 1000:03}"),
)
ARGUMENTS = st.dictionaries(
    st.sampled_from(["device", "stream", "correlation", "bytes", "fromDevice", "External id", "name", "Call stack"]),
    NUMBERS,
    max_size=6,
)
NESTED: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"occupancy": {"device": 3, "x": "}{"}},
        {"occupancy": {"limits": {"stream": 3, "x": "}"}}, "device": 5, "stream": 6},
        {"grid": [1, 2, 3]},
        {"list": [{"stream": 1}, {}]},
        {"Input Dims": [[], [5, "{"]]},
    ]
)
SPACINGS = (
    '  {\n    "%s": %s, "%s": %s, "%s": %s, "%s": %s, "%s": %s,\n    "%s": %s, "%s": %s,\n    "%s": %s\n  }',
    '{"%s": %s, "%s": %s, "%s": %s, "%s": %s, "%s": %s, "%s": %s, "%s": %s, "%s": %s}',
    '{"%s":%s,"%s":%s,"%s":%s,"%s":%s,"%s":%s,"%s":%s,"%s":%s,"%s":%s}',
    '{"%s" : %s , "%s" : %s, "%s": %s, "%s": %s, "%s" :%s, "%s": %s, "%s": %s, "%s" : %s }',
)
LAYOUTS = st.tuples(st.sampled_from(SPACINGS), st.sampled_from([*ORDERS.values()]))
OTHERS = [
    FLOW.decode(),
    '{"name": "thread_name", "ph": "M", "ts": 1.0, "pid": 1, "tid": 1, "args": {"name": "thread 1 (python3)"}}',
    '{"ph": "M", "name": "thread_name", "pid": 2, "tid": 7, "args": {"name": " pt_data_pin "}}',
    '{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1.5, "args": {}}',
    '{"ph": "X", "cat": "overhead", "name": "Buffer Flush", "pid": -1, "tid": 0, "ts": 3.000, "dur": 1}',
    '{"ph": "X", "cat": "Trace", "ts": 4.5, "dur": 2.25, "pid": "Spans", "tid": "x", "name": "p", "args": {"Op": 0}}',
    '{"ts": 5, "ph": "X", "cat": "kernel", "name": "late", "pid": 0, "tid": 7, "dur": 3, "args": {"stream": 7}}',
    '{"ph": "X", "cat": "kernel", "name": "n", "pid": 0, "tid": 7, "ts": 5, "dur": 3, "args": {"stream": 7}, "ts": 9}',
    '{"ph": "X", "cat": "kernel", "name": "n", "pid": 0, "tid": 7, "ts": 5, "dur": 3,"args":{}, "args":{"bytes": 9}}',
    '{"ph": "X", "cat": "kernel", "name": "n", "pid": 0, "tid": 7, "ts": 5, "dur": 3,"args": {"bytes": 1, "bytes": 2}}',
    '{"ph": "X", "cat": "kernel", "name": "n", "pid": 0, "tid": 7, "ts": 5, "dur": 3, "args": {"x": [{"bytes": 1}]}}',
    '{"ph": "X", "cat": "kernel", "name": "n", "pid": 0, "tid": 7, "ts": 5, "dur": 3, "args": {"bytes" : 4}}',
    '{"ph": "X", "cat": "kernel", "name": "n", "pid": 0, "tid": 7, "ts": 5, "dur": 3, "args": {"a": "bytes", "b": 4}}',
    '{"ph": "X", "cat": "kernel", "name": "n", "pid": 0, "tid": 7, "ts": 5, "dur": 3, "args": {"\\u0062ytes": 4}}',
    '{"ph": "X", "args": {"ph": "X", "cat": "kernel", "name": "n", "pid": 0, "tid": 7, "ts": 5, "dur": 3, "args": {}}}',
    '{"ph": "i", "x": [{"y": 1},  {"ph": "X", "cat": "kernel", "name": "n", "pid": 0, "tid": 7, "ts": 5, "dur": 3}]}',
    '{"ph": "", "ph": "X"}',
    '{"ph": "s", "id": 1, "pid": [], "tid": 7, "ts": 5, "cat": 7, "name": {}}',
    '{"ph": 5}',
    "7",
    "{}",
]


@st.composite
def odd_events(draw: st.DrawFn, layout: tuple[str, Sequence[str]] | None = None) -> str:
    if draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from(OTHERS))
    ascii_only = draw(st.booleans())

    def text(value: Any) -> str:
        return json.dumps(value, ensure_ascii=ascii_only)

    arguments: dict[str, Any] = {**draw(ARGUMENTS), **draw(NESTED)}
    body = text(arguments)
    if draw(st.booleans()):
        body = f"{{\n      {body[1:-1]}\n    }}"
    values = [text("X"), text(draw(CATEGORIES)), text(draw(TEXTS)), text(draw(NUMBERS)), text(draw(NUMBERS))]
    return laid_out([*values, draw(TIMES), draw(TIMES), body], *(layout or draw(LAYOUTS)))


def laid_out(values: Sequence[str], spacing: str, order: Sequence[str]) -> str:
    """Return the text of an event of these values, which come in torch's order."""
    of = dict(zip(ORDERS["as torch"], values, strict=True))
    return spacing % tuple(text for key in order for text in (key, of[key]))


@pytest.mark.slow
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(odd_events(), max_size=6), st.sampled_from([b",\n", b", ", b","]))
def test_odd_events_read_the_same_among_usual_ones(tmp_path: Path, odd: list[str], between: bytes) -> None:
    usual = [KERNEL, OP, FLOW, KERNEL]
    mixed = [OP, *(event for text in odd for event in (text.encode(), *usual[: len(text) % 5]))]
    path = tmp_path / "trace.json"
    path.write_bytes(b'{"schemaVersion": 1, "traceEvents": [%b], "traceName": "x"}' % between.join(mixed))
    assert_same(read_trace(path), in_one_piece(path))


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), LAYOUTS, st.sampled_from([b",\n", b", ", b","]))
def test_events_of_any_layout_read_the_same(
    tmp_path: Path, data: st.DataObject, layout: tuple[str, Sequence[str]], between: bytes
) -> None:
    kernel, op = (
        laid_out([json.dumps(event[key]) for key in ORDERS["as torch"]], *layout)
        for event in (json.loads(KERNEL), json.loads(OP))
    )
    odd = data.draw(st.lists(odd_events(layout=layout), max_size=6))
    mixed = [op, kernel, *(event for text in odd for event in (text, *[op, kernel, FLOW.decode()][: len(text) % 4]))]
    path = tmp_path / "trace.json"
    path.write_bytes(b'{"schemaVersion": 1, "traceEvents": [%b]}' % between.join(event.encode() for event in mixed))
    assert_same(read_trace(path), in_one_piece(path))


@pytest.mark.slow
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(1, b"}")  # the JSON ends before the events
@given(st.integers(0, 2**31), st.sampled_from([b'"', b"\\", b"{", b"}", b",", b":", b"\n", b"0", b"[", b"x"]))
def test_a_changed_byte_never_changes_a_number_in_silence(tmp_path: Path, at: int, byte: bytes) -> None:
    """What is read in blocks is what decoding each event would give; or something was broken, and that is said."""
    written = bytearray(document(OP, KERNEL, FLOW, OP, KERNEL, after=b',\n  "traceName": "x"'))
    at %= len(written)
    written[at : at + 1] = byte
    path = tmp_path / "trace.json"
    path.write_bytes(written)
    try:
        trace_found = read_trace(path)
    except TraceError:
        return
    try:
        expected = in_one_piece(path)
    except TraceError:
        expected = None
    if expected is None or is_broken(trace_found) or is_broken(expected):
        for name in ("ops", "gpu"):
            table: Table = getattr(trace_found, name)
            original: Table = getattr(in_usual(tmp_path), name)
            assert len(table) <= len(original)
        return
    assert_same(trace_found, expected)


def is_broken(trace: Trace) -> bool:
    return bool(trace.repaired or trace.cut or trace.skipped)


def in_usual(folder: Path) -> Trace:
    path = folder / "usual.json"
    path.write_bytes(document(OP, KERNEL, FLOW, OP, KERNEL))
    return in_one_piece(path)


def test_nested_arguments_are_passed_over(tmp_path: Path) -> None:
    occupancy = b'"occupancy": {"limits": {"stream": 3, "text": "}{{"}, "bytes": 9}, "queued": 0'
    path = tmp_path / "trace.json"
    path.write_bytes(document(*[KERNEL.replace(b'"queued": 0', occupancy), OP, FLOW] * 40))
    gpu = in_blocks(path).gpu
    assert set(gpu.stream.tolist()) == {7}
    assert set(gpu.bytes.tolist()) == {-1}


def test_an_event_is_read_in_one_way_whatever_stands_beside_it(tmp_path: Path) -> None:
    assert msgspec.json.decode(KERNEL, type=Event).name == "gemm"
    path = tmp_path / "trace.json"
    path.write_bytes(document(*[KERNEL, OP, FLOW] * 40))
    trace = in_blocks(path)
    assert len(trace.gpu) == len(trace.ops) == 40
    assert set(trace.gpu.correlation.tolist()) == {669}
    assert set(trace.gpu.start_ns.tolist()) == {4_381_687_052_431_165}
    assert set(trace.ops.duration_ns.tolist()) == {90_000}
