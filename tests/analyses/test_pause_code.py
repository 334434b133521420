"""What runs in pauses: steps of 1000 us with two ops of 100 us, and Python functions around and between them."""

from pathlib import Path

import pytest
from trace_builder import AUTOGRAD, TraceBuilder

from pinprof.analyses.pause_code import PausedCode, code_in_pauses
from pinprof.ground.intervals import union
from pinprof.trace import read_trace
from pinprof.trace.frames import is_torch_builtin
from pinprof.trace.sources import Sources
from pinprof.trace.spans.idle_times import long_pauses

STEPS = 3
MAIN = "train.py(1): main"
TRAINER = "/opt/lib/python3.12/site-packages/transformers/trainer.py"


def code(folder: Path, *functions: tuple[str, float, float], main: str = MAIN) -> PausedCode | None:
    """Return what runs in pauses; the functions of a step by name, begin and length in us, callers first."""
    builder = TraceBuilder()
    if functions:
        builder.function(main, 0, 1000 * STEPS)
    for start in builder.steps(STEPS):
        for op in (0, 890):
            builder.op("aten::add", start + op, 100)
            builder.kernel(start + op + 20, 50, launch=start + op + 10)
        for name, begin, length in functions:
            builder.function(name, start + begin, length)
    trace = read_trace(builder.write(folder / "trace.json"))
    starts = trace.steps.start_ns
    return code_in_pauses(trace, Sources(str(folder / "trace.json")), union(starts + 100_000, starts + 890_000))


def places(paused: PausedCode | None) -> list[tuple[str | None, str, tuple[str, ...], float]]:
    assert paused is not None
    return [
        (place.function, place.package, place.called, place.ns / STEPS / 1000) for place in paused.places if place.ns
    ]


def test_without_functions_nothing_is_known(tmp_path: Path) -> None:
    assert code(tmp_path) is None


def test_the_time_of_the_programs_own_code_is_its_own(tmp_path: Path) -> None:
    assert places(code(tmp_path, ("train.py(9): weights", 200, 600))) == [
        ("weights", "", (), 600),
        ("main", "", (), 190),
    ]


def test_a_library_is_named_by_what_does_little_else_and_by_what_takes_the_time_in_it(tmp_path: Path) -> None:
    paused = code(
        tmp_path,
        (f"{TRAINER}(5): train", 0, 990),  # launches the kernels, too
        (f"{TRAINER}(50): floating_point_ops", 150, 700),
        (f"{TRAINER}(70): num_parameters", 160, 680),
        (f"{TRAINER}(71): <genexpr>", 170, 660),
    )
    assert places(paused)[0] == ("main", "transformers", ("floating_point_ops", "num_parameters"), 700)


def test_a_function_that_runs_the_step_has_only_its_own_time(tmp_path: Path) -> None:
    paused = code(
        tmp_path,
        (f"{TRAINER}(5): train", 0, 990),
        *((f"{TRAINER}(9): training_step", at, 90) for at in (1, 892)),  # what it launches, train launches too
        (f"{TRAINER}(20): log", 120, 300),
        ("json/encoder.py(9): encode", 500, 300),
    )
    assert {(package, called): ns for _, package, called, ns in places(paused)} == {
        ("transformers", ("log",)): 300,
        ("json", ("encode",)): 300,
        ("transformers", ("train",)): 190,
    }


def test_a_call_into_torch_that_runs_no_op_is_no_python(tmp_path: Path) -> None:
    backward = "<built-in method run_backward of torch._C._EngineBase object at 0x7f>"
    paused = code(tmp_path, ("torch/autograd/graph.py(9): _engine_run_backward", 150, 700), (backward, 160, 680))
    assert paused is not None
    assert paused.outside_ns == 680_000 * STEPS
    assert paused.total_ns == 790_000 * STEPS


def test_what_a_builtin_calls_is_not_lost_and_parts_of_a_function_are_its_own(tmp_path: Path) -> None:
    paused = code(
        tmp_path,
        ("train.py(9): weights", 200, 600),
        ("<built-in function sum>", 210, 580),
        ("train.py(11): <genexpr>", 220, 560),
        ("helpers.py(3): <lambda>", 300, 100),
    )
    assert places(paused) == [("weights", "", (), 500), ("main", "", (), 190), ("<lambda>", "", (), 100)]


@pytest.mark.parametrize("line", [5, None])
def test_a_builtin_that_takes_most_of_a_function_shows_the_line(tmp_path: Path, line: int | None) -> None:
    (tmp_path / "train.py").write_text("def main():\n    pause()\n\ndef pause():\n    sleep(0.0005)\n")
    paused = code(tmp_path, ("train.py(4): pause", 200, 600), ("<built-in function sleep>", 210, 500 if line else 200))
    assert paused is not None
    assert [(place.function, place.line, place.ns / STEPS / 1000) for place in paused.places] == [
        ("pause", line, 600),
        ("main", None, 190),
    ]


def test_what_a_library_calls_back_is_the_programs_own(tmp_path: Path) -> None:
    paused = code(
        tmp_path,
        ("logging/__init__.py(9): info", 200, 600),
        ("logging/__init__.py(20): handle", 210, 580),
        ("train.py(30): emit", 220, 500),
        ("json/encoder.py(9): encode", 300, 90),
    )
    assert places(paused) == [
        ("emit", "", (), 410),
        ("main", "", (), 190),
        ("main", "logging", ("info", "handle"), 100),
        ("emit", "json", ("encode",), 90),
    ]


def test_a_hook_of_the_backward_pass_is_named_and_the_thread_that_waits_is_not(tmp_path: Path) -> None:
    backward = "<built-in method run_backward of torch._C._EngineBase object at 0x7f>"
    builder = TraceBuilder()
    builder.function(MAIN, 0, 1000 * STEPS)
    for start in builder.steps(STEPS):
        builder.function(backward, start + 100, 790)
        builder.op("aten::add", start, 100)
        builder.kernel(start + 20, 50, launch=start + 10)
        builder.op("autograd::engine::evaluate_function: AddBackward0", start + 100, 790, thread=AUTOGRAD)
        builder.function("train.py(30): clip", start + 150, 600, thread=AUTOGRAD)
        builder.op("aten::mul", start + 200, 100, thread=AUTOGRAD)
        builder.kernel(start + 220, 50, launch=start + 210, thread=AUTOGRAD)
    trace = builder.read()
    idle = long_pauses(trace)
    assert (idle.end - idle.start).tolist() == [50_000, 450_000, 110_000] * (STEPS - 1) + [50_000, 450_000]
    (hook, own) = places(code_in_pauses(trace, Sources(str(tmp_path)), idle))
    assert hook == ("clip", "", (), 500)
    assert own[0] == "main"  # between its steps


@pytest.mark.parametrize(
    ("name", "is_torch"),
    [
        ("<built-in method item of Tensor object at 0x1>", True),
        ("<built-in method tanh of type object at 0x1>", True),
        ("<built-in method __new__ of type object at 0x1>", False),
        ("<built-in method append of list object at 0x1>", False),
        ("<built-in function sleep>", False),
        ("torch/nn/functional.py(9): relu", False),
    ],
)
def test_a_builtin_of_torch_is_told_from_pythons(name: str, is_torch: bool) -> None:
    assert is_torch_builtin(name) is is_torch
