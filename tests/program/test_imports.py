"""Something is done once a module is imported."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinprof.program.hooks import when_imported


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "imported_late.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = list(sys.meta_path)
    yield "imported_late"
    sys.modules.pop("imported_late", None)
    assert sys.meta_path == before


def test_it_happens_after_the_module_is_whole_and_once(module: str) -> None:
    values: list[int] = []
    when_imported(module, lambda: values.append(sys.modules[module].value))
    assert values == []
    __import__(module)
    sys.modules.pop(module)
    __import__(module)
    assert values == [7]
    assert "exec_module" not in vars(sys.modules[module].__spec__.loader)  # type: ignore[union-attr]


def test_a_module_that_fails_is_waited_for_on(tmp_path: Path, module: str) -> None:
    values: list[int] = []
    (tmp_path / "imported_late.py").write_text("raise ValueError\n")
    when_imported(module, lambda: values.append(1))
    with pytest.raises(ValueError):  # noqa: PT011  the module's own
        __import__(module)
    assert values == []
    (tmp_path / "imported_late.py").write_text("value = 10000\n")
    __import__(module)
    assert values == [1]
