"""Programs that nobody thought of: what is copied without a wait is what would have been copied with one.

On the CPU there is no such copy. Here it reads the memory of a batch when the program has ended: later than any GPU.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixing import LOADER, mended
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("PINPROF_FIX_EXAMPLES", "60"))
FILE = "train.py"
HEADS = ("for step, (x, y) in enumerate(loader):", "for batch in loader:", "for step in range(5):")
COPIES = (
    *("x = x.to(device)", "a = x.to(device)", "x, y = x.to(device), y.to(device)", "show(x.to(device))") * 3,
    *("x, y = [t.to(device) for t in batch]", "batch = [t.to(device) for t in batch]", "a = batch[0].to(device)") * 3,
    *("if step:\n    x = x.to(device)", "a = x.view(-1).to(device)", "x, y = batch\nx = x.to(device)"),
)
OTHERS = (
    *("x.add_(1)", "batch[0].add_(1)", "a.add_(1)", "y.add_(1)", "kept[0].add_(1)", "poke()", "x.view(-1).add_(1)"),
    *("x, y = batch", "x = y", "x = mine", "mine.add_(1)", "kept = batch", "kept = [x, y]", "y = x.view(-1)", "a = x"),
    *("show(x.to(device))", "show(a.to(device))", "n = x.size(0)", "x = x.to(device)", "y = y.to(device)"),
    *("if step % 2:\n    continue", "if step == 3:\n    break", "if step:\n    x.add_(1)", "if n:\n    x = mine"),
    *("x, y = next(batches)", "batch = next(batches)", "batches = iter(loader)"),
    *("for x in kept:\n    x.add_(1)", "def poke(): x.add_(1)", "def poke(): batch[0].add_(1)"),
)
OUTSIDE = ("pass", "pass", *OTHERS)
TRAIN = """from torch.utils.data import DataLoader


def train(data, device, show, mine, other):
    loader = DataLoader(data, num_workers=2, pin_memory=True)  #! loader
    step, n, x, y, a, poke = 0, 1, mine, mine, mine, lambda: None
    batch = kept = [mine, mine]
    batches = iter(loader)
"""


class Gpu:
    """A number on the GPU: `of` reads what it was copied from."""

    def __init__(self, of: Callable[[], int]) -> None:
        self._of, self._more = of, 0

    def add_(self, more: int) -> "Gpu":
        self._more += more
        return self

    def now(self) -> Callable[[], int]:
        """Return what reads the number as it is now, however late it is called."""
        more = self._more
        return lambda: self._of() + more

    def to(self, device: str, *, non_blocking: bool = False) -> "Gpu":
        del device, non_blocking
        return self

    def view(self, *_: int) -> "Gpu":
        return self

    def size(self, _: int) -> int:
        return 1


class Host:
    """A number in memory of the host."""

    def __init__(self, value: int, copied: set[int]) -> None:
        self.value, self._copied = value, copied

    def add_(self, more: int) -> "Host":
        self.value += more
        return self

    def to(self, device: str, *, non_blocking: bool = False) -> Gpu:
        assert device
        self._copied.add(sys._getframe(1).f_lineno)
        if non_blocking:
            return Gpu(lambda: self.value)
        value = self.value
        return Gpu(lambda: value)

    def now(self) -> Callable[[], int]:
        value = self.value
        return lambda: value

    def view(self, *_: int) -> "Host":
        return self

    def size(self, _: int) -> int:
        return 1


class Ran:
    """What a program showed, and the lines that began to draw from the DataLoader, and those that copied."""

    def __init__(self, code: str) -> None:
        self.begun: set[int] = set()
        self.copied: set[int] = set()
        self.ended = ""
        shown: list[Callable[[], int]] = []
        ran = self

        class Loader:
            def __init__(self, data: range, **_: Any) -> None:
                self.data = data

            def __iter__(self) -> Iterator[list[Host]]:
                ran.begun.add(sys._getframe(1).f_lineno)
                return iter([[Host(10 * i, ran.copied), Host(10 * i + 5, ran.copied)] for i in self.data])

        space: dict[str, Any] = {"DataLoader": Loader}
        exec(compile(code.replace("from torch.utils.data import DataLoader", ""), FILE, "exec"), space)
        host = Host(1000, self.copied)
        sys.settrace(_Clock())
        try:
            space["train"](range(4), "cuda", lambda value: shown.append(value.now()), host, [[host, host]] * 9)
        except Exception as error:  # noqa: BLE001  of any kind
            self.ended = type(error).__name__
        finally:
            sys.settrace(None)
        self.shown = [value() for value in shown]


class _TooLongError(Exception):
    pass


class _Clock:
    """Ends a program that goes on for ever."""

    def __init__(self) -> None:
        self.lines = 0

    def __call__(self, frame: Any, what: str, _: Any) -> "Any":
        if frame.f_code.co_filename != FILE:
            return None
        self.lines += what == "line"
        if self.lines > 400:
            raise _TooLongError
        return self


def block(lines: list[str], depth: int) -> str:
    return "".join(f"{'    ' * depth}{line}\n" for text in lines for line in text.split("\n"))


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Draw a training function that copies what it may have drawn from a DataLoader."""

    def some(of: tuple[str, ...], most: int) -> list[str]:
        return [draw(st.sampled_from(of)) for _ in range(draw(st.sampled_from((0, 0, 0, 1, most))))]

    head = draw(st.sampled_from(HEADS))
    step = [
        *some(OTHERS, 1)[: draw(st.sampled_from((0, 0, 0, 1)))],
        *(["x, y = next(batches)"] if "range" in head else []),
    ]
    step += [
        *some(OTHERS, 1),
        draw(st.sampled_from(COPIES)),
        *some(OTHERS, 2),
        draw(st.sampled_from(("show(a)", "show(x)"))),
    ]
    last = draw(st.sampled_from(("", "", "", "else:")))
    epochs = draw(st.booleans())
    inner = block(some(OUTSIDE, 1), 1) + block([head], 1) + block(step, 2)
    inner += (block([last], 1) + block([draw(st.sampled_from(OTHERS[:10]))], 2)) if last else ""
    inner += block(some(OUTSIDE, 1), 1)
    if epochs:
        inner = block(["for epoch in range(2):"], 1) + block(inner.rstrip("\n").split("\n"), 1)
    return TRAIN + block(some(OUTSIDE, 1), 1) + inner + block(some(OTHERS[:10], 1), 1)


def recorded(code: str, ran: Ran) -> str:
    """Return a program whose lines say what a trace would."""
    lines = code.split("\n")
    for number in ran.begun:
        lines[number - 1] += "  #! loop"
    for number in ran.copied:
        lines[number - 1] += "  #? PIN102"
    return "\n".join(lines)


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=EXAMPLES <= 60)
@given(programs())
def test_a_copy_that_nobody_waits_for_copies_the_same(tmp_path_factory: pytest.TempPathFactory, code: str) -> None:
    try:
        before = Ran(code)
    except SyntaxError:
        return
    if not before.copied:
        event("nothing copied")
        return
    loader = replace(LOADER, pin_memory=True)
    outcome = mended(_folder(tmp_path_factory), recorded(code, before), loader=loader, pinned=True)
    event("changed" if outcome.patches.patches else f"refused: {re.sub('[0-9]+', 'N', outcome.why)[:60]}")
    if outcome.patches.patches:
        after = Ran(outcome.code)
        assert (after.shown, after.ended) == (before.shown, before.ended), outcome.code


def _folder(factory: pytest.TempPathFactory) -> Path:
    folder = factory.getbasetemp() / "memory"
    folder.mkdir(exist_ok=True)
    return folder
