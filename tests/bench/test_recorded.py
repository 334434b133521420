"""The recorded benches: each statement of the four texts has the verdict that it had when they were recorded."""

import subprocess
import sys

import pytest
from recordings import TRACES

from pinprof.bench import EXPERIMENTS, UnknownExperimentError, experiment_of, verdicts
from pinprof.bench.experiment import SOURCES, Experiment
from pinprof.bench.results import from_json

OUTCOMES = {
    "bench.json": {
        "E1": "confirmed depends confirmed refuted confirmed confirmed confirmed unknown",
        "E2": "confirmed confirmed confirmed",
        "E3": "refuted unknown unknown confirmed unknown refuted",
        "E4": "refuted confirmed confirmed confirmed confirmed confirmed",
        "E5": "confirmed confirmed confirmed confirmed refuted",
        "E6": "confirmed confirmed confirmed confirmed",
        "E7": "confirmed confirmed confirmed confirmed",
        "E8": "confirmed confirmed depends refuted refuted",
        "E9": "confirmed confirmed confirmed confirmed confirmed confirmed confirmed",
        "E10": "refuted refuted confirmed refuted refuted confirmed confirmed confirmed",
        "E11": "refuted confirmed confirmed",
        "E12": "confirmed depends confirmed confirmed confirmed",
        "E13": "depends confirmed confirmed confirmed confirmed unjudged refuted confirmed confirmed unjudged "
        "confirmed depends confirmed confirmed refuted",
        "E14": "refuted confirmed confirmed unknown confirmed depends",
        "E15": "confirmed unknown confirmed confirmed confirmed refuted confirmed",
    },
    "bench.h200.json": {
        "E1": "confirmed unknown unknown unknown confirmed unknown unknown unknown",
        "E2": "unknown confirmed confirmed",
        "E3": "refuted confirmed unknown unknown unknown refuted",
        "E4": "unknown confirmed unknown confirmed unknown unknown",
        "E5": "confirmed confirmed confirmed confirmed unknown",
        "E6": "confirmed confirmed confirmed confirmed",
        "E7": "unknown confirmed confirmed confirmed",
        "E8": "confirmed confirmed unknown refuted unknown",
        "E9": "confirmed confirmed confirmed confirmed unknown confirmed unknown",
        "E10": "unknown unknown unknown refuted refuted confirmed confirmed confirmed",
        "E11": "refuted confirmed confirmed",
        "E12": "unknown unknown unknown confirmed unknown",
        "E13": "confirmed confirmed confirmed unknown unknown unjudged refuted confirmed confirmed unjudged confirmed "
        "confirmed confirmed unknown refuted",
        "E14": "refuted confirmed confirmed unknown unknown unknown",
        "E15": "confirmed unknown unknown unknown unknown refuted confirmed",
    },
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_recorded_bench_says_of_each_statement_what_it_said(name: str) -> None:
    found = verdicts(from_json((TRACES / name).read_bytes(), name))
    for number, outcomes in OUTCOMES[name].items():
        assert [verdict.outcome for verdict in found if verdict.number == number] == outcomes.split(), number
    assert len(found) == sum(len(outcomes.split()) for outcomes in OUTCOMES[name].values())
    assert all(verdict.text for verdict in found)


@pytest.mark.parametrize("known", EXPERIMENTS, ids=lambda known: known.number)
def test_each_says_what_it_does_and_names_its_claims_sizes_figures_and_cases_once(known: Experiment) -> None:
    assert len(f"{known.number:4} {known.name:17} {known.summary}") <= 130
    assert len({claim.text for claim in known.claims}) == len(known.claims) >= 1
    assert {case.number for case in known.cases} == {known.number}
    assert len(set(known.cases)) == len(known.cases) >= 2
    assert len({size.name for size in known.sizes}) == len(known.sizes) >= 1
    for size in known.sizes:
        assert size.name.isidentifier()
        assert 1 <= (size.quick or 1) <= size.default
    assert set(known.traced or ()) <= set(known.cases)


def test_every_text_has_claims_with_their_place_and_what_is_ours_is_no_texts() -> None:
    sources = [claim.sources.split("; ") for known in EXPERIMENTS for claim in known.claims]
    assert {each.split(": ")[0] for of_claim in sources for each in of_claim} == SOURCES.keys()
    assert all(of_claim == ["pinprof"] for of_claim in sources if "pinprof" in of_claim)
    assert all(": " in each for of_claim in sources for each in of_claim if each != "pinprof")


def test_fifteen_in_order_are_found_by_name_and_number_and_take_chosen_sizes() -> None:
    assert [known.number for known in EXPERIMENTS] == [f"E{number}" for number in range(1, 16)]
    assert {experiment_of(name).number for name in ("E4", "e4", "copy_overlap", "COPY_OVERLAP")} == {"E4"}
    with pytest.raises(UnknownExperimentError, match=r"no experiment is named 'E16'; there are E1 pinning_cost, .*E15"):
        experiment_of("E16")
    chosen = experiment_of("E3").resized({"floats": 7})
    assert chosen.defaults(quick=True) == {"tensors": 100, "floats": 7}
    assert experiment_of("E3").resized({"tensors": 500}).defaults(quick=True)["tensors"] == 500


@pytest.mark.slow
def test_what_was_found_is_read_without_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; import pinprof.report.bench.page, pinprof.bench.advice"
    subprocess.run([sys.executable, "-c", code], check=True)
