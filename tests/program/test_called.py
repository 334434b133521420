"""What a line is calling, as its instruction and its source tell."""

import linecache
import sys
from types import FrameType
from typing import Any

import pytest

from pinprof.program.frames import called_at


class Caller:
    """Notes what its caller calls whenever one of its methods runs."""

    def __init__(self) -> None:
        self.called: list[str | None] = []

    def note(self, *_: object) -> Any:
        frame: FrameType | None = sys._getframe(1)
        assert frame is not None
        self.called.append(called_at(frame.f_code, frame.f_lasti))
        return self

    item = __getitem__ = __setitem__ = __call__ = __add__ = note

    def __bool__(self) -> bool:
        frame = sys._getframe(1)
        self.called.append(called_at(frame.f_code, frame.f_lasti))
        return True

    def __format__(self, how: str) -> str:
        frame = sys._getframe(1)
        self.called.append(called_at(frame.f_code, frame.f_lasti))
        return ""


def calls(source: str, name: str) -> list[str | None]:
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    value = Caller()
    exec(compile(source, name, "exec"), {"x": value, "several": {"x": value}})
    return value.called


CASES = [
    *(("if x:\n    pass\n", ["bool"]), ("not x\n", ["bool"]), ("y = x and 1\n", ["bool"]), ("x['mask']\n", ["[]"])),
    *(("x[1] = 2\n", ["[]="]), ("x + 1\n", [None]), ("f'{x}'\n", ["format"])),
]
NAMED = [
    ("x.item()\n", ["item"]),
    ("y = [x.item(1), x(2)]\n", ["item", "x"]),
    ("print(\n  'é', x.item(\n    3)\n)\n", ["item"]),
    ("several['x'](1)\n", [None]),
]


@pytest.mark.parametrize(("source", "expected"), CASES)
def test_the_instruction_tells_what_is_called(source: str, expected: list[str | None]) -> None:
    assert calls(source, f"<case {source}>") == expected


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns before Python 3.11")
@pytest.mark.parametrize(("source", "expected"), NAMED)
def test_the_source_tells_which_name_is_called(source: str, expected: list[str | None]) -> None:
    assert calls(source, f"<case {source}>") == expected


def test_a_source_that_has_changed_tells_no_name() -> None:
    name = "<changed>"
    code = compile("\n\nx.item()", name, "exec")
    linecache.cache[name] = (1, None, ["x\n"], name)
    value = Caller()
    exec(code, {"x": value})
    assert value.called == [None]
