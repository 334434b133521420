"""The recorded benches: each statement of the four texts has the verdict that it had when they were recorded."""

import subprocess
import sys

import pytest
from recordings import TRACES

from pinprof.bench import EXPERIMENTS, UnknownExperimentError, experiment_of, verdicts
from pinprof.bench.experiment import Experiment
from pinprof.bench.results import from_json

BENCHES = ("bench.json", "bench.h200.json")
LETTERS = {"confirmed": "C", "refuted": "R", "depends": "D", "unknown": "?", "unjudged": "-"}
OUTCOMES = {
    "E1": ("CDRCC", "CDRCC"),
    "E2": ("CC", "CC"),
    "E3": ("RCDC", "RCCC"),
    "E4": ("RCCC", "RCCC"),
    "E5": ("CCCR", "CCCR"),
    "E6": ("CC", "CC"),
    "E7": ("C", "C"),
    "E8": ("CCCR", "CCCR"),
    "E9": ("CCCCCC", "CCCCCC"),
    "E10": ("RRCRRC", "RRCRRC"),
    "E11": ("RC", "RC"),
    "E12": ("CRC", "CRC"),
    "E13": ("CCCCRCCCCCR", "CCCCRCCCCCR"),
    "E14": ("CCC", "CC?"),
    "E15": ("C-CCCR", "C-???R"),
}
"""Of each experiment's claims, by each bench."""


@pytest.mark.parametrize("name", BENCHES)
def test_the_recorded_bench_says_of_each_statement_what_it_said(name: str) -> None:
    found = verdicts(from_json((TRACES / name).read_bytes(), name))
    for number, outcomes in OUTCOMES.items():
        of_this = "".join(LETTERS[verdict.outcome] for verdict in found if verdict.number == number)
        assert (number, of_this) == (number, outcomes[BENCHES.index(name)])
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


STATEMENTS = {
    "tutorial": {
        "pin_memory().to(non_blocking=True) can be up to twice as slow as to()": "E1 takes at most twice",
        "to(non_blocking=True) enhances transfer speed": "E3 Generally",
        "to('cuda', non_blocking=True).mean() executes correctly": 'E5 to("cuda"',
        "to('cpu', non_blocking=True).mean() gives erroneous outputs": "E5 are wrong",
        "observations may vary with the hardware": "E13 differ from machine",
        "a regular CPU tensor is pageable": "E9 pageable unless",
        "pinned memory cannot be swapped out": "E15 swapped out",
        "pinned memory is faster": "E1 pinned memory is faster",
        "pinned memory is more predictable": "E13 predictable",
        "pinned memory is more limited": "E15 limited by the RAM",
        "CUDA first creates a page-locked copy": "E13 stages them",
        "to() always calls cudaMemcpyAsync, a blocking one then synchronizes": "E2 same asynchronous copy",
        "with non_blocking=True the host is not blocked": "E13 whatever the memory",
        "multiple tensors are sent simultaneously": "E3 several tensors at once",
        "in general a copy does not run along with other work": "E4 Of the text's four cases",
        "three requirements let a copy and a kernel overlap": "E4 only if it is pinned",
        "it needs a free engine": "E4 free engine",
        "pin_memory() creates new storage by cudaHostAlloc": "E15 anew",
        "that may in rare cases be faster than chunks": "E1 rare cases",
    },
    "article": {
        "in code ported kernel by kernel transfers may dominate": "E4 ported",
        "device memory has a much higher bandwidth": "E13 its own memory",
        "transfers make or break training performance": "E8 way of copying",
        "the GPU cannot access pageable memory": "E13 cannot access",
        "the driver copies to a temporary pinned array first": "E13 stages them",
        "allocating in pinned memory avoids that": "E1 To allocate",
        "copies from pinned memory are faster": "E1 pinned memory is faster",
        "pin_memory() returns a pinned copy": "E9 returns a copy",
        "DataLoader(pin_memory=True) copies faster": "E8 DataLoader",
        "it pins tensors, maps and iterables of them": "E9 Lists and dictionaries",
        "a batch of a custom type is returned unpinned": "E9 handed back",
        "so are elements of a custom type": "E9 Elements",
        "a pin_memory() method pins them": "E9 method of its own",
        "copies of pinned tensors are asynchronous": "E8 does not wait",
        "so that they overlap with computation": "E8 so overlap",
        "kernels, not the host, wait for the data": "E14 kernels wait for the data",
    },
    "question": {
        "overlapping requires non_blocking=True": "E10 must be non_blocking",
        "and pinned data": "E10 must be from pinned",
        "the copies must be completed before model(images)": "E10 images are on the GPU",
        "model(images) is a synchronization point": "E10 synchronization point",
        "the next copy does not begin before the output is computed": "E10 not requested",
    },
    "answer": {
        "a background thread moves the tensor": "E5 background thread",
        "it may still be on the CPU": "E5 still be on the host",
        "pinned memory is faster, as none of it is on disk": "E13 on disk",
        "computation is handled by a different part of the GPU": "E10 can overlap",
    },
    "processes": {
        "allocations may fail": "E15 may fail",
        "pinned transfers are more than twice as fast": "E13 more than twice",
        "rates depend on the host system and the GPU": "E13 differ from machine",
        "they reach the rate of PCIe": "E13 rate of the link",
        "too much pinned memory reduces performance": "E15 makes the machine slower",
        "as it reduces the memory of other programs": "E15 available to other programs",
        "DMA does not occupy the CPU": "E13 DMA",
        "pinned memory is 81 to 90 times as fast in two processes": "E11 81 to 90",
        "in a class it brings nothing": "E12 no faster",
        "because of the class": "E12 object makes it slow",
    },
}
"""What the four texts say (the answers belong to the question), with a part of the claim that stands for it."""


@pytest.mark.parametrize("text", STATEMENTS)
def test_each_statement_of_a_text_is_a_row_that_names_the_text(text: str) -> None:
    claims = {f"{known.number} {claim.text}": claim.sources for known in EXPERIMENTS for claim in known.claims}
    for part in STATEMENTS[text].values():
        number, _, words = part.partition(" ")
        (sources,) = [of for claim, of in claims.items() if claim.startswith(f"{number} ") and words in claim]
        assert text in {each.split(": ")[0] for each in sources.split("; ")}, part


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
    code = "import sys; sys.modules['torch'] = None; import pinprof.report.bench, pinprof.bench.advice"
    subprocess.run([sys.executable, "-c", code], check=True)
