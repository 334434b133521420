"""Programs of ops and waits, some of them every few steps: no wait gets the line of another."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import msgspec
import pytest
from quick import slow_but
from trace_builder import TraceBuilder

from pinprof.analyses.syncs.lines.matching import lines_of_waits
from pinprof.analyses.syncs.lines.recorded import learn_contexts, lines_of_stalls
from pinprof.analyses.syncs.stalls import measure_stalls
from pinprof.trace.lines import CONTEXTS_KEY, WATCHED_KEY, DebugModeWaits, SourceLine, WatchedWait

CALLED = {"aten::item": "item", "aten::is_nonzero": "bool", "aten::nonzero": "nonzero", "aten::to": "to"}

WAITING = CALLED | {"aten::index": "[]", "aten::type_as": "type_as", "aten::inverse": "inverse"}
"""All ops that wait, with what the program calls."""

RECORDED_STEPS = range(35, 40)

PINS = "aten::copy_later"
"""An op that copies without waiting."""


@dataclass(frozen=True)
class Statement:
    """A line of a program: an op, which waits if it is one of `WAITING`; it runs in steps `phase + n * period`."""

    op: str
    period: int = 1
    phase: int = 0

    @property
    def waits(self) -> bool:
        return self.op in WAITING

    def runs(self, step: int) -> bool:
        return step % self.period == self.phase


Program = Sequence[Statement]


def line_at(number: int) -> SourceLine:
    return SourceLine("train.py", number, "train", (f"train.py:{number}:train",))


def built(program: Program, steps: range, *, marked: bool = False) -> tuple[TraceBuilder, list[int]]:
    """Return the trace of some steps of a program, and the numbers of the lines of its waits, in order."""
    builder, truth = TraceBuilder(), []
    for place, step in enumerate(steps):
        at = 20_000.0 * place
        builder.step(step, at, 19_990)
        builder.kernel(at + 10, 5, launch=at + 2)
        for number, statement in enumerate(program):
            at += 100
            if not statement.runs(step):
                continue
            builder.op(statement.op, at, 40)
            if marked and statement.op == PINS:
                builder.op("aten::is_pinned", at + 42, 2)  # asked while lines are recorded
            if statement.waits:
                builder.call("cudaStreamSynchronize", at + 5, 20)
                truth.append(number)
                if marked:
                    builder.event("user_annotation", f"pinprof line {number}", at + 45, 1)
    return builder, truth


def watched(program: Program, steps: range) -> DebugModeWaits:
    waiting = [number for number, statement in enumerate(program) if statement.waits]
    sequences = {tuple(place for place, number in enumerate(waiting) if program[number].runs(step)) for step in steps}
    at = {number: [step - steps.start for step in steps if program[number].runs(step)] for number in waiting}
    called = [WAITING[program[number].op] for number in waiting]
    waits = [
        WatchedWait(line_at(number), name, name, "main", len(at[number]), tuple(at[number]))
        for number, name in zip(waiting, called, strict=True)
    ]
    seen = [place for place, wait in enumerate(waits) if wait.at]
    index = {place: number for number, place in enumerate(seen)}
    return DebugModeWaits(
        len(steps),
        tuple(waits[place] for place in seen),
        tuple(tuple(index[place] for place in sequence) for sequence in sequences),
    )


def given(
    program: Program,
    *,
    lines: int = 3,
    watching: int = 200,
    in_order: bool = True,
    numbered: bool = True,
) -> list[tuple[int, int | None]]:
    """Return of each wait of the recorded steps its true line, and the one that it gets.

    `in_order`: watching kept the order of the waits in the steps. `numbered`: the lines window learned lines, not only
    the functions.
    """
    builder, truth = built(program, RECORDED_STEPS)
    begin = RECORDED_STEPS.stop + 2
    marked = built(program, range(begin, begin + lines), marked=True)[0].read()
    stalls = measure_stalls(marked)
    lines_at = [line_at(number) for number in range(len(program))]
    learned = lines_of_stalls(marked, stalls, lines_at if numbered else [replace(at, line=None) for at in lines_at])
    builder.metadata[CONTEXTS_KEY] = msgspec.to_builtins(learn_contexts(marked, stalls, learned))
    if watching:
        begin += lines
        seen = watched(program, range(begin, begin + watching))
        builder.metadata[WATCHED_KEY] = msgspec.to_builtins(seen if in_order else replace(seen, sequences=None))
    trace = builder.read()
    stalls = measure_stalls(trace)
    numbers = [line.line if line else None for line in lines_of_waits(trace, stalls)]
    assert len(numbers) == len(truth)
    return list(zip(truth, numbers, strict=True))


def any_program(seed: int) -> list[Statement]:
    """Return a program of up to 60 lines, which repeats every 100 steps.

    It has few names of ops, so that many places look alike. What is watched holds all its kinds of steps.
    """
    random = Random(seed)
    names = [f"aten::op{number}" for number in range(random.choice([3, 5, 10, 30]))]
    program = []
    for _ in range(random.randint(1, 60)):
        waits = random.random() < random.choice([0.1, 0.4])
        period = random.choice([1, 1, 1, 2, 4, 5, 10, 20, 50]) if waits or random.random() < 0.1 else 1
        op = random.choice(list(CALLED)) if waits else random.choice(names)
        program.append(Statement(op, period, random.randrange(period)))
    return program


@pytest.mark.parametrize("first", slow_but([0], range(0, 120, 20)))
def test_no_wait_gets_the_line_of_another(first: int) -> None:
    for seed in range(first, first + 20):
        wrong = [(true, got) for true, got in given(any_program(seed)) if got not in {None, true}]
        assert not wrong, f"seed {seed}: {wrong}"


def lines_of(pairs: list[tuple[int, int | None]], line: int) -> set[int | None]:
    return {got for true, got in pairs if true == line}


OPS = [Statement(f"aten::op{number}") for number in range(30)]
EACH_STEP = Statement("aten::item")
EVERY_TEN = Statement("aten::item", 10, 7)  # step 37 is recorded; lines are learned in steps 42 to 44


def test_a_read_every_ten_steps_beside_another_of_each_step_has_its_line() -> None:
    pairs = given([*OPS[:8], EVERY_TEN, EACH_STEP, *OPS[8:]])
    assert pairs == [(9, 9), (9, 9), (8, 8), (9, 9), (9, 9), (9, 9)]


def test_a_line_that_waits_only_in_evaluations_takes_no_line_from_another() -> None:
    loop = [Statement("aten::nonzero"), *OPS]
    evaluation = [replace(statement, period=200, phase=100) for statement in loop]
    began = Statement("aten::op31", 200, 37)  # so that no wait with lines was among just these ops
    program = [*OPS[:7], began, *loop, *evaluation]
    assert [got for _, got in given(program)] == [8, 8, 8, 8, 8]
    assert [got for _, got in given(program, in_order=False)] == [8, 8, None, 8, 8]


def test_waits_of_which_only_the_function_was_recorded_have_the_lines_that_were_watched() -> None:
    program = [Statement("aten::op0"), Statement("aten::item"), Statement("aten::op1"), Statement("aten::item")]
    assert {truth == found for truth, found in given(program, numbered=False)} == {True}
    assert {found for _, found in given(program, numbered=False, watching=0)} == {None}


def test_two_lines_that_take_turns_have_their_own() -> None:
    turns = [Statement("aten::item", 2, 0), *OPS[8:16], Statement("aten::item", 2, 1)]
    pairs = given([*OPS[:8], *turns, *OPS[16:]])
    assert lines_of(pairs, 8) == {8}
    assert lines_of(pairs, 17) == {17}


def test_two_lines_that_take_turns_at_one_place_have_none_where_only_one_was_recorded() -> None:
    turns = [Statement("aten::item", 4, 2), Statement("aten::item", 4, 1)]  # step 45 would be the other's
    pairs = given([*OPS[:8], *turns, *OPS[8:]], lines=1)
    assert {got for _, got in pairs} == {None}


def test_a_program_that_was_watched_for_few_steps_gets_no_line_from_that() -> None:
    assert given([*OPS[:8], EVERY_TEN, *OPS[8:]], watching=19) == [(8, None)]
    assert given([*OPS[:8], EVERY_TEN, *OPS[8:]], watching=20) == [(8, 8)]


SAME = [Statement("aten::op0")] * 20
"""Too many for the ops around a wait to identify it."""


def test_layers_among_the_same_ops_have_their_lines_by_the_order_of_all_their_waits() -> None:
    """A subscript may read a number, too: the waits of one kind cannot be counted by themselves."""
    layer = [*SAME, Statement("aten::item"), *SAME, Statement("aten::index"), Statement("aten::index")]
    pairs = given([*layer, *layer, *layer])
    assert len(pairs) == 45
    assert {got == true for true, got in pairs} == {True}


def test_what_pinprof_asks_while_it_records_lines_is_no_op_of_the_program() -> None:
    first, second = ([Statement(PINS), Statement("aten::type_as")] for _ in range(2))
    program = [*first, *OPS[:2], *second, *OPS[2:4]]
    pairs = given(program, watching=0)
    assert {got == true for true, got in pairs} == {True}


def loops(steps: int, seed: int, *, marked: bool = False) -> tuple[TraceBuilder, list[int]]:
    """Return a trace of steps that look at one to five boxes each, with two reads per box, and one behind all."""
    random, builder, truth = Random(seed), TraceBuilder(), []
    for step in range(steps):
        boxes = random.randint(1, 5)
        body = [*range(1, 8), 100, *range(8, 15), 200, *range(15, 20)]
        at = 10_000.0 * step
        builder.step(step, at, 9_990)
        builder.kernel(at + 10, 5, launch=at + 2)
        for number in (*body * boxes, *range(20, 27), 300, *range(27, 34)):
            at += 100 / boxes
            reads = number >= 100
            builder.op("aten::nonzero" if reads else f"aten::op{number}", at, 40 / boxes)
            if reads:
                builder.call("cudaStreamSynchronize", at + 1, 5)
                truth.append(number)
                if marked:
                    builder.event("user_annotation", f"pinprof line {number}", at + 45 / boxes, 0.5)
    return builder, truth


def test_waits_in_loops_of_any_length_have_their_lines() -> None:
    marked = loops(3, seed=1, marked=True)[0].read()
    stalls = measure_stalls(marked)
    learned = lines_of_stalls(marked, stalls, [line_at(number) for number in range(400)])
    builder, truth = loops(5, seed=2)
    builder.metadata[CONTEXTS_KEY] = msgspec.to_builtins(learn_contexts(marked, stalls, learned))
    trace = builder.read()
    lines = lines_of_waits(trace, measure_stalls(trace))
    assert [line.line if line else None for line in lines] == truth


Played = tuple[TraceBuilder, list[int]]
ASKED = ("to", "cpu", "tensor", "cpu")
OBSERVATION, ACTION, BATCH, WRITTEN = 0, 1, 2, 3


def plays(rollouts: Sequence[int], *, writes: int | None = None, marked: bool = False, silent: bool = False) -> Played:
    """Return a trace of steps of reinforcement learning: N actions, five tensors of a batch, and a figure.

    The figure is written in one step alone. `silent`: the observation is copied without waiting, of pageable memory.
    """
    builder, truth = TraceBuilder(), []
    for step, actions in enumerate(rollouts):
        at = 10_000.0 * step
        builder.step(step, at, 9_990)
        builder.kernel(at + 10, 5, launch=at + 2)
        waits = [OBSERVATION, ACTION] * actions + [BATCH] * 5 + [WRITTEN] * (step == writes)
        for number in waits:
            at += 300
            builder.op("aten::lift_fresh" if number == BATCH else "aten::mul", at - 150, 40)
            builder.op("aten::to", at, 40)
            if silent and number == OBSERVATION:
                builder.copy("HtoD (Pageable -> Device)", at + 5, 5, launch=at + 1, call=20)
            else:
                builder.call("cudaStreamSynchronize", at + 1, 20)
            truth.append(number)
            if marked:
                builder.event("user_annotation", f"pinprof line {number}", at + 45, 0.5)
    return builder, truth


def given_of_plays(*, silent: bool = False) -> list[tuple[int, int | None]]:
    """Return the true line of each wait of five steps, and the one that it gets; no step with an action has lines."""
    marked = plays([0], marked=True)[0].read()
    stalls = measure_stalls(marked)
    learned = lines_of_stalls(marked, stalls, [line_at(number) for number in range(4)])
    builder, truth = plays([0, 1, 2, 1, 0], writes=3, silent=silent)
    builder.metadata[CONTEXTS_KEY] = msgspec.to_builtins(learn_contexts(marked, stalls, learned))
    waits = [WatchedWait(line_at(number), name, name, "main", 40, (0, 7)) for number, name in enumerate(ASKED)]
    sequences = [(OBSERVATION, ACTION) * actions + (BATCH,) * 5 for actions in range(4)]
    seen = DebugModeWaits(200, tuple(waits), (*sequences, *((*sequence, WRITTEN) for sequence in sequences)))
    builder.metadata[WATCHED_KEY] = msgspec.to_builtins(seen)
    trace = builder.read()
    numbers = [line.line if line else None for line in lines_of_waits(trace, measure_stalls(trace))]
    return list(zip(truth, numbers, strict=True))


def test_copies_whose_number_varies_have_their_lines_where_each_waits() -> None:
    pairs = given_of_plays()
    assert len(pairs) == 5 * 5 + 4 * 2 + 1
    assert [got for _, got in pairs] == [true for true, _ in pairs]


def test_copies_that_sync_debug_mode_does_not_tell_of_cannot_be_counted() -> None:
    pairs = given_of_plays(silent=True)
    assert all(got in {None, true} for true, got in pairs)
    assert [got for true, got in pairs if true == OBSERVATION] == [None] * 4


@pytest.mark.parametrize("section", [5, {"names": 3}, {"waits": [{"op": "x"}]}, {"lines": [], "waits": [
    {"op": "aten::item", "thread": "main", "before": [0], "after": [], "line": 0, "most": 1}]}])  # fmt: skip
def test_malformed_contexts_are_none(section: object) -> None:
    builder, _ = built([*OPS[:3], EACH_STEP], range(2))
    builder.metadata[CONTEXTS_KEY] = section
    trace = builder.read()
    assert trace.info.contexts is None
    assert lines_of_waits(trace, measure_stalls(trace)) == [None, None]


def test_a_line_whose_own_waits_are_of_another_op_is_no_rival() -> None:
    """An index may read a number where it is one; at the last line it was seen to wait as an index."""
    read = "aten::item"
    program = [
        *(Statement(read), Statement(read, 2, 0), Statement(read), Statement(read, 2, 1), Statement(read, 2, 0)),
        Statement("aten::index"),
    ]
    waits = given(program)
    assert {true for true, _ in waits} == set(range(6))
    assert all(got == true for true, got in waits)
