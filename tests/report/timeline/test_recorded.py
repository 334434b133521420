"""What a page says of the args of events: in words, each text once, and in a real Chromium on a click."""

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from analysed import analysed
from hypothesis import given
from hypothesis import strategies as st
from page_reader import Page
from trace_builder import TraceBuilder

from pinprof.analysis import analyse
from pinprof.report.timeline import arguments, fragment
from pinprof.report.timeline.arguments import OWN_NUMBER_ARGS, Interned, event_texts
from pinprof.trace import read_trace

HOSTILE = "</script><img src=x onerror=alert(1)>"
CONVOLUTION = {
    "External id": 12,
    "Sequence number": 443,
    "Fwd thread id": 0,
    "Record function id": 0,
    "Concrete Inputs": ["", "", "", "[2, 2]", "1", ""],
    "Input type": ["float", "c10::BFloat16", "", "ScalarList", "Scalar", "GenericList"],
    "Input Strides": [[150528, 50176, 224, 1], [147, 1, 21, 3], [], [], [], [[3, 1], [1]]],
    "Input Dims": [[32, 3, 224, 224], [64, 3, 7, 7], [], [], [], [[4, 3], [3]]],
    "Ev Idx": 3,
}
"""As torch 2.11 writes it, but for the list of tensors."""
KERNEL = {
    "registers per thread": 54,
    "shared memory": 2064,
    "blocks per SM": 2.969697,
    "warps per SM": 11.878788,
    "grid": [4, 98, 1],
    "block": [32, 4, 1],
    "est. achieved occupancy %": 19,
}
REDUCTION = {
    "Collective name": "allreduce",
    "In msg nelems": 6303744,
    "Out msg nelems": 6303744,
    "Group size": 2,
    "dtype": "Float",
    "Process Group Name": "0",
    "Process Group Description": "default_pg",
    "Process Group Ranks": "[0, 1]",
}
INPUTS = (
    "inputs: [32, 3, 224, 224] float, [64, 3, 7, 7] BFloat16 channels last, None, [2, 2], 1, 2 tensors ([4, 3], [3])"
)
GRID = "grid 4 x 98 x 1, block 32 x 4 x 1: 392 blocks, 50,176 threads".replace(" x ", " \N{MULTIPLICATION SIGN} ")


@pytest.mark.parametrize(
    ("args", "lines"),
    [
        (CONVOLUTION, [INPUTS]),
        (KERNEL, [GRID]),
        (REDUCTION, ["allreduce: elements 6,303,744 (24.0 MiB), float"]),
        (
            REDUCTION | {"Collective name": "_allgather_base", "Out msg nelems": 12607488, "dtype": "odd"},
            ["_allgather_base: elements 6,303,744 in, 12,607,488 out, odd"],
        ),
        (
            {"Input Dims": [[8, 4], []], "Input type": ["float", "float"], "Input Strides": [[1, 8], []]},
            ["inputs: [8, 4] float with strides [1, 8], [] float"],
        ),
        (
            {"Input Dims": [[1, 4]] * 20, "Input type": ["int"] * 20},
            [f"inputs: {'[1, 4] int, ' * 15}[1, 4] int and 4 more"],
        ),
        ({"Input Dims": [], "Input type": []}, []),
        ({}, []),
    ],
)
def test_args_are_told_in_words(args: dict[str, Any], lines: list[str]) -> None:
    assert list(event_texts(args).lines) == lines


def test_what_no_line_tells_is_listed_as_it_stands() -> None:
    assert dict(event_texts(CONVOLUTION).others) == {
        "External id": "12",
        "Sequence number": "443",
        "Fwd thread id": "0",
        "Record function id": "0",
        "Input Strides": "[[150528, 50176, 224, 1], [147, 1, 21, 3], [], [], [], [[3, 1], [1]]]",
        "Ev Idx": "3",
    }
    assert event_texts({"a": None, "b": "text", "c": {"d": [1.5, True]}}).others == (
        ("a", "null"),
        ("b", "text"),
        ("c", '{"d": [1.5, true]}'),
    )
    many = event_texts({f"key {number}": number for number in range(100)}).others
    assert (len(many), many[-1]) == (61, ("…", "40 more"))


