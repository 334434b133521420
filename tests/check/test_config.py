"""Limits in pyproject.toml."""

from pathlib import Path

import pytest

from pinprof.check.limits import Limits, find_config, read_config
from pinprof.ground.errors import PinprofError


def config(folder: Path, text: str) -> Path:
    path = folder / "pyproject.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    return path


def test_limits_are_read_with_dashes_or_underscores(tmp_path: Path) -> None:
    path = config(tmp_path, "\ufeff[tool.pinprof.check]\r\nmax-hidden-syncs = 0\r\nmin_overlap = 0.9")
    assert read_config(path) == Limits(max_hidden_syncs=0, min_overlap=0.9)


@pytest.mark.parametrize("text", ["[tool.pinprof]", "[tool.pinprof.check]"])
def test_an_empty_table_has_no_limits(tmp_path: Path, text: str) -> None:
    assert read_config(config(tmp_path, text)) == Limits()


def test_the_nearest_file_with_the_table_wins_up_to_the_top_of_the_repository(tmp_path: Path) -> None:
    top, inner = tmp_path / "top", tmp_path / "top" / "a" / "b"
    inner.mkdir(parents=True)
    outside = config(tmp_path, "[tool.pinprof.check]\nmax-stall-ms = 1")
    assert find_config(inner) == (outside, Limits(max_stall_ms=1))
    (top / ".git").write_text("gitdir: elsewhere")
    config(top / "a", "[tool.other]")
    assert find_config(inner) == (None, None)
    of_top = config(top, "[tool.pinprof.check]\nmax-stall-ms = 2")
    assert find_config(inner) == (of_top, Limits(max_stall_ms=2))
    nearest = config(inner, "[tool.pinprof]")
    assert find_config(inner) == (nearest, Limits())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.pinprof.check]\nmax-hiden-syncs = 0", "max-hiden-syncs: unknown key; the keys are max-hidden-syncs, "),
        ("[tool.pinprof.check]\nmax-step-ms = '3'", "max-step-ms = '3': must be a number"),
        ("[tool.pinprof.check]\nmax-step-ms = true", "max-step-ms = True: must be a number"),
        ("[tool.pinprof.check]\nmax-step-ms = nan", "max-step-ms = nan"),
        ("[tool.pinprof.check]\nmin-overlap = 90", "at most 1"),
        ("[tool.pinprof.check]\nmax-step-ms = 1\nmax_step_ms = 2", "twice"),
        ("[tool.pinprof]\nmax-step-ms = 1", r"put limits into \[tool.pinprof.check\]"),
        ("[tool.pinprof]\ncheck = 1", "is not a table"),
        ("[tool", "is not TOML .*at end of document"),
        ("a = 1\nb = \udcff", "is not TOML .*utf-8"),
        ("a = " + "[" * 20_000, "is not TOML"),
        ("a = " + "9" * 5_000, "is not TOML"),
        ("[tool.pinprof.checks]\nmax-step-ms = 1", r"put limits into \[tool.pinprof.check\]"),
        ("[pinprof.check]", r"put limits into \[tool.pinprof.check\]"),
        ("[[tool.pinprof]]", r"put limits into \[tool.pinprof.check\]"),
        ("[tool.pinprof.check]\nmax-stall-ms = '3 ms'", "'3 ms': must be a number without a unit"),
        ("[tool.pinprof.check]\nmax-stall-ms = -1", "a number from 0 to 3600000"),
        ("[tool.pinprof.check]\nmax-stall-ms = inf", "max-stall-ms = inf: a limit is a number from 0 to 3600000"),
        ("[tool.pinprof.check]\nmax-step-ms = 1e300", "no trace breaks a larger one"),
        (f"[tool.pinprof.check]\nmax-step-ms = {'9' * 400}", "no trace breaks a larger one"),
    ],
)
def test_a_wrong_config_is_one_line_with_the_file_and_the_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PinprofError, match=said) as error:
        read_config(config(tmp_path, text))
    assert "pyproject.toml" in str(error.value)
    assert "\n" not in str(error.value)
