"""What is learnt of an event about how its writer lays events out."""

import pytest

from pinprof.trace.scan.layouts import Layout, learn_layout

TORCH = (
    b'"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7,\n    "ts": 5.125, "dur": 3,\n    "args": {\n'
    b'      "stream": 7\n    }\n  },\n  {\n    '
)
SORTED = b'"args":{"stream":7},"cat":"kernel","dur":3,"name":"\\u00e9\\"","ph":"X","pid":0,"tid":7,"ts":5.125},{'
BARE = b'"name": "op", "ph": "X", "cat": "cpu_op", "ts": 5.125, "dur": 3, "tid": -4, "pid": 31}, {'


def cut(text: bytes) -> list[tuple[bytes, bytes]]:
    """Return the texts between the values, each with the value behind it."""
    layout = learn_layout(text)
    assert layout
    return [(gap.text, gap.value) for gap in layout.gaps]


def test_an_event_is_cut_at_its_name_its_times_and_its_arguments() -> None:
    assert cut(TORCH) == [
        (b'"ph": "X", "cat": "kernel", "name": "', b"name"),
        (b'", "pid": 0, "tid": 7,\n    "ts": ', b"ts"),
        (b', "dur": ', b"dur"),
        (b',\n    "args": {', b"args"),
        (b"}\n  },\n  {\n    ", b""),
    ]
    assert cut(SORTED) == [
        (b'"args":{', b"args"),
        (b'},"cat":"kernel","dur":', b"dur"),
        (b',"name":"', b"name"),
        (b'","ph":"X","pid":0,"tid":7,"ts":', b"ts"),
        (b"},{", b""),
    ]
    assert cut(BARE)[-1] == (b', "tid": -4, "pid": 31}, {', b"")


@pytest.mark.parametrize("text", [TORCH, SORTED, BARE])
def test_events_of_one_writer_have_one_layout(text: bytes) -> None:
    one, other = learn_layout(text), learn_layout(text.replace(b"kernel", b"gpu_memcpy").replace(b"7", b"12"))
    assert one
    assert other
    assert one.like == other.like
    assert one.quotes == text.replace(b'\\"', b"").count(b'"') - (0 if text is BARE else 2)  # that of "stream"


def test_what_stands_between_a_key_and_its_value_is_known() -> None:
    assert [layout.colon for layout in map(learn_layout, (TORCH, SORTED, BARE)) if layout] == [b": ", b":", b": "]


@pytest.mark.parametrize(
    ("usual", "odd"),
    [
        (b'"pid": 0', b'"pid": "Spans"'),
        (b'"ph": "X"', b'"ph": "i"'),
        (b'"cat": "kernel", ', b""),
        (b'"dur": 3', b'"dur": 3, "dur": 4'),
        (b'"dur": 3', b'"dur": 3, "id": 4'),
        (b'"dur": 3', b'"dur": null'),
        (b'"pid": 0, "tid": 7,\n    "ts": 5.125', b'"pid": 0, "ts": 5.125, "tid": 7'),
        (b'"stream": 7\n    }', b'"stream": 7'),
        (b"},\n  {", b"}\n  ]"),
    ],
)
def test_events_that_no_writer_lays_out_alike_have_no_layout(usual: bytes, odd: bytes) -> None:
    assert isinstance(learn_layout(TORCH), Layout)
    assert usual in TORCH
    assert learn_layout(TORCH.replace(usual, odd)) is None
