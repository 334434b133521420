"""One experiment that fails, dies or hangs costs no other its figures."""

import math
import multiprocessing
import os
import time

import pytest
from bench_parts import batches_of_workers, echo, kill_itself, part, pictures, print_and_echo, start_method

from pinprof.bench.catalogue import EXPERIMENTS, experiment
from pinprof.bench.results import Bar, Figure, Picture
from pinprof.errors import PinprofError
from pinprof.workloads.apart import Apart, ApartError, sentence
from pinprof.workloads.runner import BEGIN_BY_S, MORE_BY_S, Stage, run_experiments, stages

CHOSEN = [experiment(f"E{number}") for number in range(1, 6)]


@pytest.mark.slow
def test_a_failure_costs_only_its_own_experiment() -> None:
    seen: list[tuple[str, str, str]] = []
    with Apart() as apart:
        results = run_experiments(
            CHOSEN,
            [Stage("all", part)],
            apart=apart,
            timeout_s=3,
            on_progress=lambda far, known, last: seen.append((far, known.number, last)),
        )
    assert [result.number for result in results] == ["E1", "E2", "E3", "E4", "E5"]
    assert [result.problem for result in results] == [
        None,
        "RuntimeError: CUDA error: out of memory",
        "its process ended with exit status 7",
        "not done after 3 s",
        None,
    ]
    assert all(len(result.figures) == 1 for result in results)  # what came before the failure is kept
    processes = [result.figures[0].median for result in results]
    assert processes[0] == processes[1]
    assert len(set(processes)) == 4
    assert os.getpid() not in processes
    assert seen[:3] == [("all, 1 of 5", "E1", ""), ("all, 1 of 5", "E1", "process"), ("all, 2 of 5", "E2", "")]
    assert results[0].sizes == {"floats": 1_000_000}
    assert results[0].figures[0].low == 1_000_000


def test_a_stage_may_begin_in_a_new_process_and_all_give_one_result() -> None:
    with Apart() as apart:
        stages = [Stage("first", part), Stage("late", pictures, frozenset({"E1"}), fresh=True)]
        first, last = run_experiments([CHOSEN[0], CHOSEN[4]], stages, apart=apart, quick=True)
    assert [figure.name for figure in first.figures] == ["process", "late"]
    assert first.figures[0].median != first.figures[1].median
    assert first.figures[0].high == 1
    assert first.pictures == (Picture("E1", (Bar("host", "copy", 0.0, 1.0),), "because"),)
    assert [figure.name for figure in last.figures] == ["process"]
    assert last.sizes["tries"] == 10


def test_rounds_give_one_figure_and_a_failure_ends_the_rounds_of_its_experiment() -> None:
    with Apart() as apart:
        rounds = [Stage(f"round {number}", part) for number in range(3)]
        first, failed = run_experiments(CHOSEN[:2], rounds, apart=apart)
    assert [(figure.name, figure.runs) for figure in first.figures] == [("process", 3)]
    assert [(figure.name, figure.runs) for figure in failed.figures] == [("process", 1)]
    assert failed.problem == "RuntimeError: CUDA error: out of memory"


def test_times_come_from_rounds_in_processes_of_their_own_and_answers_from_one() -> None:
    *rounds, once, traces = stages(quick=False)
    assert [stage.name for stage in rounds] == [f"round {number}" for number in range(1, 10)]
    assert [stage.fresh for stage in rounds] == [False] + [True] * 8
    everything = {known.number for known in EXPERIMENTS}
    there = [everything - (stage.numbers or set()) for stage in rounds]
    assert there[0] == set()
    assert there[1] == there[2] == {"E5", "E6", "E9"}
    assert there[3] == there[6] == {"E5", "E6", "E9", "E11", "E12", "E15"}
    assert rounds[7].numbers == rounds[8].numbers == frozenset({"E13"})
    assert (once.numbers, once.fresh) == (frozenset({"E15"}), False)
    assert traces.numbers == frozenset({"E2", "E3", "E4", "E8", "E10", "E14"})
    assert not traces.fresh
    assert [stage.name for stage in stages(quick=True)] == ["round 1", "once", "traces"]


def test_a_bench_that_takes_long_leaves_out_rounds_but_no_traces() -> None:
    *rounds, once, traces = stages(quick=False)
    assert [stage.begin_by_s for stage in rounds] == [math.inf] * 3 + [BEGIN_BY_S] * 4 + [MORE_BY_S] * 2
    assert once.begin_by_s == math.inf
    assert traces.begin_by_s == math.inf
    with Apart() as apart:
        chosen = [Stage("first", part), Stage("late", part, begin_by_s=0.0), Stage("traces", pictures)]
        (result,) = run_experiments([CHOSEN[0]], chosen, apart=apart)
    assert [(figure.name, figure.runs) for figure in result.figures] == [("process", 1), ("late", 1)]
    assert len(result.pictures) == 1


def test_what_is_left_hanging_ends_with_the_block() -> None:
    with Apart() as apart:
        calls = apart.call(part, "E4", {}, False, timeout_s=60)
        figure = next(calls)
        assert isinstance(figure, Figure)
        del calls  # the caller gives up
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            os.kill(int(figure.median), 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the process is still there")


def test_a_crash_is_named_by_its_signal_and_the_next_call_works() -> None:
    with Apart() as apart:
        with pytest.raises(ApartError, match="its process was ended by SIGSEGV"):
            list(apart.call(kill_itself, timeout_s=60))
        assert list(apart.call(echo, 1, "two", timeout_s=60)) == [1, "two"]
        assert list(apart.call(echo, timeout_s=60)) == []


def test_an_error_is_one_line() -> None:
    assert sentence(PinprofError("too little memory")) == "too little memory"
    assert sentence(ValueError("bad\nmore")) == "ValueError: bad"
    assert sentence(KeyError()) == "KeyError"


def test_what_is_printed_there_stays_off_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    with Apart() as apart:
        assert list(apart.call(print_and_echo, 1, timeout_s=60)) == [1]
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "noise\n")


def test_a_loader_starts_its_workers_there_as_it_does_in_any_program() -> None:
    with Apart() as apart:
        assert list(apart.call(start_method, timeout_s=60)) == [multiprocessing.get_start_method()]


@pytest.mark.slow
def test_a_loader_starts_its_workers_there() -> None:
    with Apart() as apart:
        assert list(apart.call(batches_of_workers, timeout_s=60)) == ["PlainBatch"] * 4
