"""The colours of the page: one hue for each kind of thing, the same in the timeline and in every chart.

Kinds that can lie side by side differ for people with each form of colour-blindness, and in lightness, so that a grey
print shows them; where they differ little, they also have patterns. `tests/report/timeline/test_hues.py` measures that.
"""

KERNEL = "#115094"
COLLECTIVE = "#3FAA88"
MEMSET = "#96C8CE"
COPY_OUT, COPY_BACK, COPY_WITHIN = ("#A04300", "#EDA326"), ("#612410", "#FFDB91"), "#AE7D30"
"""Copies are orange and brown: to the GPU and back, each from pageable and from pinned memory; then all others."""
OVERLAPPED = "#FFC067"
"""Overlapped copies; exposed copies have the colour of pageable memory."""
IDLE = "rgba(140,150,160,0.24)"
"""Idle time: a pale grey that stays in the background on light and dark pages."""

WAIT, COPY_WAIT, SYNC_WAIT, MEMORY_WAIT, OTHER_WAIT = "#CB61C4", "#8B2288", "#D6A3BF", "#4C2349", "#F7D4F8"
"""Waits of the host are purple: for values that it reads, for copies, explicit ones, for memory, and others."""
MEMORY = "#6F8FA8"
PROFILER = "#818181"
STEP = "#3B4961"
OP, CALL = "#4EC6FB", "#67656B"
OWN_CODE, ANNOTATION, TORCH_CODE, PACKAGES, INPUT = "#F2E755", "#8FAB52", "#A3C6DA", "#999283", "#693A04"
"""Python code: the program's, what it annotates, torch's, that of other packages, and the DataLoader."""

OF_LIMITS = {
    "sync": WAIT,
    "copy": COPY_OUT[0],
    "input": INPUT,
    "allocation": MEMORY_WAIT,
    "communication": COLLECTIVE,
    "python": OWN_CODE,
    "launch": OP,
    "host": CALL,
}
"""Idle time of the GPU by what costs it, as the verdict names it."""

IN_THE_DARK = {
    KERNEL: "#5575BE",
    COPY_OUT[0]: "#CF6F17",
    COPY_OUT[1]: "#ED9521",
    COPY_BACK[0]: "#AC4F39",
    COPY_BACK[1]: "#F5E9D6",
    COPY_WITHIN: "#D6C085",
    WAIT: "#DB70D4",
    COPY_WAIT: "#B251CD",
    SYNC_WAIT: "#D1A9BA",
    MEMORY_WAIT: "#7D6487",
    STEP: "#64748B",
    CALL: "#6D6A71",
    PROFILER: "#8A8A8A",
}
"""The colours that differ on a dark page, where each has a contrast of 3 to it; found by search, hue by hue."""

VERMILLION, PURPLE = "#D55E00", "#CC79A7"
"""Colours for marks. Masataka Okabe and Kei Ito, Color Universal Design (2008),
https://jfly.uni-koeln.de/color/."""

TEXT, MUTED, LINE, CARD = "#1b2026", "#5b6570", "#dfe3e8", "#ffffff"
"""The colours of the light page, as in page.css, for figures that are drawn without that."""
HATCHES = {"/": 135, "\\": 45, "-": 0, "|": 90}
"""Patterns as plotly names them, and the direction across their stripes, in degrees of CSS."""

DARK = 0.179
"""Relative luminance (WCAG 2) up to which white has more contrast than black."""
ON_IDLE = "#6E7780"
"""The colour of text on idle time: readable on light and dark pages."""


def in_the_dark(colour: str) -> str:
    """Return the colour of the same thing on a dark page."""
    return IN_THE_DARK.get(colour, colour)


def shades(colour: str) -> tuple[str, ...]:
    """Return shades of a colour for neighbours with different names, as CSS colours; the first is the colour itself."""
    if colour == IDLE:
        return (IDLE,) * 3
    channels = _channels(colour)

    def mixed(target: int, share: float) -> str:
        red, green, blue = (round(channel + (target - channel) * share) for channel in channels)
        return f"rgb({red},{green},{blue})"

    return mixed(0, 0), mixed(255, 0.22), mixed(0, 0.18)


def faded(colour: str) -> str:
    """Return the faded colour of bars that a search has not found, as a CSS colour."""
    if colour == IDLE:
        return "rgba(140,150,160,0.1)"
    return see_through(colour, 0.18)


def see_through(colour: str, alpha: float) -> str:
    """Return a partly transparent colour, as a CSS colour."""
    red, green, blue = _channels(colour)
    return f"rgba({red},{green},{blue},{alpha:.3g})"


def ink(colour: str) -> str:
    """Return black or white, whichever reads better on a colour."""
    if colour == IDLE:
        return ON_IDLE
    red, green, blue = (_linear(channel / 255) for channel in _channels(colour))
    return "#000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > DARK else "#fff"


def _linear(part: float) -> float:
    return float(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)  # noqa: PLR2004  from sRGB


def _channels(colour: str) -> list[int]:
    return [int(colour[begin : begin + 2], 16) for begin in (1, 3, 5)]
