"""Colours are told apart by people with each form of colour-blindness, in a grey print, on white and in the dark."""

from importlib.resources import files
from itertools import combinations
from typing import TypeAlias

import numpy as np
import pytest

from pinprof.ground import hues
from pinprof.report.timeline.kinds import EVENT_KINDS, LegendEntry

Colours: TypeAlias = "dict[str, tuple[str, str]]"
"""Colour and pattern, by what has them."""

LEAST, LEAST_GREY = 9.0, 3.5
"""Distances in OKLab: black and white are 100 apart; people just see about 2."""
VISIONS = {
    "all cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
"""Gustavo Machado et al., "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009)."""
GREY = np.tile([0.2126, 0.7152, 0.0722], (3, 1))
WHITE, NIGHT = (255, 255, 255), (28, 33, 39)
"""The page's cards."""


def seen(colour: str, paper: tuple[int, int, int], vision: object) -> np.ndarray:
    """Return a colour in OKLab (Björn Ottosson, 2020), as it is seen on a paper."""
    if colour.startswith("rgba"):
        *channels, alpha = (float(part) for part in colour.removeprefix("rgba(").rstrip(")").split(","))
        rgb = alpha * np.array(channels) + (1 - alpha) * np.array(paper)
    else:
        rgb = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)])
    part = rgb / 255
    light = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    cones = [
        [0.41222147, 0.53633254, 0.05144599],
        [0.2119035, 0.68069955, 0.10739696],
        [0.0883024, 0.28171884, 0.6299787],
    ]
    lab = [
        [0.21045426, 0.79361779, -0.00407205],
        [1.9779985, -2.42859221, 0.45059371],
        [0.0259040, 0.78277177, -0.8086758],
    ]
    return 100 * (np.array(lab) @ np.cbrt(np.array(cones) @ np.clip(np.array(vision) @ light, 0, 1)))


def apart(one: str, other: str, paper: tuple[int, int, int], vision: object) -> float:
    return float(np.linalg.norm(seen(one, paper, vision) - seen(other, paper, vision)))


def of(kinds: tuple[LegendEntry, ...]) -> Colours:
    return {kind.label: (kind.colour, kind.pattern) for kind in kinds}


def grouped(name: str) -> tuple[LegendEntry, ...]:
    return tuple(kind for kind in EVENT_KINDS if kind.group == name)


def distinct(colours: Colours) -> Colours:
    """Return one name for each colour: kinds that call for the same remedy share one."""
    return {name: look for look, name in {look: name for name, look in reversed(colours.items())}.items()}


SIDE_BY_SIDE: dict[str, Colours] = {
    "a stream": distinct(of(grouped("GPU"))),
    "the overlap band": of(grouped("Overlap")),
    "stalls": distinct(of(grouped("Stalls"))),
    "a thread": of(tuple(kind for kind in EVENT_KINDS if kind.label in {"annotation", "op", "runtime call"})),
    "what is grey or nearly so": distinct(
        of(
            tuple(
                kind
                for kind in EVENT_KINDS
                if kind.label in {"idle", "memset", "runtime call", "the profiler's own wait"}
            )
        )
    ),
}


@pytest.mark.parametrize("where", SIDE_BY_SIDE)
def test_neighbours_are_told_apart_by_all_eyes_and_in_grey(where: str) -> None:
    colours = SIDE_BY_SIDE[where]
    assert len(colours) > 2
    for (one, (first, pattern)), (other, (second, others)) in combinations(colours.items(), 2):
        for paper in (WHITE, NIGHT):
            a, b = (on(paper, colour) for colour in (first, second))
            near = {name: apart(a, b, paper, vision) for name, vision in VISIONS.items()}
            assert min(near.values()) > LEAST, (one, other, near)
            grey = apart(a, b, paper, GREY)
            assert grey > LEAST_GREY or pattern != others, (one, other, grey)


def on(paper: tuple[int, int, int], colour: str) -> str:
    """Return the colour of a thing that the timeline draws on a paper."""
    return hues.in_the_dark(colour) if paper == NIGHT else colour


def test_one_hue_is_one_kind_of_thing() -> None:
    groups: dict[str, set[str]] = {}
    for kind in EVENT_KINDS:
        thing = "copy" if "cop" in kind.label and kind.group != "Stalls" else kind.label.split()[0].rstrip("s")
        groups.setdefault(kind.colour, set()).add("stall" if kind.group == "Stalls" else thing)
    assert {colour: things for colour, things in groups.items() if len(things) > 1} == {}


def test_figures_have_the_colours_of_the_page() -> None:
    style = files("pinprof.report").joinpath("page.css").read_text("utf-8")
    light = style[: style.index("@media")]
    for name in ("text", "muted", "line", "card"):
        assert f"--{name}: {getattr(hues, name.upper())};" in light


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours by WCAG 2."""
    low, high = sorted((0.01 * seen(colour, WHITE, GREY)[0]) ** 3 for colour in (one, other))
    return float((high + 0.05) / (low + 0.05))


@pytest.mark.parametrize("paper", [WHITE, NIGHT])
def test_names_read_on_their_colours(paper: tuple[int, int, int]) -> None:
    for colour in {on(paper, kind.colour) for kind in EVENT_KINDS} - {hues.IDLE}:
        ink = {"#000": "#000000", "#fff": "#ffffff"}[hues.ink(colour)]
        assert contrast(colour, ink) > 4.5, colour
