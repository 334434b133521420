"""One experiment that fails, dies or hangs costs no other its figures."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest
from bench_parts import part

from pinprof.bench import EXPERIMENTS, experiment_of
from pinprof.bench.catalogue.bandwidth import RATES
from pinprof.bench.results import Result
from pinprof.bench.runner import BenchPart, OtherProcess, Part, jobs, run_jobs

CHOSEN = [experiment_of(f"E{number}") for number in range(1, 6)]


@pytest.fixture
def process() -> Iterator[OtherProcess]:
    with closing(OtherProcess()) as process:
        yield process


def run(
    process: OtherProcess, numbers: Sequence[str], *parts: Part, fresh: bool = False, timeout_s: float = 60
) -> list[Result]:
    """Run the parts one after the other, each with all experiments."""
    chosen = [experiment_of(number) for number in numbers]
    made = (
        BenchPart(f"{at}", each, known, fresh=fresh and known is chosen[0])
        for at, each in enumerate(parts)
        for known in chosen
    )
    return run_jobs(chosen, made, process, quick=True, on_progress=lambda *_: None, timeout_s=timeout_s)


@pytest.mark.slow
def test_a_failure_costs_only_its_own_experiment(process: OtherProcess) -> None:
    seen: list[tuple[str, str, str]] = []
    results = run_jobs(
        CHOSEN,
        [BenchPart("all", part, known) for known in CHOSEN],
        process,
        quick=False,
        on_progress=lambda place, known, last: seen.append((place, known.number, last)),
        timeout_s=5,
    )
    assert [result.number for result in results] == ["E1", "E2", "E3", "E4", "E5"]
    assert [result.problem for result in results] == [
        None,
        "RuntimeError: CUDA error: out of memory",
        "its process ended with exit status 7",
        "not done after 5 s",
        None,
    ]
    assert all(len(result.figures) == 1 for result in results)  # what came before the failure is kept
    processes = [result.figures[0].median for result in results]
    assert len(set(processes)) == 4  # of E1 and E2 one
    assert os.getpid() not in processes
    assert seen[:3] == [("all", "E1", ""), ("all", "E1", "process"), ("all", "E2", "")]
    assert results[0].sizes == {"floats": 1_000_000}
    assert results[0].figures[0].low == 1_000_000


@pytest.mark.slow
def test_rounds_give_one_figure_and_a_failure_ends_the_rounds_of_its_experiment(process: OtherProcess) -> None:
    first, failed = run(process, ["E1", "E2"], part, part, part)
    assert [(figure.name, figure.runs) for figure in first.figures] == [("process", 3)]
    assert [(figure.name, figure.runs) for figure in failed.figures] == [("process", 1)]
    assert failed.problem == "RuntimeError: CUDA error: out of memory"


def rounds_of(number: str) -> str:
    """Return the numbers of an experiment's rounds."""
    made = [job for job in jobs(EXPERIMENTS, quick=False) if job.place.startswith("round")]
    return "".join(job.place[len("round ")] for job in made if job.experiment.number == number)


@pytest.mark.parametrize(
    ("numbers", "rounds"),
    [
        (("E1", "E2", "E4", "E10", "E13", "E14"), "1234567"),
        (("E8",), "12356"),
        (("E3",), "1246"),
        (("E7", "E11", "E12"), "135"),
        (("E5", "E6", "E9", "E15"), "1"),
    ],
)
def test_what_takes_seconds_has_fewer_rounds_spread_over_the_bench(numbers: tuple[str, ...], rounds: str) -> None:
    assert [rounds_of(number) for number in numbers] == [rounds] * len(numbers)


@pytest.mark.slow
def test_each_round_has_a_process_of_its_own_and_traces_come_last() -> None:
    made = list(jobs(EXPERIMENTS, quick=False))
    assert [job.place.partition(", ")[0] for job in made if job.fresh] == [f"round {number}" for number in range(2, 8)]
    assert [job.experiment.number for job in made[-6:]] == ["E2", "E3", "E4", "E8", "E10", "E14"]
    assert {job.place for job in made[-6:]} == {"traces"}
    assert [job.place for job in jobs([RATES], quick=False)] == ["round 1, 1 of 1", "round 4, 1 of 1"]
