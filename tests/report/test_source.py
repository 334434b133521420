"""The user's own code on a page: quoted where it is the code that ran, and never anything else."""

import os
import re
from pathlib import Path

import pytest
from page_reader import Page

from pinprof.ground.errors import PinprofError
from pinprof.report.source import EDITORS, Code, Quoting, editor_of
from pinprof.rules.rule import Change, Rule
from pinprof.rules.search import RULES
from pinprof.trace.lines import Place
from pinprof.trace.sources import Sources

RECORDED = 1_700_000_000
PROGRAM = """\
import torch

def step(x):
    y = x.to("cuda")  # </code><script>alert(1)</script>
    z = model(y.cpu(), (1, 2))
    return log(z.item(), "item(")

if __name__ == "__main__":
    step(1)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with a program and a trace of it."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("train.py", PROGRAM), ("trace.json", "{}")):
        (tmp_path / name).write_text(text)
        os.utime(name, (RECORDED, RECORDED))
    return tmp_path


def quoted(line: int, function: str | None = "step", change: Change | None = None, code: Code = Code()) -> Page:  # noqa: B008
    return Page(Quoting(Sources("trace.json"), code).quoted(Place("train.py", line, function), change))


def lines_of(page: Page) -> list[str]:
    return "".join(page.words).splitlines()


def test_two_lines_around_the_place_are_quoted_and_it_is_marked(here: Path) -> None:
    page = quoted(5)
    assert lines_of(page) == [
        "   3 def step(x):",
        '   4     y = x.to("cuda")  # </code><script>alert(1)</script>',
        "   5     z = model(y.cpu(), (1, 2))",
        '   6     return log(z.item(), "item(")',
        "   7 ",
    ]
    assert [tag for tag, attributes in page.tags if attributes.get("aria-current")] == ["span"]
    assert not any(tag == "script" for tag, _ in page.tags)
    assert page.misnested == []


@pytest.mark.parametrize(("at", "is_said"), [(r"\.cpu\(", True), (r"\.item\(", False)])
def test_what_to_write_stands_at_the_line_that_has_the_code_to_change(here: Path, at: str, *, is_said: bool) -> None:
    text = str(Quoting(Sources("trace.json")).quoted(Place("train.py", 5, "step"), Change(at, "do better")))
    assert ("← do better" in text) is is_said


@pytest.mark.parametrize(("line", "function"), [(5, "other"), (9, "step")])
def test_a_line_that_is_not_in_the_function_is_not_quoted(here: Path, line: int, function: str | None) -> None:
    assert quoted(line, function).tags == []


def test_a_file_changed_since_is_named_and_not_quoted(here: Path) -> None:
    os.utime("train.py", (RECORDED + 60, RECORDED + 60))
    assert quoted(5).text == "train.py was changed after the recording, so it is not quoted."


def test_what_is_not_at_hand_or_not_wanted_is_not_quoted(here: Path) -> None:
    assert quoted(5, code=Code(quotes=False)).tags == []
    (here / "train.py").unlink()
    assert quoted(5).tags == []


def test_a_place_is_a_link_only_if_there_is_an_editor_and_the_file(here: Path) -> None:
    place = Place("train.py", 5, "step")
    assert Quoting(Sources("trace.json")).linked(place, "train.py:5") == "train.py:5"
    quoting = Quoting(Sources("trace.json"), Code(editor=editor_of("vscode")))
    ((tag, attributes),) = Page(quoting.linked(place, "<b>")).tags
    assert (tag, attributes["href"]) == ("a", f"vscode://file{here}/train.py:5")
    assert quoting.linked(Place("other.py", 5, "step"), "other.py:5") == "other.py:5"


@pytest.mark.parametrize("name", EDITORS)
def test_each_editor_gets_an_address_that_keeps_its_parts(here: Path, name: str) -> None:
    file = "a b&c#d'\"<.py"
    (here / file).write_text("\n" * 9)
    link = Quoting(Sources("trace.json"), Code(editor=editor_of(name))).link(Place(file, 7, "step"))
    assert f"{here}/a%20b%26c%23d%27%22%3C.py" in link
    assert link.endswith("7") or name == "file"


@pytest.mark.parametrize(
    "text", ["javascript:alert(1)//{path}", "JavaScript:{path}", "data:text/html,{path}", "vim", "x://file", "{path}"]
)
def test_what_is_no_editor_is_an_error(text: str) -> None:
    with pytest.raises(PinprofError, match="is not an editor: name one of vscode, "):
        editor_of(text)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.change], ids=lambda rule: rule.id)
def test_a_rule_finds_what_it_changes_in_its_own_example(rule: Rule) -> None:
    assert rule.change
    assert re.search(rule.change.at, rule.before)
    assert len(rule.change.to) < 70
