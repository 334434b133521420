"""The bench that comes with pinprof: where it is looked for, and what is said without it."""

from pathlib import Path

import pytest
from bench_example import example
from recordings import TRACES

from pinprof.bench import recorded, recording
from pinprof.bench.results import BenchError, to_json


def test_it_is_read_from_the_first_place_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = (tmp_path / "installed.json", tmp_path / "checkout.json")
    monkeypatch.setattr(recording, "PLACES", places)
    places[1].write_text(to_json(example()))
    assert to_json(recorded()) == to_json(example())
    places[0].write_text("")
    with pytest.raises(BenchError, match=r"installed\.json: is not a result"):
        recorded()


def test_without_the_file_the_way_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "PLACES", (tmp_path / "bench.json",))
    with pytest.raises(BenchError, match="install pinprof again"):
        recorded()


def test_the_checkout_has_it_beside_the_recordings() -> None:
    assert recording.PLACES[1] == TRACES / "bench.json"
