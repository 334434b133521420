"""The work of a step by phase and by kind of kernel, and what the recorded steps do not show of the input."""

from dataclasses import replace

import pytest
from recordings import TRACES, analysis_of

from pinprof.analyses.by_name.kernel_kinds import KindTime
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import Known
from pinprof.report.trace.first_screen import first_screen
from pinprof.report.trace.page import to_html
from pinprof.report.trace.sections.work import kinds_in_short, on_cores
from pinprof.report.trace.verdict import input_uncertain, next_cause
from pinprof.rules.rule import Findings
from pinprof.trace.metadata.info import Made, MadeLoader, batches_held


def loader(workers: int, ready: int | None = None, drawn: int = 5) -> MadeLoader:
    return MadeLoader(workers, persistent_workers=False, drawn=drawn, prefetch_factor=ready)


def uncertain(profile: Profile) -> str:
    return input_uncertain(first_screen(profile, Findings()))


def fed(profile: Profile, steps: int, made: Made | None, source: str = "estimated") -> Profile:
    estimate = replace(profile.estimate, source=source)
    return replace(
        profile,
        step=Known(estimate),
        loader=replace(profile.loader, waits=steps, in_process=False),
        steps=replace(profile.steps, count=steps),
        info=replace(profile.info, made=made),
    )


@pytest.mark.parametrize(
    ("tensor_core_ns", "words"),
    [(None, ""), (0, "no tensor cores"), (500, "50 % on tensor cores"), (1000, "on tensor cores")],
)
def test_a_kind_says_how_much_of_it_runs_on_tensor_cores(tensor_core_ns: int | None, words: str) -> None:
    assert on_cores(KindTime("matrix products", 1, 1000, tensor_core_ns)) == words


def test_names_that_do_not_tell_are_not_off_tensor_cores() -> None:
    assert on_cores(KindTime("matrix products", 1, 1000, None, unknown_ns=1000)) == ""
    assert on_cores(KindTime("matrix products", 1, 1000, 0, unknown_ns=60)) == ""
    assert on_cores(KindTime("matrix products", 1, 1000, 600, unknown_ns=300)) == "at least 60 % on tensor cores"
    assert on_cores(KindTime("matrix products", 1, 1000, 0), "matrix cores") == "no matrix cores"


@pytest.mark.parametrize(
    ("made", "held"),
    [
        (None, None),
        (Made(), None),
        (Made((loader(0),)), None),
        (Made((loader(4),)), 8),
        (Made((loader(4, 3),)), 12),
        (Made((loader(4, drawn=0),)), None),
    ],
)
def test_the_queues_hold_what_each_worker_has_ready(made: Made | None, held: int | None) -> None:
    assert batches_held(made) == held


def test_few_steps_do_not_show_whether_workers_keep_up() -> None:
    profile = analysis_of(TRACES / "pairs/loss_item.before.json.gz").profile
    of_four = Made((loader(4),))
    cannot = "The trace cannot tell whether the input keeps up: it has 8 steps, before which the workers' queues"
    assert uncertain(fed(profile, 8, of_four)) == f"{cannot}, which hold 8 batches, may have been full"
    assert uncertain(fed(profile, 8, None)) == f"{cannot} may have been full"
    assert not uncertain(fed(profile, 9, of_four))
    assert not uncertain(fed(profile, 8, of_four, "measured"))
    assert not uncertain(replace(fed(profile, 8, of_four), bound="input"))


def test_the_page_has_the_kinds_of_kernels_on_its_first_screen() -> None:
    analysis = analysis_of(TRACES / "launches/bert.before.json.gz")
    page = to_html([analysis]).replace("\u00a0", " ")
    assert page.index(f"{kinds_in_short(analysis.profile)}.") < page.index("What to do")


@pytest.mark.parametrize(
    ("name", "but", "words"),
    [
        ("loss_item_host_work.stack", (), "Also costly, counted alone: Python code 3.1 ms (2.5 to 3.2)"),
        ("loss_item_host_work.stack", ("python",), ""),
        ("pairs/everything_at_once.before", (), ""),  # launches cost 120 to 430 µs of 3.71 ms
    ],
)
def test_the_next_cause_is_named_if_it_surely_costs_something(name: str, but: tuple[str, ...], words: str) -> None:
    analysis = analysis_of(TRACES / f"{name}.json.gz")
    assert next_cause(first_screen(analysis.profile, analysis.findings), but) == words
