"""What stands in CONTRIBUTING.md, in the guide to the rooms and in the configuration of pre-commit is so."""

import re

import pytest
from recordings import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text()
ROOMS = (ROOT / "pinprof" / "guides" / "design.md").read_text()


def test_every_room_is_told_in_the_order_of_the_layers() -> None:
    layers = re.search(r"^layers = \[\n(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL | re.MULTILINE)
    assert layers
    rooms = re.findall(r"\w+", layers[1])
    cells = re.findall(r"^\| (`.*?) \|", ROOMS, re.MULTILINE)
    assert [name for cell in cells for name in re.findall(r"`(\w+)`", cell)] == [
        room for room in rooms if room != "__main__"
    ]


@pytest.mark.parametrize("path", re.findall(r"`((?:tests|scripts|traces)/[\w./]+\w)`", TEXT))
def test_what_is_named_is_there(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:\w+/)+\w+\.py)`", TEXT + ROOMS))))
def test_modules_that_are_named_are_there(path: str) -> None:
    assert (ROOT / path).exists() or (ROOT / "pinprof" / path).exists()
