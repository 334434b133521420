from collections.abc import Callable
from pathlib import Path

import pytest
from trace_builder import SIDE, TraceBuilder

from pinprof.measure import measure
from pinprof.rules import RULES, Finding, find
from pinprof.trace import read_trace

PINNED = "HtoD (Pinned -> Device)"
Scene = Callable[[TraceBuilder, float], None]
"""Adds one step's events, from the given time on."""


def findings_of(scene: Scene, folder: Path) -> tuple[Finding, ...]:
    builder = TraceBuilder()
    for number in range(4):
        builder.step(number, 1000 * number, 990)
        builder.kernel(1000 * number + 20, 80, launch=1000 * number + 10)
        scene(builder, 1000 * number)
        builder.kernel(1000 * number + 800, 180, launch=1000 * number + 790)
    trace = read_trace(builder.write(folder / "trace.json"))
    return find(measure(trace), trace)


def wait(builder: TraceBuilder, start: float, op: str) -> None:
    builder.op(op, start + 30, 100)
    builder.copy("DtoH (Device -> Pinned)", start + 100, 2, launch=start + 40, size=4)
    builder.call("cudaStreamSynchronize", start + 50, 60)


def pageable(builder: TraceBuilder, start: float) -> None:
    builder.copy("HtoD (Pageable -> Device)", start + 200, 300, launch=start + 150, call=360)


def pinned_beside_kernels(builder: TraceBuilder, start: float) -> None:
    builder.copy(PINNED, start + 805, 100, launch=start + 160, stream=SIDE)


def same_stream(builder: TraceBuilder, start: float) -> None:
    builder.copy(PINNED, start + 200, 300, launch=start + 150)


def launched_late(builder: TraceBuilder, start: float) -> None:
    builder.copy(PINNED, start + 200, 300, launch=start + 190, stream=SIDE)
    builder.kernel(start + 505, 10, launch=start + 195)


def blocking_copy(builder: TraceBuilder, start: float) -> None:
    builder.op("aten::to", start + 30, 700)
    builder.copy(PINNED, start + 100, 300, launch=start + 40)
    builder.call("cudaStreamSynchronize", start + 45, 360)


def non_blocking_copy_of_pageable_memory(builder: TraceBuilder, start: float) -> None:
    builder.op("aten::to", start + 30, 400)
    builder.copy("HtoD (Pageable -> Device)", start + 100, 300, launch=start + 40, call=370)


def item(builder: TraceBuilder, start: float) -> None:
    wait(builder, start, "aten::item")


def item_that_costs_nothing(builder: TraceBuilder, start: float) -> None:
    wait(builder, start, "aten::item")
    builder.kernel(start + 20, 900, launch=start + 15, stream=SIDE)


def nonzero(builder: TraceBuilder, start: float) -> None:
    wait(builder, start, "aten::nonzero")


def synchronize(builder: TraceBuilder, start: float) -> None:
    builder.call("cudaDeviceSynchronize", start + 50, 60)


def free(builder: TraceBuilder, start: float) -> None:
    builder.call("cudaFree", start + 50, 60)


def loader(builder: TraceBuilder, start: float) -> None:
    builder.event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", start + 120, 650)


def idle_only(builder: TraceBuilder, start: float) -> None:
    """Nothing but a late host."""


@pytest.mark.parametrize(
    ("scene", "rule"),
    [
        (pageable, "PIN101"),
        (blocking_copy, "PIN102"),
        (non_blocking_copy_of_pageable_memory, "PIN103"),
        (item, "PIN201"),
        (nonzero, "PIN202"),
        (synchronize, "PIN203"),
        (same_stream, "PIN301"),
        (launched_late, "PIN302"),
        (free, "PIN303"),
        (loader, "PIN401"),
    ],
)
def test_a_rule_finds_what_it_is_for(tmp_path: Path, scene: Scene, rule: str) -> None:
    assert rule in {finding.rule.id for finding in findings_of(scene, tmp_path)}


@pytest.mark.parametrize("scene", [pinned_beside_kernels, item_that_costs_nothing, idle_only])
def test_what_costs_nothing_is_not_found(tmp_path: Path, scene: Scene) -> None:
    assert findings_of(scene, tmp_path) == ()


def test_the_cost_is_per_step_and_the_largest_comes_first(tmp_path: Path) -> None:
    def both(builder: TraceBuilder, start: float) -> None:
        item(builder, start)
        same_stream(builder, start)

    findings = findings_of(both, tmp_path)
    assert [finding.rule.id for finding in findings] == ["PIN301", "PIN201"]
    assert findings[0].evidence.cost_ns == 300_000  # the exposed copy
    assert findings[1].evidence.cost_ns == 98_000  # idle from 102 to 200
    assert [finding.severity for finding in findings] == ["high", "medium"]


def test_ids_are_unique_and_every_rule_says_why_and_what_to_do() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.id.startswith("PIN")
        assert rule.title
        assert rule.why.endswith(".")
        assert rule.fix.endswith(".")


def test_every_rule_has_a_trace_that_fires_it() -> None:
    marks = test_a_rule_finds_what_it_is_for.pytestmark  # type: ignore[attr-defined]
    assert {rule for _, rule in marks[0].args[1]} == {rule.id for rule in RULES}
