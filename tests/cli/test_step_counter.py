"""What is said of a run that takes long beyond the steps that it needs."""

import io

import pytest

from pinprof.cli import terminal as module
from pinprof.cli.terminal import Spent, step_counter


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def run(clock: Clock, *steps: tuple[str, int, int, float]) -> Spent:
    """Go through steps, each with its window, its number, their number, and the seconds that it takes."""
    spent = Spent(clock)
    for window, step, of, seconds in steps:
        spent.step(window, step, of)
        clock.now += seconds
    return spent


def test_needed_steps_may_take_as_long_as_they_take(clock: Clock) -> None:
    needed = [
        ("warm-up", 10, 10, 50.0),
        ("plain", 20, 20, 50.0),
        ("profiler warm-up", 1, 2, 50.0),
        ("recorded", 1, 5, 50.0),
    ]
    assert run(clock, *needed).summary(0) == ""
    assert run(clock, *needed).summary(37) == "Stopped after step 37; --keep-going runs to the end"


def test_what_took_long_is_named_in_order_and_the_rest_is_not(clock: Clock) -> None:
    spent = run(
        clock,
        ("warm-up", 11, 10, 2.0),
        ("plain", 20, 20, 9.0),
        ("plain", 21, 20, 5.0),
        ("regular", 1, 100, 20.0),
        ("recorded", 5, 5, 9.0),
        ("plain", 30, 30, 8.0),
        ("end", 0, 0, 4.0),
    )
    spent.begin("reporting")
    clock.now += 1.0
    assert spent.summary(57) == (
        "Stopped after step 57; --keep-going runs to the end; pinprof took 40 s beyond the steps that a trace needs: "
        "timing without profiler 13 s, waiting for regular steps 20 s, waiting for the script to end 4 s"
    )


@pytest.mark.parametrize(
    ("window", "step", "of", "text"),
    [
        ("plain", 20, 20, "timing without profiler, step 20 of 20"),
        ("plain", 21, 20, "timing without profiler, step 21, until their mean is precise"),
        ("warm-up", 11, 10, "warming up, step 11, until their time is steady"),
        ("after", 9, 5, "after, step 9"),
        ("end", 0, 0, "waiting for the script to end"),
    ],
)
def test_the_terminal_shows_for_what_a_window_goes_on(
    window: str, step: int, of: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(module, "own_error", lambda: terminal)
    monkeypatch.setattr(module, "is_terminal", lambda _: True)
    with step_counter(Spent()) as show:
        show(window, step, of)
        assert terminal.getvalue().endswith(f"\x1b[Kpinprof: {text}")
