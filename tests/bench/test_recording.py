"""The bench that comes with pinprof: where it is looked for, and what is said without it."""

import re
from pathlib import Path

import pytest
from bench_builder import as_json
from bench_example import example
from recordings import TRACES

from pinprof.bench import results
from pinprof.bench.results import BenchError, recorded, shown


def test_it_is_read_from_the_first_place_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = (tmp_path / "installed.json", tmp_path / "checkout.json")
    monkeypatch.setattr(results, "BENCH_FILES", places)
    places[1].write_text(as_json(example()))
    assert as_json(recorded()) == as_json(example())
    places[0].write_text("")
    with pytest.raises(BenchError, match=r"installed\.json: is not a result"):
        recorded()


def test_the_guide_names_no_figure_that_it_does_not_hold() -> None:
    """Of what turned out differently: each time, rate and factor, but for those of the texts, which are set apart."""
    found = (
        (TRACES.parent / "pinprof" / "guides" / "overlap.md")
        .read_text()
        .partition("## What it found")[2]
        .partition("\n\nTwo benches")[0]
    )
    named = set(re.findall(r"\d[\d.]* (?:ns|µs|ms|s|GB/s|times)\b", re.sub(r"(?<!\*)\*[^*]+\*", "", found)))
    figures = [figure for result in recorded().results for figure in result.figures]
    assert {"220 µs", "3.85 times"} <= named
    assert named <= {shown(figure) for figure in figures}
