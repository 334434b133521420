"""Two benches compared, so that every count can be checked by eye."""

from pathlib import Path

import pytest
from bench_builder import BenchBuilder, as_json, count, gbps, ms

from pinprof.bench import verdicts
from pinprof.bench.results import Bench
from pinprof.ground.units import percent
from scripts.bench_results import print_repeats


def bench(pinned: float, rate: float) -> Bench:
    return (
        BenchBuilder()
        .add("E1", ms("pageable.to", 4.0, 3.5, 4.5), ms("pinned.to", pinned))
        .add("E2", count("waits, blocking", "waits", 1000))
        .add("E13", gbps("HtoD pinned", 4096, rate))
        .build()
    )


def test_the_share_of_verdicts_that_repeat_is_told_of_each_pair_and_of_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for number, pinned in enumerate((1.0, 1.0, 1.0, 6.0)):
        path = tmp_path / f"{number}.json"
        path.write_text(as_json(bench(pinned, 50)))
        files.append(str(path))
    print_repeats(*files[:2])
    assert "all pairs" not in capsys.readouterr().out
    print_repeats(*files)
    total = len(verdicts(bench(1.0, 50)))
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == f"{total} of {total} verdicts repeat (100 %)"
    assert f"{total - 1} of {total} verdicts repeat ({percent(1 - 1 / total)})" in lines
    assert lines[-1] == f"{2 * total - 1} of {2 * total} verdicts of all pairs repeat ({percent(1 - 0.5 / total)})"
