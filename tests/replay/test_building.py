"""The program of some steps of a trace."""

import pytest
from trace_builder import TraceBuilder

from pinprof.details import details_of
from pinprof.replay.building import build_program

US = 1_000


@pytest.mark.parametrize(("steps", "gaps"), [(None, [100, 200, 800, 200, 800, 200]), ({0, 2}, [100, 200, 100, 200])])
def test_the_pause_at_the_end_of_a_step_that_is_left_out_is_left_out(steps: set[int] | None, gaps: list[int]) -> None:
    builder = TraceBuilder()
    for begin in builder.steps(3):
        for offset in (100, 300):
            builder.kernel(begin + offset + 20, 50, launch=begin + offset)
    details = details_of(builder.read())
    program = build_program(details.trace, details.syncs.stalls, details.loader.times, 1.0, steps)
    assert [call.gap_ns for call in program.calls] == pytest.approx([gap * US for gap in gaps])
