"""What pinprof calls the wait of each expression of the catalogue, recorded with stacks and without."""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from catalogue import Case, cases

from pinprof.analyses.syncs.causes import WAIT_CAUSES
from pinprof.analyses.syncs.sites import measure_syncs
from pinprof.trace import read_trace
from pinprof.trace.tables import NONE

WARM_UPS = 2
WITHOUT_STACKS = {
    "tolist": {"to_cpu"},
    "optimizer_state": {"item"},
    "print": {"item", "masked_select", "bool", "to_cpu"},
}
"""Causes that only Python functions tell, and what the ops within say."""
MEMORY = {"device_malloc"}
"""Any expression asks for memory once an earlier test has given back what was kept for it."""

pytestmark = pytest.mark.gpu


class Seen(NamedTuple):
    """What was recorded of an expression."""

    causes: frozenset[str]
    hidden: frozenset[str]
    waits: int


def record(all_cases: list[Case], path: Path, *, with_stack: bool) -> Mapping[str, Seen]:
    """Run every case once under the profiler, behind some work on the GPU, and return what it is called."""
    config = torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
    with torch.profiler.profile(with_stack=with_stack, experimental_config=config, acc_events=True) as profiler:
        for case in all_cases:
            torch.cuda.synchronize()
            torch.cuda._sleep(200_000)  # type: ignore[no-untyped-call]
            with torch.profiler.record_function(f"case {case.name}"):
                case.run()
    profiler.export_chrome_trace(str(path))
    return seen_in(path)


def seen_in(path: Path) -> Mapping[str, Seen]:
    trace = read_trace(path)
    syncs = measure_syncs(trace)
    stalls, start = syncs.stalls, trace.calls.start_ns[syncs.stalls.call]
    is_wait = np.array([site.is_wait for site in syncs.sites])[syncs.site]
    hidden = np.array([site.verdict == "hidden" for site in syncs.sites])[syncs.site]
    result = {}
    for row in np.flatnonzero(trace.annotations.named(lambda name: name.startswith("case "))).tolist():
        inside = (start >= trace.annotations.start_ns[row]) & (start < trace.annotations.end_ns[row]) & is_wait
        copies = stalls.copy[inside]
        names = [WAIT_CAUSES[code] for code in syncs.cause[inside].tolist()]
        result[trace.annotations.name_of(row).removeprefix("case ")] = Seen(
            frozenset(names),
            frozenset(name for name, is_hidden in zip(names, hidden[inside].tolist(), strict=True) if is_hidden),
            int((copies == NONE).sum()) + len(np.unique(copies[copies != NONE])),
        )
    return result


def warned(case: Case) -> int:
    """Return how often torch's sync debug mode warns of an expression."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            case.run()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("called a synchronizing" in str(warning.message) for warning in caught)


@pytest.fixture(scope="module")
def all_cases() -> list[Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = cases()
        for case in result * WARM_UPS:
            case.run()
    return result


@pytest.fixture(scope="module")
def with_stacks(all_cases: list[Case], tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Seen]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return record(all_cases, tmp_path_factory.mktemp("catalogue") / "stacks.json", with_stack=True)


@pytest.fixture(scope="module")
def without_stacks(all_cases: list[Case], tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Seen]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return record(all_cases, tmp_path_factory.mktemp("catalogue") / "lean.json", with_stack=False)


def wrong(all_cases: list[Case], seen: Mapping[str, Seen], renamed: Mapping[str, set[str]]) -> dict[str, Any]:
    """Return the cases that are called something else than they should be."""
    result = {}
    for case in all_cases:
        expected = frozenset().union(*(renamed.get(cause, {cause}) for cause in case.causes))
        causes = seen[case.name].causes
        if not expected <= causes or not causes <= expected | case.maybe | MEMORY:
            result[case.name] = sorted(causes), sorted(expected)
    return result


def test_each_expression_is_called_what_it_is(all_cases: list[Case], with_stacks: Mapping[str, Seen]) -> None:
    bad = wrong(all_cases, with_stacks, {})
    assert not bad, json.dumps(bad, indent=1)
    assert len(all_cases) > 95


def test_without_stacks_the_ops_tell_nearly_as_much(all_cases: list[Case], without_stacks: Mapping[str, Seen]) -> None:
    bad = wrong(all_cases, without_stacks, WITHOUT_STACKS)
    assert not bad, json.dumps(bad, indent=1)


def test_what_waits_only_by_asking_is_not_hidden(all_cases: list[Case], with_stacks: Mapping[str, Seen]) -> None:
    asked = {"65 device synchronize", "66 stream synchronize", "66 side stream synchronize", "67 event synchronize"}
    hidden = {case.name for case in all_cases if with_stacks[case.name].hidden - case.maybe}
    assert not hidden & asked
    assert hidden == {case.name for case in all_cases if case.causes} - asked


def test_every_wait_of_torchs_sync_debug_mode_is_seen(all_cases: list[Case], with_stacks: Mapping[str, Seen]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        missed = {case.name: (with_stacks[case.name].waits, warned(case)) for case in all_cases if not case.maybe}
    missed = {name: (waits, warnings_) for name, (waits, warnings_) in missed.items() if waits < warnings_}
    assert not missed
