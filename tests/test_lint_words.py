"""The lint of words: a phrase counts in a comment, a docstring, a text and a guide, not in the names of a program."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def lint() -> ModuleType:
    path = Path(__file__).parents[1] / "scripts" / "lint_words.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("text", "is_python", "lines"),
    [
        ("tells = beside\n", True, []),
        ("x = 1  # as many as beside it\n", True, [1]),
        ('def f():\n    """Return rows.\n\n    One is no\n    number.\n    """\n', True, [4]),
        ("x = f'{y} or else'\n", True, [1]),
        ("x = 'or else what'\n", True, []),
        ("A step\nbeside a copy, or another,\nor else.\n", False, [2, 3]),
        ("besides, nobody foretells it\n", False, []),
    ],
)
def test_a_phrase_is_found_where_people_read(lint: ModuleType, text: str, is_python: bool, lines: list[int]) -> None:
    assert [line for _, line in lint.phrases_in(text, is_python=is_python)] == lines


def test_each_phrase_has_at_most_the_number_that_is_left(
    lint: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
        (tmp_path / name).write_text("It is of use.\n")
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    assert lint.main() == 0
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "one.py").write_text("# of late\n\n# of late\n")
    monkeypatch.setattr(lint, "PHRASES", (lint.Phrase("of late", "recently", left=2),))
    assert lint.main() == 0
    capsys.readouterr()
    monkeypatch.setattr(lint, "PHRASES", (lint.Phrase("of late", "recently", left=1),))
    assert lint.main() == 1
    output = capsys.readouterr().out
    assert output == "scripts/one.py:1\nscripts/one.py:3\nof late: 2 times, at most 1. Clearer: recently\n"
