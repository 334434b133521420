"""The line of the terminal that says what a step is used for."""

import io

import pytest

from pinprof.cli import terminal as module
from pinprof.cli.terminal import step_counter


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
    with step_counter() as show:
        show(window, step, of)
        assert terminal.getvalue().endswith(f"\x1b[Kpinprof: {text}")
