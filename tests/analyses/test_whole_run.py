"""A whole run: regular and irregular steps, and the ledger."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyses.whole_run import (
    Expected,
    RegularStep,
    WholeRun,
    next_irregular_work,
    sum_up_run,
    timed_regular_step,
)
from pinprof.trace.lines import Place
from pinprof.trace.metadata.run_log import (
    CAPTURE,
    CHECKPOINT,
    COMPILE,
    EPOCH,
    EVALUATION,
    GARBAGE,
    IrregularWork,
    LaterSteps,
    RunLog,
)

MS = 1_000_000
VALIDATE = Place("train.py", 40, "validate")


def run(*step_ms: float, windows: tuple[tuple[str, int], ...] = (), input_ms: dict[int, float] | None = None) -> RunLog:
    """Return a run of such steps, by default all of the plain window."""
    steps = len(step_ms)
    waited = input_ms or {}
    return RunLog(
        start_up_ns=0,
        windows=windows or (("plain", steps),),
        step_ns=tuple(round(time * MS) for time in step_ms),
        own_ns=(0,) * steps,
        input_ns=tuple(round(waited.get(step, 0) * MS) for step in range(steps)),
        gpu_ns=(0,) * steps,
        after_ns=0,
    )


def timed_step(whole: WholeRun) -> RegularStep:
    assert whole.timed is not None
    return whole.timed


def timed(log: RunLog) -> RegularStep:
    step = timed_regular_step(log)
    assert step is not None
    return step


def reasons(whole: WholeRun) -> dict[str, tuple[int, float]]:
    """Return by reason how many steps it makes longer, and what it adds to them together, in ms."""
    return {row.reason: (row.count, row.ns / MS) for row in whole.irregular}


def test_the_regular_step_leaves_an_evaluation_out() -> None:
    log = replace(
        run(*[10.0] * 12, 500.0, *[10.0] * 12), work=(IrregularWork(12, EVALUATION, 0, 0),), places=(VALIDATE,)
    )
    whole = sum_up_run(log)
    step = timed_step(whole)
    assert (step.steps, step.step_ns, step.range_ns) == (24, 10 * MS, (9.95 * MS, 10.05 * MS))
    (row,) = whole.irregular
    assert (row.reason, row.count, row.ns, row.places) == ("evaluation", 1, 490 * MS, (VALIDATE,))
    assert row.per_step_ns == 490 * MS / 25


def test_the_other_runs_of_a_program_give_a_range_for_one_more() -> None:
    whole = sum_up_run(replace(run(*[10.0] * 20), runs_ns=(9 * MS, 10 * MS, 11 * MS)))
    assert whole.runs is not None
    assert whole.runs.step_ns == (9 * MS, 10 * MS, 11 * MS)
    assert whole.runs.range_ns is not None
    low, high = whole.runs.range_ns
    # the logarithms: their mean 2.2992, and 0.4987 around it: t = 4.303, times their deviation 0.1004, times sqrt(4/3)
    assert (low / MS, high / MS) == pytest.approx((6.05, 16.41), abs=0.01)
    assert sum_up_run(run(*[10.0] * 20)).runs is None


def test_steps_whose_batches_waited_since_a_start_of_the_loader_do_not_count() -> None:
    log = replace(run(*[1.0] * 8, *[10.0] * 12), filling=tuple(range(8)))
    step = timed(log)
    assert (step.steps, step.step_ns) == (12, 10 * MS)


def test_steps_with_waiting_batches_count_where_most_steps_have_them() -> None:
    log = replace(run(*[5.0] * 16, *[6.0] * 8), filling=tuple(range(16)))
    assert timed(log).steps == 24


def test_an_evaluation_in_each_step_makes_no_step_unlike() -> None:
    """Behind a profiler launches are slower, so that all steps from there on are longer."""
    log = run(*[10.0] * 80, *[18.0] * 20, windows=(("plain", 80), ("watch", 20)))
    whole = sum_up_run(replace(log, work=tuple(IrregularWork(step, EVALUATION) for step in range(100))))
    assert whole.irregular == ()
    assert whole.regular == 100
    assert (timed_step(whole).steps, timed_step(whole).step_ns) == (80, 10 * MS)


def noted(kind: str, timed_ms: int = 0) -> IrregularWork:
    return IrregularWork(12, kind, timed_ms * MS)


IN_ONE_STEP: dict[str, tuple[tuple[IrregularWork, ...], dict[str, tuple[int, float]]]] = {
    "a checkpoint takes what was timed, an evaluation the rest": (
        (noted(EVALUATION), noted(CHECKPOINT, 100)),
        {"evaluation": (1, 390), "checkpoint": (1, 100)},
    ),
    "so does the capture of a graph, and the compiler": (
        (noted(COMPILE), noted(CAPTURE, 100)),
        {"compile": (1, 390), "graph_capture": (1, 100)},
    ),
    "a collection takes the step": ((noted(GARBAGE, 450),), {"garbage_collection": (1, 490)}),
    "no more is put down than the step is longer": (
        (noted(CHECKPOINT, 700), noted(GARBAGE, 300)),
        {"checkpoint": (1, 490)},
    ),
    "an epoch takes both": ((noted(EPOCH, 200),), {"epoch_end": (1, 490)}),
    "a quick checkpoint in a long evaluation is not named": (
        (noted(EVALUATION), noted(CHECKPOINT, 1)),
        {"evaluation": (1, 490)},
    ),
}
"""What is noted in one step that is 490 ms longer than the others, and to what that is put down."""


@pytest.mark.parametrize(("work", "expected"), IN_ONE_STEP.values(), ids=IN_ONE_STEP)
def test_a_long_step_is_put_down_to_what_was_noted_in_it(
    work: tuple[IrregularWork, ...], expected: dict[str, tuple[int, float]]
) -> None:
    assert reasons(sum_up_run(replace(run(*[10.0] * 12, 500.0, *[10.0] * 12), work=work))) == expected


def test_compiling_first_steps_and_what_nothing_tells_are_told_apart() -> None:
    log = run(90.0, *[10.0] * 19, 90.0, *[10.0] * 19, 90.0, *[10.0] * 10)
    whole = sum_up_run(replace(log, work=(IrregularWork(40, COMPILE),)))
    assert reasons(whole) == {"first": (1, 80), "other": (1, 80), "compile": (1, 80)}


def test_work_that_comes_back_is_told_however_little_it_is() -> None:
    steps = [10.0] * 60
    steps[7::10] = [12.0] * 6
    assert reasons(sum_up_run(run(*steps))) == {"recurring": (6, 12)}
    steps[7::10] = [30.0] * 6
    (row,) = sum_up_run(run(*steps)).irregular
    assert (row.reason, row.every, row.count, row.ns) == ("recurring", 10, 6, 120 * MS)


def test_time_off_the_cpu_is_told_as_that() -> None:
    steps, off_cpu_ms = [10.0] * 60, [0] * 60
    steps[7::10] = [99.0] * 6
    off_cpu_ms[7::10] = [85] * 6
    busy = replace(run(*steps), off_cpu_ns=tuple(ms * MS for ms in off_cpu_ms))
    assert reasons(sum_up_run(busy)) == {"off_cpu": (6, 534)}
    half = replace(busy, off_cpu_ns=tuple(ns // 2 for ns in busy.off_cpu_ns))
    assert reasons(sum_up_run(half)) == {"off_cpu": (6, 255), "recurring": (6, 279)}
    assert next_irregular_work(busy) is None


def test_many_long_steps_for_no_reason_are_how_steps_scatter() -> None:
    steps = [10.0] * 40
    for step in (3, 4, 9, 17, 25, 26, 39):
        steps[step] = 40.0
    whole = sum_up_run(run(*steps))
    assert whole.irregular == ()
    assert timed_step(whole).step_ns == (33 * 10 + 7 * 40) * MS / 40


def test_what_a_new_epoch_waits_for_does_not() -> None:
    log = run(*[10.0] * 15, 70.0, *[10.0] * 15, input_ms={15: 60.0})
    assert reasons(sum_up_run(replace(log, work=(IrregularWork(15, EPOCH, 5 * MS),)))) == {"epoch_end": (1, 60)}


def test_the_time_of_the_gpu_tells_the_step_where_it_was_taken() -> None:
    log = replace(run(*[1.0] * 9, 91.0), gpu_ns=(10 * MS,) * 10)  # the host waits for the GPU in every tenth step
    whole = sum_up_run(log)
    assert whole.irregular == ()
    assert timed_step(whole).step_ns == 10 * MS


def test_a_host_that_ran_ahead_and_waits_makes_no_step_longer() -> None:
    log = replace(
        run(*[10.0] * 9, *[1.0] * 9, 91.0, *[1.0] * 9, 191.0, windows=(("plain", 9), ("after", 20))),
        gpu_ns=(10 * MS,) * 9 + (0,) * 20,
    )
    assert reasons(sum_up_run(log)) == {"other": (1, 100)}


def test_steps_under_the_profiler_are_not_regular_nor_irregular() -> None:
    windows = (("warm-up", 3), ("plain", 9), ("profiler warm-up", 2), ("recorded", 3), ("lines", 3), ("after", 2))
    steps = [10.0] * 12 + [400.0, 40.0, *[30.0] * 3, *[90.0] * 3] + [10.0] * 2
    whole = sum_up_run(replace(run(*steps, windows=windows), own_ns=(0,) * 12 + (50 * MS,) + (0,) * 9))
    assert whole.irregular == ()
    assert whole.regular == 14
    assert {entry.what: entry.ns / MS for entry in whole.ledger} == {"regular": 140, "pinprof": 850}


def test_the_steps_that_are_unlike_the_regular_one_are_told_apart() -> None:
    figure = timed(run(*[10.0] * 9, 400.0, *[10.0] * 9, 500.0, windows=(("plain", 20),)))
    assert (figure.steps, figure.step_ns) == (18, 10 * MS)
    assert (figure.others, figure.other_ns) == (2, 450 * MS)


def test_work_that_came_regularly_is_expected_again() -> None:
    steps = [10.0] * 36
    steps[5::10] = [99.0] * 4
    work = tuple(IrregularWork(step, EVALUATION) for step in range(5, 36, 10))
    assert next_irregular_work(replace(run(*steps), work=work)) == Expected("evaluation", 10, 9)
    assert next_irregular_work(replace(run(*steps[:32]), work=work[:3])) == Expected("evaluation", 10, 3)
    assert next_irregular_work(run(*steps)) == Expected("recurring", 10, 9)
    assert next_irregular_work(replace(run(*steps[:20]), work=work[:2])) is None  # once between two shows no period


def test_later_steps_and_what_pinprof_took_have_rows_of_their_own() -> None:
    log = replace(run(*[10.0] * 9), later=LaterSteps(5, 50 * MS, 20 * MS), own_after_ns=MS)
    ledger = {entry.what: entry.ns / MS for entry in sum_up_run(log).ledger}
    assert ledger == {"regular": 90, "input": 20, "later": 30, "pinprof": 1}


STEP_NS = st.one_of(st.just(10 * MS), st.just(11 * MS), st.integers(0, 900 * MS))
TIMES = st.lists(st.tuples(STEP_NS, *[st.integers(0, 500 * MS)] * 2, st.one_of(st.just(0), STEP_NS)), max_size=40)


@given(TIMES, st.data())
def test_the_ledger_adds_up_to_the_run(rows: list[tuple[int, int, int, int]], data: st.DataObject) -> None:
    step, own, waited, on_gpu = zip(*rows, strict=True) if rows else ((),) * 4
    cut = data.draw(st.integers(0, len(rows)))
    kinds = st.sampled_from([EVALUATION, CHECKPOINT, EPOCH, COMPILE])
    work = data.draw(
        st.lists(st.builds(IrregularWork, st.integers(0, len(rows)), kinds, st.integers(0, 900 * MS)), max_size=9)
    )
    windows = (("warm-up", cut), ("recorded", len(rows) - cut))
    log = RunLog(7, windows, step, own, waited, on_gpu, 11, 13, tuple(work), later=LaterSteps(2, 17, 3))
    whole = sum_up_run(log)
    assert sum(entry.ns for entry in whole.ledger) == whole.wall_ns == sum((*step, *own)) + 7 + 11 + 13 + 17
    assert all(entry.ns > 0 for entry in whole.ledger)
