"""What torch.compile keeps of its own work, and what the rules say of it."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch
from host_builder import host_profile
from trace_builder import TraceBuilder

from pinprof.analyses.host_samples import measure_host
from pinprof.capture.observe.compiler import compiled_frames, graph_breaks, last_compiled, recompilations
from pinprof.capture.steps.sources import Observer, StepEvent, reporting_modules
from pinprof.measurement.measure import measure
from pinprof.rules.rule import Findings
from pinprof.rules.search import find
from pinprof.trace.lines import Place
from pinprof.trace.metadata.run_log import RUN_KEY, CompilerNote, RunLog

STEPS = 4
BRANCH = CompilerNote(Place("net.py", 12, "forward"), "a branch on the value of a tensor", 3)


@pytest.fixture
def compiling() -> Iterator[None]:
    utils: Any = pytest.importorskip("torch._dynamo.utils")

    def forget() -> None:
        torch._dynamo.reset()
        utils.counters.clear()
        utils.graph_break_reasons.clear()
        utils.clear_compilation_metrics()

    forget()
    yield
    forget()


def branching(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    if y.sum() > 0:
        y = y * 2
    print(end="")  # noqa: T201  what cannot be compiled
    return y - 1


def printing_in_a_loop(x: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        x = x + 1
        print(end="")  # noqa: T201  what cannot be compiled
    return x


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="eager", **options)


@pytest.mark.slow
@pytest.mark.usefixtures("compiling")
def test_where_compiled_code_ends_is_noted_with_the_reason() -> None:
    compiled(branching)(torch.ones(3))
    first = branching.__code__.co_firstlineno
    assert {(note.place.line, note.place.function, note.reason) for note in graph_breaks()} == {
        (first + 2, "branching", "a branch on the value of a tensor"),
        (first + 4, "branching", "print()"),
    }
    assert compiled_frames() > 1


@pytest.mark.slow
@pytest.mark.usefixtures("compiling")
def test_a_function_that_is_left_to_python_is_noted_at_the_line_that_cannot_be_compiled() -> None:
    compiled(printing_in_a_loop)(torch.ones(3))
    (note,) = graph_breaks()
    assert note.place == Place(note.place.file, printing_in_a_loop.__code__.co_firstlineno + 3, "printing_in_a_loop")
    assert note.reason == "print(), for which the whole function runs without compiling"


@pytest.mark.slow
@pytest.mark.usefixtures("compiling")
def test_a_function_that_is_compiled_again_is_noted_with_its_guard() -> None:
    step = compiled(torch.nn.Sequential(torch.nn.ReLU()).forward, dynamic=False)
    for length in (3, 4, 4, 5):
        step(torch.ones(length))
    (note,) = recompilations()
    assert note.count == 2
    assert note.reason.endswith("size mismatch at index 0. expected 4, actual 5")
    assert note.place == last_compiled()
    assert graph_breaks() == ()


class Layers(torch.nn.Module):
    """Cannot be compiled as a whole: its layers are called from Python."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
            print(end="")  # noqa: T201  what cannot be compiled
        return x


@pytest.mark.usefixtures("compiling")
def test_calls_of_modules_that_are_reported_are_not_compiled_by_themselves() -> None:
    class Silent(Observer):
        def saw(self, event: StepEvent, subject: Any = None) -> None:
            pass

    with reporting_modules(Silent()):
        compiled(Layers())(torch.ones(4))
    assert [note.place.function for note in graph_breaks()] == ["forward"]
    names = [code.co_name for code in torch._dynamo.utils.get_compilation_metrics()]
    assert names == ["forward"]


@pytest.mark.usefixtures("compiling")
def test_what_was_compiled_under_an_earlier_report_is_reported_once() -> None:
    class Counting(Observer):
        calls = 0

        def saw(self, _: StepEvent, __: Any = None) -> None:
            Counting.calls += 1

    with reporting_modules(Counting()):
        module = compiled(Layers())
    with reporting_modules(Counting(), type(module)):
        module(torch.ones(4))
    assert Counting.calls == 1
    assert "saw" not in [code.co_name for code in torch._dynamo.utils.get_compilation_metrics()]


def test_what_a_version_of_torch_does_not_note_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = SimpleNamespace(co_filename="net.py", co_firstlineno=3, co_name="forward")
    utils = SimpleNamespace(get_compilation_metrics=lambda: [SimpleNamespace(), compiled])
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", utils)
    assert (graph_breaks(), recompilations(), last_compiled()) == ((), (), Place("net.py", 3, "forward"))


def found(
    *, kernel: float = 2, pieces: int = 3, breaks: tuple[CompilerNote, ...] = (BRANCH,), sampled: str = "Net.forward"
) -> Findings:
    """Steps of 1000 us: pieces of compiled code of 100 us that launch a kernel each, 200 us apart."""
    builder = TraceBuilder()
    for start in builder.steps(STEPS):
        builder.op("aten::add", start, 980)
        for number in range(max(pieces, 1)):
            at = start + 20 + 300 * number
            if pieces:
                builder.op(f"Torch-Compiled Region: {number}/0", at, 100)
            builder.kernel(at + 20, kernel, launch=at + 10)
    none = (0,) * STEPS
    log = RunLog(0, (("plain", STEPS),), (1_000_000,) * STEPS, none, none, none, 0, graph_breaks=breaks)
    builder.metadata[RUN_KEY] = msgspec.to_builtins(log)
    trace = builder.read()
    host = measure_host(host_profile((90, f"train.py:9:main > net.py:13:{sampled}")))
    return find(replace(measure(trace), host=host), trace)


@pytest.mark.parametrize(
    ("pieces", "ends"),
    [(3, "3 pieces of it run per step, with 400 µs between them"), (0, "no compiled code runs in the steps")],
)
def test_lines_at_which_compiled_code_ends_are_a_finding(pieces: int, ends: str) -> None:
    (finding,) = [finding for finding in found(pieces=pieces) if finding.rule.id == "PIN612"]
    where = "compiled code ends at net.py:12 (a branch on the value of a tensor)"
    assert finding.evidence.text == f"{where}: {ends}"
    assert finding.evidence.place == BRANCH.place


@pytest.mark.parametrize("options", [{"breaks": ()}, {"kernel": 330}, {"pieces": 0, "sampled": "Net.other"}])
def test_without_a_break_in_a_step_that_waits_there_is_no_finding(options: Any) -> None:
    assert "PIN612" not in {finding.rule.id for finding in found(**options)}
