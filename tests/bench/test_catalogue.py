"""The catalogue of the seed experiments tests itself."""

import pytest

from pinprof.bench.catalogue import EXPERIMENTS, UnknownExperimentError, experiment_of
from pinprof.bench.experiment import OURS, SOURCES, Experiment, resized


def test_fifteen_in_order_with_names_of_their_own() -> None:
    assert [known.number for known in EXPERIMENTS] == [f"E{number}" for number in range(1, 16)]
    assert len({known.name for known in EXPERIMENTS}) == 15


@pytest.mark.parametrize("known", EXPERIMENTS, ids=lambda known: known.number)
def test_each_says_what_it_does_and_names_its_claims_sizes_figures_and_cases_once(known: Experiment) -> None:
    assert known.name.isidentifier()
    assert known.summary
    assert len(f"{known.number:4} {known.name:17} {known.summary}") <= 130
    assert known.sources
    assert len({claim.text for claim in known.claims}) == len(known.claims) >= 1
    assert len({(figure.figure, figure.size) for figure in known.published}) == len(known.published)
    assert len(set(known.cases)) == len(known.cases) >= 2
    assert len({size.name for size in known.sizes}) == len(known.sizes) >= 1
    for size in known.sizes:
        assert size.name.isidentifier()
        assert size.means
        assert 1 <= (size.quick or 1) <= size.default


def test_every_text_has_claims_and_what_is_ours_is_no_texts() -> None:
    claims = [claim for known in EXPERIMENTS for claim in known.claims]
    assert {source for claim in claims for source in claim.sources} == SOURCES.keys()
    assert all(claim.sources == (OURS,) for claim in claims if OURS in claim.sources)


@pytest.mark.parametrize("name", ["E4", "e4", "copy_overlap", "COPY_OVERLAP"])
def test_found_by_name_and_number(name: str) -> None:
    assert experiment_of(name).number == "E4"


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownExperimentError, match=r"no experiment is named 'E16'; there are E1 pinning_cost, .*E15"):
        experiment_of("E16")


def test_chosen_sizes_win() -> None:
    chosen = resized(experiment_of("E3"), {"floats": 7})
    assert chosen.defaults() == {"tensors": 1000, "floats": 7}
    assert chosen.defaults(quick=True) == {"tensors": 100, "floats": 7}
    assert resized(experiment_of("E3"), {"tensors": 500}).defaults(quick=True)["tensors"] == 500
