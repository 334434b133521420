"""The line of a call, looked up in source: compared with the line that Python itself runs."""

import sys
from collections import defaultdict
from types import CodeType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.trace.sources import call_line, fits, loop_line


class Fake:
    """Stands for a tensor: notes the line and the function that call its method."""

    def __init__(self) -> None:
        self.lines: dict[CodeType, set[int]] = defaultdict(set)

    def item(self, *_: object) -> int:
        caller = sys._getframe(1)
        self.lines[caller.f_code].add(caller.f_lineno)
        return 1


def body(*lines: str) -> str:
    """Return a file with one function `f`, which begins on line 1; the given lines follow."""
    return "\n".join(["def f(x):", *("    " + line for line in lines)]) + "\n"


def item_line(source: str, function: str = "f", at: int = 1) -> int | None:
    return call_line(source, function, at, "item", of_object=True)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("x.item()",), 2),
        (("pass", "return x.sum().item() + 1"), 3),
        (("pass", "x.item() if x else 0"), 3),
        (("if x:", "    pass", "elif x.item():", "    pass"), 4),
        (("total = max(", "    1,", "    x.item(),", ")"), 4),
        (("y = \\", "    x.item()"), 3),
        (('log(f"{x.item():.3f}")',), 2),
        (("with x:", "    for y in range(x.item()):", "        pass"), 3),
        (("[y.item() for y in x]",), 2),
        (("item = 3", "x.item()", "print(item)"), 3),
        (("def g():", "    pass", "x.item()"), 4),
        (('log("\\d")', "x.item()"), 3),
    ],
)
def test_the_only_call_of_the_name_has_its_line(lines: tuple[str, ...], expected: int) -> None:
    assert item_line(body(*lines)) == expected


@pytest.mark.parametrize(
    "lines",
    [
        *(("pass",), ("x.item()", "x.item()"), ("x.item() + x.item()",), ("read = x.item", "read()")),
        *(("read = x.item", "x.item()", "read()"), ('getattr(x, "item")()',), ('getattr(x, "item")()', "x.item()")),
        *(("list(map(torch.Tensor.item, x))",), ("(x", " .sum()", " .item())"), ("(lambda: x.item())()",)),
        *(("sum(y.item() for y in x)",), ("def g():", "    return x.item()", "g()")),
        *(("class C:", "    read = x.item()"), ("@mark(x.item())", "def g():", "    pass")),
        *(("def g(y=x.item()):", "    pass"), ("x.item = None", "x.item()")),
        ("x.items()", "x.itemize()", "# x.item()"),
    ],
)
def test_no_line_is_certain_where_another_could_be_it(lines: tuple[str, ...]) -> None:
    assert item_line(body(*lines)) is None


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("pass", "synchronize()"), 3),
        (("pass", "torch.cuda.synchronize()"), 3),
        (("from torch.cuda import synchronize", "synchronize()"), 3),
        *(
            ((other_name, "wait()", "synchronize()"), None)
            for other_name in ("run(synchronize)", "wait = synchronize", "import synchronize as a")
        ),
        (("from torch.cuda import synchronize as wait", "wait()", "synchronize()"), None),
    ],
)
def test_a_function_has_its_line_unless_it_also_goes_by_another_name(
    lines: tuple[str, ...], expected: int | None
) -> None:
    assert call_line(body(*lines), "f", 1, "synchronize", of_object=False) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("y = body(x)", "z = torch.stack([head(part) for part in y])"), 3),
        (
            (
                "for group in groups:",
                "    rate = group['rate']",
                "    for p in group['params']:",
                "        p.mul_(rate)",
            ),
            4,
        ),
        (("ps = [p for p in ps if p.grad is not None]", "while ps:", "    ps.pop().mul_(2)"), 3),
        (("for a in x:", "    a.mul_(2)", "for b in y:", "    b.mul_(2)"), None),
        (("return {name: new * 0.9 for name, new in x}",), 2),
        (("for a in x:", "    a.mul_(2)", "else: [b.mul_(2) for b in y]"), None),
        (("y = [head(part) for part in [body(each) for each in x]]",), None),
        (("y = body(x)",), None),
        (("def g():", "    for a in x:", "        a.mul_(2)", "g()"), None),
    ],
)
def test_the_line_of_a_loop_is_that_of_the_only_one_which_computes(
    lines: tuple[str, ...], expected: int | None
) -> None:
    assert loop_line(body(*lines), "f", 1) == expected


