"""Programs of ops and waits, some of which come every few steps: no wait gets the line of another."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import msgspec
import pytest
from trace_builder import TraceBuilder

from pinprof.analyses.syncs import learn_contexts, learn_lines, line_of_each, measure_stalls
from pinprof.analyses.syncs.recorded import recorded_lines
from pinprof.trace import read_trace
from pinprof.trace.lines import CONTEXTS_KEY, LINES_KEY, SourceLine
from pinprof.trace.tables import Trace
from pinprof.trace.watched import WATCHED_KEY, Watched, WatchedWait

CALLED = {"aten::item": "item", "aten::is_nonzero": "bool", "aten::nonzero": "nonzero"}


@dataclass(frozen=True)
class Statement:
    """A line of a program: an op, which waits if it is one of `CALLED`; it runs in steps `phase + n * period`."""

    op: str
    period: int = 1
    phase: int = 0

    @property
    def waits(self) -> bool:
        return self.op in CALLED

    def runs(self, step: int) -> bool:
        return step % self.period == self.phase


Program = Sequence[Statement]


def line_at(number: int) -> SourceLine:
    return SourceLine("train.py", number, "train", (f"train.py:{number}:train",))


def built(program: Program, steps: range, *, marked: bool = False) -> tuple[TraceBuilder, list[int]]:
    """Return the trace of some steps of a program, and the numbers of the lines of its waits, in order."""
    builder, truth = TraceBuilder(), []
    for place, step in enumerate(steps):
        at = 10_000.0 * place
        builder.step(step, at, 9_990)
        builder.kernel(at + 10, 5, launch=at + 2)
        for number, statement in enumerate(program):
            at += 100
            if not statement.runs(step):
                continue
            builder.op(statement.op, at, 40)
            if statement.waits:
                builder.call("cudaStreamSynchronize", at + 5, 20)
                truth.append(number)
                if marked:
                    builder.event("user_annotation", f"pinprof line {number}", at + 45, 1)
    return builder, truth


def watched(program: Program, steps: range) -> Watched:
    waiting = [number for number, statement in enumerate(program) if statement.waits]
    sequences = {tuple(place for place, number in enumerate(waiting) if program[number].runs(step)) for step in steps}
    at = {number: [step - steps.start for step in steps if program[number].runs(step)] for number in waiting}
    called = [CALLED[program[number].op] for number in waiting]
    waits = [
        WatchedWait(line_at(number), name, name, "main", len(at[number]), tuple(at[number]))
        for number, name in zip(waiting, called, strict=True)
    ]
    seen = [place for place, wait in enumerate(waits) if wait.at]
    index = {place: number for number, place in enumerate(seen)}
    return Watched(
        len(steps),
        tuple(waits[place] for place in seen),
        tuple(tuple(index[place] for place in sequence) for sequence in sequences),
    )


def read(builder: TraceBuilder, folder: Path) -> Trace:
    return read_trace(builder.write(folder / "trace.json"))


def given(
    program: Program, folder: Path, *, start: int = 35, recorded: int = 5, lines: int = 3, watching: int = 200
) -> list[tuple[int, int | None]]:
    """Return of each wait of the recorded steps its true line, and the one that it gets."""
    builder, truth = built(program, range(start, start + recorded))
    begin = start + recorded + 2
    marked = read(built(program, range(begin, begin + lines), marked=True)[0], folder)
    stalls = measure_stalls(marked)
    learned = line_of_each(marked, stalls, [line_at(number) for number in range(len(program))])
    builder.metadata[LINES_KEY] = msgspec.to_builtins(learn_lines(marked, stalls, learned))
    builder.metadata[CONTEXTS_KEY] = msgspec.to_builtins(learn_contexts(marked, stalls, learned))
    if watching:
        begin += lines
        builder.metadata[WATCHED_KEY] = msgspec.to_builtins(watched(program, range(begin, begin + watching)))
    trace = read(builder, folder)
    stalls = measure_stalls(trace)
    found = [line.line if line else None for line in recorded_lines(trace, stalls)]
    assert len(found) == len(truth)
    return list(zip(truth, found, strict=True))


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


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_no_wait_gets_the_line_of_another(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 20):
        wrong = [(true, got) for true, got in given(any_program(seed), tmp_path) if got not in {None, true}]
        assert not wrong, f"seed {seed}: {wrong}"


def test_most_waits_get_their_line(tmp_path: Path) -> None:
    found: Counter[bool] = Counter()
    for seed in range(40):
        found.update(got is not None for _, got in given(any_program(seed), tmp_path))
    assert found[True] > 0.8 * found.total()
