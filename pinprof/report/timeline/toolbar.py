"""What steers a timeline: buttons, the choice of a step, the search; the page's scripts give them their meaning."""

from pinprof.report.elements import Markup

KEYS = (
    "W A S D zoom and move · drag moves · Shift-drag sums · Ctrl + wheel zooms (after a click the wheel alone) · "
    "click shows details · / searches · ? all keys"
)


def toolbar() -> Markup:
    """Return the toolbar of a timeline, and a line on its keys; one that follows another hides what is `common`."""
    tools = (
        _tool("pan", "move", "Dragging moves", chosen=True)
        + _tool("select", "select", "Dragging selects (Shift-drag)"),
        _button("back", "←", "back", "Back (Alt + ←)", off=True)
        + _button("forward", "→", "forward", "Forward (Alt + →)", off=True),
        _button("further", "−", "zoom out", "Zoom out (S)")  # noqa: RUF001  a minus sign
        + _button("closer", "+", "zoom in", "Zoom in (W)")
        + _button("all", "all", title="All of the recording (0)"),
    )
    steps = (
        _button("previous", "‹", "previous step")  # noqa: RUF001  a quotation mark
        + Markup('<label>step <select class="step"></select></label>')
        + _button("next", "›", "next step")  # noqa: RUF001
    )
    search = Markup(
        '<label class="common">find <input type="search" class="find" placeholder="name" spellcheck="false"></label>\n'
        '<button type="button" class="found-next" hidden>next</button>\n<output class="found"></output>'
    )
    others = (
        _button("link common", "link", "copy link", "Copy a link to what is shown")
        + _button("save", "PNG", "save PNG", "Save what is shown as a picture")
        + _button("help common", "?", "keys", "All keys (?)")
    )
    return Markup(
        '<div class="steer" role="toolbar" aria-label="Part of the timeline that is shown">\n{}\n{}\n{}\n{}\n</div>\n'
        '<p class="hint">{}</p>'
    ).format(
        Markup("\n").join(_set(each, "set common") for each in tools),
        _set(steps, "set choice"),
        search,
        _set(others, "set last"),
        KEYS,
    )


def _set(buttons: Markup, name: str) -> Markup:
    return Markup('<span class="{}">{}</span>').format(name, buttons)


def _button(name: str, text: str, label: str = "", title: str = "", *, off: bool = False) -> Markup:
    return Markup('<button type="button" class="{}"{}{}{}>{}</button>').format(
        name,
        Markup(' aria-label="{}"').format(label) if label else "",
        Markup(' title="{}"').format(title) if title else "",
        Markup(" disabled") if off else "",
        text,
    )


def _tool(name: str, text: str, title: str, *, chosen: bool = False) -> Markup:
    button = Markup('<button type="button" data-tool="{}" aria-pressed="{}" title="{}">{}</button>')
    return button.format(name, "true" if chosen else "false", title, text)