def test_the_code_of_a_comprehension_is_a_loop_at_its_line() -> None:
    source = body("loss = sum(", "    part.mean() for part in x", ")", "f = lambda: 1")
    assert [loop_line(source, name, 3) for name in ("<genexpr>", "<listcomp>", "<lambda>")] == [3, None, None]


@pytest.mark.parametrize("name", ["__init__", "__enter__", "__call__", "__next__", "__getattr__"])
def test_what_python_calls_without_its_name_has_no_line(name: str) -> None:
    source = body(f"super().{name}()", "self.fc = nn.Linear(3, 3)", "with self.fc:", "    self.fc(next(x))")
    assert call_line(source, "f", 1, name, of_object=False) is None


DECORATED = """\
@retry(3)
@torch.no_grad()
def evaluate(model):
    for batch in model:
        batch.item()
"""


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
def test_a_function_is_found_by_any_of_its_lines(at: int) -> None:
    """A trace has the first line, that of the first decorator, or the one on which a running function stood."""
    assert fits(DECORATED, "evaluate", at)
    assert item_line(DECORATED, "evaluate", at) == 5


@pytest.mark.parametrize("at", [-1, 0, 6, 10**9])
def test_a_function_is_not_found_by_other_lines(at: int) -> None:
    assert not fits(DECORATED, "evaluate", at)
    assert item_line(DECORATED, "evaluate", at) is None


def test_what_runs_where_a_function_is_defined_is_no_use_in_it() -> None:
    source = "@mark(y.item())\ndef f(x, n=y.item()):\n    return eval('x.it' + 'em()')\n"
    assert item_line(source) is None
    assert item_line(source.replace("eval('x.it' + 'em()')", "x.item()")) == 3


TWICE = """\
class Linear:
    def forward(self, x):
        return x.item()

class Conv:
    def forward(self, x):
        pass
        return x.item()

if FAST:
    def run(x): return x.item()
else:
    def run(x): return 1 + x.item()
"""


@pytest.mark.parametrize(("function", "at", "expected"), [("forward", 2, 3), ("forward", 6, 8), ("run", 11, 11)])
def test_of_functions_of_one_name_that_at_the_line_is_taken(function: str, at: int, expected: int) -> None:
    assert item_line(TWICE, function, at) == expected
    assert fits(TWICE, function, at)


@pytest.mark.parametrize("function", ["Net.forward", "build.<locals>.Net.forward", "Net.forward.<locals>.<other>"])
def test_a_qualified_name_fits_as_the_name_alone(function: str) -> None:
    source = "class Net:\n    def forward(self):\n        return x.item()\n"
    assert fits(source, function, 3)
    assert not fits(source, "Net.backward", 3)


@pytest.mark.parametrize(
    ("function", "code"),
    [
        ("<lambda>", "(lambda: x.item())()"),
        ("<listcomp>", "[y.item() for y in x]"),
        ("<setcomp>", "{y.item() for y in x}"),
        ("<dictcomp>", "{y: y.item() for y in x}"),
        ("<genexpr>", "sum(y.item() for y in x)"),
    ],
)
def test_code_without_a_name_fits_where_there_is_some_but_has_no_line(function: str, code: str) -> None:
    source = body(code, "x.item()")
    assert fits(source, function, 2)
    assert not fits(source, function, 3)
    assert item_line(source, function, 2) is None


