"""What the bench of a machine reads like, in the terminal and for programs."""

from collections.abc import Callable
from typing import get_args

import pytest
from bench_builder import H200, BenchBuilder, ms
from bench_example import example
from fitting import fitting
from msgspec.structs import replace

from pinprof.bench.judge import ClaimOutcome
from pinprof.report.bench import bench_to_json, bench_to_text

HOSTILE = "\x1b[31mout of\nmemory"


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_bench_reads_as_kept(golden: Callable[[str, str], None]) -> None:
    golden("bench.txt", bench_to_text(example(), width=110))


def test_what_a_file_holds_does_no_harm_to_a_terminal() -> None:
    bench = BenchBuilder(replace(H200, gpu=HOSTILE)).add("E1", problem=HOSTILE).build()
    assert "\x1b" not in bench_to_text(bench, recorded=True)


def test_programs_read_figures_verdicts_and_advice() -> None:
    document = fitting(bench_to_json(example()))
    assert document["schema"] == "pinprof.bench/1"
    assert document["link"]["theoretical"] == pytest.approx(63.0, rel=1e-3)
    verdict = document["verdicts"][0]
    assert verdict.keys() == {"number", "claim", "outcome", "text", "sources", "published", "measured", "differs"}
    assert {verdict["outcome"] for verdict in document["verdicts"]} == set(get_args(ClaimOutcome))
    values = {piece["name"]: piece["value"] for piece in document["advice"]}
    assert values["pinning_pays_from_htod"] == 16384


def test_a_spread_beside_a_figure_is_its_longer_side() -> None:
    figures = (ms("one", 0.4, 0.3, 0.6), ms("other", 0.4, 0.1, 0.5))
    sized = [replace(figure, size=4096) for figure in figures]
    text = flat(bench_to_text(BenchBuilder().add("E1", *sized).build()))
    assert "400 µs ±50 % 400 µs ±75 %" in text
