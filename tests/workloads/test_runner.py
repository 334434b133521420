"""One experiment that fails, dies or hangs costs no other its figures."""

import math
import multiprocessing
import os
import time
from collections.abc import Sequence

import pytest
from bench_parts import batches_of_workers, echo, kill_itself, part, pictures, print_and_echo, six_times, start_method

from pinprof.bench.catalogue import EXPERIMENTS, experiment_of
from pinprof.bench.results import Bar, Figure, Picture, Usual, of_rounds
from pinprof.errors import PinprofError
from pinprof.workloads import runner
from pinprof.workloads.runner import BEGIN_BY_S, FURTHER_BY_S, Stage, run_experiments, stages
from pinprof.workloads.spawned_process import SpawnedProcess, SpawnedProcessError, sentence

CHOSEN = [experiment_of(f"E{number}") for number in range(1, 6)]


@pytest.mark.slow
def test_a_failure_costs_only_its_own_experiment() -> None:
    seen: list[tuple[str, str, str]] = []
    with SpawnedProcess() as process:
        results = run_experiments(
            CHOSEN,
            [Stage("all", part)],
            process=process,
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
    with SpawnedProcess() as process:
        stages = [Stage("first", part), Stage("late", pictures, frozenset({"E1"}), fresh=True)]
        first, last = run_experiments([CHOSEN[0], CHOSEN[4]], stages, process=process, quick=True)
    assert [figure.name for figure in first.figures] == ["process", "late"]
    assert first.figures[0].median != first.figures[1].median
    assert first.figures[0].high == 1
    assert first.pictures == (Picture("E1", (Bar("host", "copy", 0.0, 1.0),), "because"),)
    assert [figure.name for figure in last.figures] == ["process"]
    assert last.sizes["tries"] == 10


def test_rounds_give_one_figure_and_a_failure_ends_the_rounds_of_its_experiment() -> None:
    with SpawnedProcess() as process:
        rounds = [Stage(f"round {number}", part) for number in range(3)]
        first, failed = run_experiments(CHOSEN[:2], rounds, process=process)
    assert [(figure.name, figure.runs) for figure in first.figures] == [("process", 3)]
    assert [(figure.name, figure.runs) for figure in failed.figures] == [("process", 1)]
    assert failed.problem == "RuntimeError: CUDA error: out of memory"


def sure_and_further() -> tuple[list[Stage], list[Stage]]:
    """Return the rounds of a bench: what runs in them in any case, and what only if there is time."""
    *rounds, _once, _traces = stages(quick=False)
    further = [stage for stage in rounds if stage.begin_by_s == FURTHER_BY_S]
    return [stage for stage in rounds if stage not in further], further


def rounds_of(number: str) -> tuple[list[str], list[str]]:
    """Return the numbers of an experiment's rounds, as `sure_and_further` parts them."""
    sure, further = (
        [stage.name.removeprefix("round ") for stage in stages if number in (stage.numbers or ())]
        for stages in sure_and_further()
    )
    return sure, further


def test_times_come_from_rounds_in_processes_of_their_own_and_answers_from_one() -> None:
    sure, _ = sure_and_further()
    assert [(stage.name, stage.fresh) for stage in sure] == [(f"round {number}", number > 1) for number in range(1, 8)]
    assert sure[0].numbers == frozenset(known.number for known in EXPERIMENTS)
    *_, once, traces = stages(quick=False)
    assert (once.numbers, once.fresh) == (frozenset({"E15"}), False)
    assert traces.numbers == frozenset({"E2", "E3", "E4", "E8", "E10", "E14"})
    assert not traces.fresh
    assert [stage.name for stage in stages(quick=True)] == ["round 1", "once", "traces"]


@pytest.mark.parametrize(
    ("numbers", "sure", "further"),
    [
        (("E1", "E2", "E4", "E10", "E13", "E14"), "1234567", ""),
        (("E7", "E11", "E12"), "135", ""),
        (("E3", "E15"), "124", "6"),
        (("E8",), "123", "56"),
        (("E5", "E6", "E9"), "1", ""),
    ],
)
def test_what_takes_seconds_has_fewer_rounds_spread_over_the_bench(
    numbers: tuple[str, ...], sure: str, further: str
) -> None:
    assert [rounds_of(number) for number in numbers] == [(list(sure), list(further))] * len(numbers)


def test_what_has_further_rounds_runs_behind_what_is_sure_in_the_same_process() -> None:
    names = [stage.name for stage in stages(quick=False)]
    assert names == [f"round {number}" for number in (1, 2, 3, 4, 5, 5, 6, 6, 7)] + ["once", "traces"]
    assert not any(stage.fresh for stage in sure_and_further()[1])


def test_a_bench_that_takes_long_leaves_out_rounds_but_no_traces() -> None:
    sure, _ = sure_and_further()
    assert [stage.begin_by_s for stage in sure] == [math.inf] * 3 + [BEGIN_BY_S] * 4
    *_, once, traces = stages(quick=False)
    assert once.begin_by_s == math.inf
    assert traces.begin_by_s == math.inf
    with SpawnedProcess() as process:
        chosen = [Stage("first", part), Stage("late", part, begin_by_s=0.0), Stage("traces", pictures)]
        (result,) = run_experiments([CHOSEN[0]], chosen, process=process)
    assert [(figure.name, figure.runs) for figure in result.figures] == [("process", 1), ("late", 1)]
    assert len(result.pictures) == 1


def test_what_rounds_say_is_pooled_over_all_experiments_of_a_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[Usual | None] = []

    def noted(rounds: Sequence[Figure], usual: Usual | None) -> Figure:
        passed.append(usual)
        return of_rounds(rounds, usual)

    monkeypatch.setattr(runner, "of_rounds", noted)
    rounds = [Stage(f"round {number}", six_times, fresh=True) for number in range(2)]
    with SpawnedProcess() as process:
        run_experiments([CHOSEN[0]], rounds, process=process)
        assert passed == [None] * 6  # too few to say what is usual
        passed.clear()
        run_experiments([CHOSEN[0], CHOSEN[4]], rounds, process=process)
    assert len(passed) == 12
    assert passed[0] is not None
    assert set(passed) == {passed[0]}


def test_what_is_left_hanging_ends_with_the_block() -> None:
    with SpawnedProcess() as process:
        calls = process.call(part, "E4", {}, False, timeout_s=60)
        figure = next(calls)
        assert isinstance(figure, Figure)
        del calls  # the caller gives up
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.kill(int(figure.median), 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the process is still there")


def test_a_crash_is_named_by_its_signal_and_the_next_call_works() -> None:
    with SpawnedProcess() as process:
        with pytest.raises(SpawnedProcessError, match="its process was ended by SIGSEGV"):
            list(process.call(kill_itself, timeout_s=60))
        assert list(process.call(echo, 1, "two", timeout_s=60)) == [1, "two"]
        assert list(process.call(echo, timeout_s=60)) == []


def test_an_error_is_one_line() -> None:
    assert sentence(PinprofError("too little memory")) == "too little memory"
    assert sentence(ValueError("bad\nmore")) == "ValueError: bad"
    assert sentence(KeyError()) == "KeyError"


def test_what_is_printed_there_stays_off_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    with SpawnedProcess() as process:
        assert list(process.call(print_and_echo, 1, timeout_s=60)) == [1]
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "noise\n")


def test_a_loader_starts_its_workers_there_as_it_does_in_any_program() -> None:
    with SpawnedProcess() as process:
        assert list(process.call(start_method, timeout_s=60)) == [multiprocessing.get_start_method()]


@pytest.mark.slow
def test_a_loader_starts_its_workers_there() -> None:
    with SpawnedProcess() as process:
        assert list(process.call(batches_of_workers, timeout_s=60)) == ["PlainBatch"] * 4