@pytest.mark.parametrize(
    "source",
    [
        *("", "\n", "def f(x):\n", "def f(x):\n    x.item(\n", "def f(x):\n\tx.item()\n        x\n", "\0"),
        *("def f(x):\n    x.item()\0\n", "\ufeffdef f(x): x.item(", "\ud800", "(" * 10_000, "MZ\x90\x00\x03"),
        *("print 'python 2'", "a" * 100_000),
    ],
)
def test_what_is_no_python_has_no_lines(source: str) -> None:
    assert item_line(source) is None
    assert not fits(source, "f", 1)


@pytest.mark.parametrize("count", [100, 900, 1_500, 2_500, 20_000])
@pytest.mark.parametrize("part", ["+1", ".a"])
def test_deeply_nested_source_has_its_line_or_none(count: int, part: str) -> None:
    assert item_line(f"def f(x):\n    return x.item(){part * count}\n") in (2, None)


STATEMENTS = (
    "pass",
    "x.item()",
    "y = x.item() + 1",
    "y = x.item(); z = x.item()",
    "(x\n    .item())",
    "(x.item\n    ())",
    "x.item(\n    1)",
    "max(\n    1,\n    x.item(),\n)",
    "y = \\\n    x.item()",
    "x.item(x.item())",
    "x.item(\n    x.item())",
    "y = f'{x.item()}'",
    "y = f'''\n{x.item()}\n'''",
    "y = [x.item() for _ in range(2)]",
    "y = [\n    x.item()\n    for _ in range(2)\n]",
    "y = {n: x.item() for n in range(x.item())}",
    "y = list(x.item() for _ in range(2))",
    "y = list(n for n in range(x.item()))",
    "y = (lambda: x.item())()",
    "y = (lambda n=x.item(): n)()",
    "read = x.item\nread()",
    "read = x.item\nx.item()",
    "getattr(x, 'item')()",
    "item = x.item\nitem()",
    "item = 1\ny = item",
    "def g():\n    return x.item()\ng()",
    "def g(n=x.item()):\n    return n\ng()",
    "@mark(x.item())\ndef g():\n    return x.item()\ng()",
    "@mark(1)\ndef g():\n    x.item()\n    return x.item()\ng()",
    "def main():\n    return x.item()\nmain()",
    "def g():\n    yield x.item()\nlist(g())",
    "class C:\n    z = x.item()",
    "class C:\n    def item(self):\n        return x.item()\nC().item()",
    "if x.item():\n    pass\nelse:\n    x.item()",
    "while x.item() < 0:\n    pass",
    "for _ in range(x.item()):\n    pass",
    "try:\n    1 / 0\nexcept ZeroDivisionError:\n    x.item()\nfinally:\n    y = 1",
    "try:\n    pass\nfinally:\n    x.item()",
    "assert x.item(), x.item()",
    "match x.item():\n    case 1:\n        pass",
    "if (y := x.item()):\n    pass",
)


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def run(source: str) -> Fake:
    fake = Fake()
    scope = {"x": fake, "mark": lambda _: lambda function: function}
    exec(compile(source, "program.py", "exec"), scope)
    return fake


def check_against_python(source: str) -> None:
    for code, lines in run(source).lines.items():
        assert fits(source, code.co_name, code.co_firstlineno) or source.count("def main") > 1
        for at in (code.co_firstlineno, *lines):
            line = item_line(source, code.co_name, at)
            assert line is None or {line} == lines


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_line_is_that_which_python_runs_or_none(statement: str) -> None:
    check_against_python(f"def main():\n{indented(statement)}main()\n")
    check_against_python(f"{statement}\n")


blocks = st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=3).map("\n".join)


@given(blocks, blocks, st.booleans())
def test_a_line_of_many_statements_is_that_which_python_runs_or_none(first: str, second: str, nested: bool) -> None:
    inner = f"@mark(1)\ndef helper():\n{indented(second)}"
    outer = "def main():\n" + indented(f"{inner}{first}\nhelper()" if nested else first)
    check_against_python((outer if nested else inner + outer) + "main()\n")