@pytest.mark.parametrize("odd", [None, True, -1, 1e300, 10**40, "x" * 10**5, [[]], [None, {}], {"a": [1]}, [-1, 2, 3]])
def test_a_value_of_another_form_is_shown_and_breaks_nothing(odd: Any) -> None:
    whole = CONVOLUTION | KERNEL | REDUCTION
    for key in whole:
        recorded = event_texts(whole | {key: odd})
        texts = [*recorded.lines, *sum(recorded.others, ())]
        assert all(len(text) <= 600 for text in texts)
        if key not in {"Process Group Description", "dtype", "Input Strides"}:  # which any line can do without
            assert recorded != event_texts(whole)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*CONVOLUTION, *KERNEL, *REDUCTION]), JSON, max_size=8))
def test_no_args_break_anything(args: dict[str, Any]) -> None:
    event_texts(args)


def packed(html: str) -> dict[str, Any]:
    return Page(html).figures[0]


def columns(html: str) -> bytes:
    """Return the bytes of the columns of a page with one timeline."""
    (code,) = (code for attributes, code in Page(html).scripts if attributes.get("class") == "columns")
    block = zlib.decompress(base64.b64decode(code))
    return block[4 + int.from_bytes(block[:4], "little") :]


def told_of(html: str, source: str, at: int) -> tuple[list[str], dict[str, str]]:
    """Return what the page says of the args of an event: lines and others, as its script puts them together."""
    args = packed(html)["args"]
    lane = next(lane for lane in packed(html)["lanes"] if lane["source"] == source)

    def column(name: str) -> np.ndarray:
        offset, width, count, *_ = lane["columns"].get(name, [0, 0, at + 1])
        if width == 0:
            return np.full(count, offset)
        planes = np.frombuffer(columns(html), np.uint8, width * count, offset).reshape(width, count)
        return sum(
            (plane.astype(np.int64) << 8 * place for place, plane in enumerate(planes)), np.zeros(count, np.int64)
        )

    lines, others = ([args["texts"][text] for text in texts] for texts in args["sets"][column("set")[at]])
    own: dict[str, str] = {}
    for number, name in enumerate(OWN_NUMBER_ARGS):
        difference = column(f"own {number}")
        total = int(np.where(difference % 2, -(difference + 1) // 2, difference // 2)[: at + 1].sum())
        own |= {name: str(total - 1)} if total else {}
    return lines, dict(others) | own


def trained(steps: int = 3) -> TraceBuilder:
    """Steps with an op on shapes in each, its kernel with a grid, and a copy."""
    builder = TraceBuilder()
    for step in range(steps):
        zero = 1000 * step
        builder.step(step, zero, 990)
        builder.event("cpu_op", "aten::conv2d", zero + 50, 300, **CONVOLUTION | {"Ev Idx": 7 * step})
        builder.kernel(zero + 200, 400, launch=zero + 70, name="conv_kernel")
        builder.events[-1]["args"] |= KERNEL | {"External id": 12}
        builder.copy("DtoH (Device -> Pinned)", zero + 700, 60, launch=zero + 400, size=4096)
        builder.events[-1]["args"]["memory bandwidth (GB/s)"] = 0.06 + step / 1000
    return builder


def page_of(builder: TraceBuilder, folder: Path) -> str:
    return fragment(analysed(builder, folder))


def test_a_page_has_equal_args_once_and_each_events_own_numbers(tmp_path: Path) -> None:
    html = page_of(trained(), tmp_path)
    args = packed(html)["args"]
    assert args["why"] == ""
    assert sum("inputs:" in str(text) for text in args["texts"]) == 1
    for step in range(3):
        lines, others = told_of(html, "ops", step)
        assert lines[0].startswith("inputs: [32, 3, 224, 224] float")
        assert others["Ev Idx"] == str(7 * step)
        assert (others["External id"], others["Sequence number"]) == ("12", "443")
    lines, others = told_of(html, "gpu", 4)
    assert lines[0].startswith("grid 4")
    assert (others["correlation"], others["External id"]) == ("5", "12")
    assert "memory bandwidth (GB/s)" not in told_of(html, "gpu", 5)[1]
    assert told_of(html, "calls", 5) == ([], {"correlation": "6"})
    assert packed(page_of(trained(30), tmp_path))["args"]["sets"] == args["sets"]


def test_a_page_without_the_file_says_why_it_tells_no_args(tmp_path: Path) -> None:
    analysis = analysed(trained(), tmp_path)
    trained().write(tmp_path / "trace.json").write_text('{"traceEvents": []}')
    assert "changed" in packed(fragment(analysis))["args"]["why"]
    (tmp_path / "trace.json").unlink()
    assert "gone" in packed(fragment(analysis))["args"]["why"]


def test_odd_args_of_a_file_break_no_page(tmp_path: Path) -> None:
    builder = trained()
    odd: list[Any] = [
        {"grid": "no", "huge": list(range(400_000))},
        {"Input Dims": [[[[1]]]], "Input type": [[]], "Concrete Inputs": {}},
        {HOSTILE: HOSTILE, "lone": "\ud800", "big": 10**400, "External id": "text", "Ev Idx": -5},
        {"nan": float("nan"), "inf": [float("inf")]},
    ]
    for number, args in enumerate(odd):
        builder.event("cpu_op", f"odd {number}", 3000 + 10 * number, 5, **args)
    deep = builder.event("cpu_op", "deep", 3050, 5, deep="DEEP")
    file = builder.write(tmp_path / "trace.json")
    assert deep
    file.write_text(file.read_text().replace('"DEEP"', "[" * 5000 + "]" * 5000))
    html = fragment(analyse(read_trace(file)))
    assert HOSTILE not in html
    assert told_of(html, "ops", 2)[0][0].startswith("inputs: [32, 3, 224, 224] float")
    assert told_of(html, "ops", 3)[0] == ["its args are too long for this page"]
    assert dict(told_of(html, "ops", 4)[1])["Input Dims"] == "[[[[1]]]]"


@pytest.mark.parametrize(
    ("args", "others"),
    [
        ('{"Ev Idx": 41, "stream": 7}', {"Ev Idx": "41", "stream": "7"}),
        ('{\n  "stream": 7,\n  "Ev Idx": 42\n}', {"Ev Idx": "42", "stream": "7"}),
        ('{"Ev Idx":43,"stream":7}', {"Ev Idx": "43", "stream": "7"}),
        ('{"Ev Idx": 44, "inner": {"Ev Idx": 45}}', {"Ev Idx": "44", "inner": '{"Ev Idx": 45}'}),
        ('{"inner": {"correlation": 46}}', {"inner": '{"correlation": 46}'}),
        ('{"Ev Idx": 47, "Ev Idx": 48}', {"Ev Idx": "48"}),
        ('{"Ev Idx": 49.5, "stream": 7}', {"Ev Idx": "49.5", "stream": "7"}),
        ('{"Ev Idx": -50}', {"Ev Idx": "-50"}),
        ('{"a \\"Ev Idx": 51}', {'a "Ev Idx': "51"}),
        ('{"Ev Idx": 9007199254740993}', {"Ev Idx": "9007199254740993"}),
        ('{"Ev Idx": 92233720368547758070}', {"Ev Idx": "92233720368547758070"}),
        ('{"Ev Idx": 52, "text": "\0"}', {}),
    ],
)
def test_an_event_keeps_its_own_numbers_whatever_the_form_of_its_args(
    args: str, others: dict[str, str], tmp_path: Path
) -> None:
    builder = trained()
    for number, text in enumerate(("BEFORE", "ODD", "BEHIND")):
        builder.event("cpu_op", "aten::add", 3000 + 10 * number, 5, form=text)
    file = builder.write(tmp_path / "trace.json")
    text = file.read_text()
    for form, usual in (("BEFORE", 60), ("BEHIND", 61)):
        text = text.replace(f'{{"form": "{form}"}}', f'{{"External id": 1, "Ev Idx": {usual}}}')
    file.write_text(text.replace('{"form": "ODD"}', args))
    html = fragment(analyse(read_trace(file)))
    if others:
        assert told_of(html, "ops", 4)[1] == others
    assert [told_of(html, "ops", place)[1]["Ev Idx"] for place in (3, 5)] == ["60", "61"]


def test_too_many_different_args_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "MAX_PAGE_ARGS_CHARS", 200)
    interned = Interned()
    numbers = [interned.args({"address": str(10**12 + number)}) for number in range(100)]
    assert len(interned.sets) < 20
    assert numbers[0] == interned.args({"address": str(10**12)})
    assert numbers[-1] == numbers[-2] != numbers[0]
    (line,) = interned.sets[numbers[-1]][0]
    assert "too many" in list(interned.texts)[line]
    assert json.dumps(interned.sets)
