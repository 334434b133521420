"""`pinprof bench` and `pinprof workload`: on a machine without a GPU, and (marked) on one with it."""

from pathlib import Path

import pytest
import torch
from command_line import invoke, is_one_line_error
from fitting import fitting
from recordings import TRACES

from pinprof.bench import EXPERIMENTS
from pinprof.bench.advice import read_machine
from pinprof.bench.results import from_json

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
RECORDED = TRACES / "bench.json"


def test_list_has_one_line_for_each_experiment() -> None:
    lines = invoke("workload", "--list").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [[known.number, known.name] for known in EXPERIMENTS]


@pytest.mark.parametrize("words", [("--quick",), ("--only", "E13")])
def test_what_predictions_use_is_not_an_experiment(words: tuple[str, ...]) -> None:
    result = invoke("bench", "--rates", *words)
    assert is_one_line_error(result)
    assert "--rates measures what predictions use" in result.stderr


@pytest.mark.gpu
def test_rates_are_read_as_those_of_a_machine(tmp_path: Path) -> None:
    file = tmp_path / "rates.json"
    assert invoke("bench", "--rates", "--json", file).exit_code == 0
    assert read_machine(file).rates.htod
    assert fitting(file.read_text())["results"][0]["number"] == "E13"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("workload",), "--list"),
        (("workload", "E1", "--floats", "0"), "x>=1"),
        (("workload", "E1", "--record", "e1.txt"), ".json.gz"),
        (("bench", "--only", "E1,pinning_cost"), "twice"),
        (("bench", "--only", ""), "E1 pinning_cost"),
        (("bench", "--json", "missing/bench.json"), "missing"),
    ],
)
def test_wrong_usage_is_one_line(words: tuple[str, ...], said: str) -> None:
    result = invoke(*words)
    assert is_one_line_error(result)
    assert said in result.stderr


@no_gpu
@pytest.mark.skipif(not RECORDED.exists(), reason="no bench is recorded so far")
@pytest.mark.parametrize("words", [("bench", "--only", "E4"), ("workload", "E4")])
def test_without_a_gpu_the_recorded_result_is_shown_and_nothing_succeeds(words: tuple[str, ...]) -> None:
    result = invoke(*words)
    assert is_one_line_error(result)
    assert "nothing was measured: torch" in result.stderr
    assert "Recorded on an NVIDIA H100" in result.stdout
    assert "copy_overlap" in result.stdout
    assert "pinning_cost" not in result.stdout


@pytest.mark.gpu
def test_bench_writes_what_it_measured(tmp_path: Path) -> None:
    file, page = tmp_path / "bench.json", tmp_path / "bench.html"
    result = invoke("bench", "--quick", "--only", "E1,copy_overlap", "--json", file, "--html", page)
    assert result.exit_code == 0
    assert "pinning_cost" in result.stdout
    bench = from_json(file.read_bytes(), file.name)
    assert [result.number for result in bench.results] == ["E1", "E4"]
    assert all(result.problem is None and result.figures for result in bench.results)
    assert bench.machine.gpu == torch.cuda.get_device_name()
    assert page.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.gpu
def test_a_recorded_case_can_be_reported_on(tmp_path: Path) -> None:
    result = invoke("workload", "E2", "--tensors", 20, "--record", tmp_path / "e2.json.gz")
    assert result.exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "e2.blocking.json.gz",
        "e2.non_blocking-one-synchronize.json.gz",
    ]
    for path in tmp_path.iterdir():
        assert invoke("report", path).exit_code == 0
