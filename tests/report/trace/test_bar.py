"""A bar of characters: as long as asked, its parts in proportion, each named part to be seen."""

from hypothesis import given
from hypothesis import strategies as st

from pinprof.report.trace.step import BarPart, bar_text, legend_lines

MS = 1e6


def test_parts_are_as_long_as_their_shares() -> None:
    parts = [BarPart("kernels", "#", 3 * MS), BarPart("idle", ".", MS, "waits")]
    assert bar_text(parts, 40) == "#" * 30 + "." * 10
    assert legend_lines(parts, 80) == ["# kernels 3.00 ms, 75 %   . idle 1.00 ms, 25 % (waits)"]
    assert legend_lines(parts, 30) == ["# kernels 3.00 ms, 75 %", ". idle 1.00 ms, 25 % (waits)"]


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=5), st.integers(10, 100))
def test_a_bar_has_its_width_and_each_named_part(times: list[float], width: int) -> None:
    parts = [BarPart(mark, mark, time) for mark, time in zip("abcde", times, strict=False)]
    bar = bar_text(parts, width)
    assert len(bar) in {0, width}
    assert [line[0] for line in legend_lines(parts, 1)] == sorted(set(bar))
