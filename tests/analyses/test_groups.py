"""Sites whose waits only move when one of them goes: those that follow each other while the GPU has nothing to do."""

from itertools import permutations

import pytest
from trace_builder import AUTOGRAD, MAIN, TraceBuilder

from pinprof.analyses.syncs.sites import measure_syncs

TO_HOST = "DtoH (Device -> Pinned)"


def groups(builder: TraceBuilder) -> dict[str | None, int | None]:
    """Return the group of each site by its function."""
    sites = measure_syncs(builder.read()).sites
    return {site.function: site.group for site in sites}


def read(builder: TraceBuilder, function: str, start: float, *, ready: float, thread: int = MAIN) -> None:
    """`.item()` in a function: its copy begins when the GPU is ready and takes 2 µs, and 3 µs later it returns."""
    builder.function(f"train.py(3): {function}", start, ready + 7 - start, thread=thread)
    builder.op("aten::item", start + 1, ready + 5 - start, thread=thread)
    correlation = builder.call("cudaMemcpyAsync", start + 2, 2, thread=thread)
    builder.activity("gpu_memcpy", f"Memcpy {TO_HOST}", ready, 2, correlation=correlation, device=0, stream=7, bytes=4)
    builder.call("cudaStreamSynchronize", start + 5, ready - start, thread=thread)


def waits(builder: TraceBuilder, *functions: str, start: float = 0, thread: int = MAIN) -> None:
    """Read in a function what a kernel gives until 500, then in the others, in a thread, while the GPU has no work."""
    builder.kernel(start + 20, 480, launch=start + 10)
    read(builder, functions[0], start + 100, ready=start + 500)  # until 507
    for number, function in enumerate(functions[1:]):
        read(builder, function, start + 510 + 20 * number, ready=start + 516 + 20 * number, thread=thread)


@pytest.mark.parametrize(
    ("functions", "expected"),
    [
        (("first", "second"), {"first": 0, "second": 0}),
        (("first", "second", "third"), {"first": 0, "second": 0, "third": 0}),
        (("alone",), {"alone": None}),
        (("alone", "alone"), {"alone": None}),
    ],
)
def test_sites_whose_waits_follow_each_other_with_nothing_between_are_one_group(
    functions: tuple[str, ...], expected: dict[str, int | None]
) -> None:
    builder = TraceBuilder()
    waits(builder, *functions)
    builder.kernel(800, 100, launch=790)
    assert groups(builder) == expected


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_a_chain_is_one_group_in_whatever_order_the_file_has_it(order: tuple[int, ...]) -> None:
    builder = TraceBuilder()
    builder.kernel(20, 480, launch=10)
    for place in order:
        read(builder, f"f{place}", 510 + 20 * place, ready=516 + 20 * place)
    builder.kernel(800, 100, launch=790)
    assert groups(builder) == {"f0": 0, "f1": 0, "f2": 0, "f3": 0}


@pytest.mark.parametrize(
    ("start", "length", "ready", "expected"),
    [
        (510, 9, 530, {0}),  # from the end of the first copy at 502 to the next kernel are 110 µs, so 9 are short
        (510, 10, 530, {None}),
        (520, 480, 1000, {None}),
    ],
)
def test_a_kernel_between_them_parts_them_unless_it_is_short(
    start: float, length: float, ready: float, expected: set[int | None]
) -> None:
    builder = TraceBuilder()
    waits(builder, "first")
    builder.kernel(start, length, launch=508)
    read(builder, "second", start + 2, ready=ready)
    builder.kernel(ready + 82, 100, launch=ready + 70)
    assert set(groups(builder).values()) == expected


@pytest.mark.parametrize(
    ("pairs", "expected"), [(("ab", "cd"), {("a", "b"), ("c", "d")}), (("ab", "cb", "ca"), {("a", "b", "c")})]
)
def test_pairs_are_a_group_each_unless_they_share_a_site(
    pairs: tuple[str, ...], expected: set[tuple[str, ...]]
) -> None:
    builder = TraceBuilder()
    for number, pair in enumerate(pairs):
        waits(builder, *pair, start=1000 * number)
    builder.kernel(1000 * len(pairs) + 20, 100, launch=1000 * len(pairs) + 10)
    group_of = groups(builder)
    members = {
        number: tuple(site for site in sorted(map(str, group_of)) if group_of[site] == number) for number in (0, 1)
    }
    assert None not in group_of.values()
    assert set(members.values()) - {()} == expected


@pytest.mark.parametrize(
    ("border", "thread", "expected"), [(508.5, MAIN, {None}), (900, MAIN, {0}), (900, AUTOGRAD, {None})]
)
def test_waits_of_two_steps_or_threads_are_no_group(border: float, thread: int, expected: set[int | None]) -> None:
    builder = TraceBuilder()
    builder.step(1, 0, border)
    builder.step(2, border, 1000 - border)
    waits(builder, "first", "second", thread=thread)
    builder.kernel(600, 100, launch=590)
    builder.kernel(920, 10, launch=910)
    assert set(groups(builder).values()) == expected


@pytest.mark.parametrize(("next_kernel", "expected"), [(631, None), (632, None), (633, 0)])
def test_a_bubble_that_is_no_longer_than_the_wait_makes_no_group(next_kernel: float, expected: int | None) -> None:
    """The second wait takes 60 µs, 2 of them for its copy: without it the host would be there 60 µs earlier."""
    builder = TraceBuilder()
    waits(builder, "first")
    read(builder, "second", 510, ready=570)  # from 515 to 575
    builder.kernel(next_kernel, 100, launch=600)  # idle from 572
    assert groups(builder) == {"first": expected, "second": expected}


@pytest.mark.parametrize(("followed", "expected"), [(1, None), (2, 0), (3, 0)])
def test_a_site_is_in_a_group_if_at_least_half_of_its_waits_are(followed: int, expected: int | None) -> None:
    """Of four waits of the second site N follow one of the first on a dry GPU, the others a kernel."""
    builder = TraceBuilder()
    for number in range(4):
        start = 1000 * number
        if number < followed:
            waits(builder, "first", "second", start=start)
        else:
            builder.kernel(start + 20, 480, launch=start + 10)
            read(builder, "second", start + 510, ready=start + 516)
    builder.kernel(4100, 100, launch=4090)
    assert groups(builder) == {"first": expected, "second": expected}
