"""One experiment that fails, dies or hangs costs no other its figures."""

import os
import time

import pytest
from bench_parts import echo, kill_itself, part, pictures, print_and_echo

from pinprof.bench.catalogue import experiment
from pinprof.bench.results import Bar, Figure, Picture
from pinprof.errors import PinprofError
from pinprof.workloads.apart import Apart, ApartError, sentence
from pinprof.workloads.runner import Stage, run_experiments

CHOSEN = [experiment(f"E{number}") for number in range(1, 6)]


def test_a_failure_costs_only_its_own_experiment() -> None:
    seen: list[tuple[int, int, str, str]] = []
    with Apart() as apart:
        results = run_experiments(
            CHOSEN,
            [Stage(part)],
            apart=apart,
            timeout_s=3,
            on_progress=lambda number, of, known, last: seen.append((number, of, known.number, last)),
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
    assert seen[:3] == [(1, 5, "E1", ""), (1, 5, "E1", "process"), (2, 5, "E2", "")]
    assert results[0].sizes == {"floats": 1_000_000}
    assert results[0].figures[0].low == 1_000_000


def test_stages_have_processes_of_their_own_and_one_result() -> None:
    with Apart() as apart:
        stages = [Stage(part), Stage(pictures, frozenset({"E1"}))]
        first, last = run_experiments([CHOSEN[0], CHOSEN[4]], stages, apart=apart, quick=True)
    assert [figure.name for figure in first.figures] == ["process", "late"]
    assert first.figures[0].median != first.figures[1].median
    assert first.figures[0].high == 1
    assert first.pictures == (Picture("E1", (Bar("host", "copy", 0.0, 1.0),), "because"),)
    assert [figure.name for figure in last.figures] == ["process"]
    assert last.sizes["tries"] == 10


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
