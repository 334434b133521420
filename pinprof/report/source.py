"""The user's own code in a report: the lines around a place, and links that open it in an editor."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote

from pinprof.ground.errors import PinprofError
from pinprof.ground.units import shortened
from pinprof.report.html import Markup, note
from pinprof.report.words import printable
from pinprof.rules.rule import Change
from pinprof.trace.lines import Place
from pinprof.trace.sources import MODULE_CODE, Sources, fits

LINES_AROUND = 2
QUOTED_CHARS = 160
EDITORS = {
    "vscode": "vscode://file/{path}:{line}",
    "cursor": "cursor://file/{path}:{line}",
    "windsurf": "windsurf://file/{path}:{line}",
    "zed": "zed://file/{path}:{line}",
    "pycharm": "pycharm://open?file={path}&line={line}",
    "idea": "idea://open?file={path}&line={line}",
    "sublime": "subl://open?url=file://{path}&line={line}",
    "textmate": "txmt://open?url=file://{path}&line={line}",
    "emacs": "org-protocol://open-file?file={path}&line={line}",
    "file": "file://{path}",
}
SCHEME = re.compile(r"(?!(?:javascript|vbscript|data|blob|about):)[a-z][a-z0-9+.-]*:\S*\{path\}\S*", re.IGNORECASE)
"""A template of links that open a program and run nothing in the page."""


class Code(NamedTuple):
    """How a report shows the user's code: whether it quotes lines, and the editor that links open."""

    quotes: bool = True
    editor: str = ""
    """A template with `{path}`, and mostly `{line}`; empty for no links."""


PLAIN = Code()


@dataclass(frozen=True)
class Quoting:
    """Quotes and links of the sources of one trace."""

    sources: Sources
    code: Code = PLAIN

    def linked(self, at: Place, text: str) -> str:
        """Return the text of a place, as a link into the editor if there is one and the file is there."""
        link = self.link(at)
        anchor = Markup('<a class="editor" href="{}" title="open in the editor">{}</a>')
        return anchor.format(link, text) if link else text

    def link(self, at: Place) -> str:
        """Return the address of a place in the editor; empty without an editor or without the file."""
        template = self.code.editor
        path = self.sources.path(at.file) if at.file and template else None
        if not path:
            return ""
        file = path.absolute().as_posix()
        file = file.removeprefix("/") if "file/{path}" in template else file
        return template.replace("{path}", quote(file)).replace("{line}", str(at.line or 1))

    def quoted(self, at: Place, change: Change | None = None) -> Markup:
        """Return the lines around a place, with what to write there; empty if they are not there as they ran."""
        if self.is_changed(at):
            return note(f"{at.file} was changed after the recording, so it is not quoted.")
        lines = self._lines(at)
        if not lines or at.line is None:
            return Markup()
        shown = Markup().join(
            _line(number, line, change if number == at.line else None, at) for number, line in _around(lines, at.line)
        )
        label = f"Your code at {at.file}:{at.line}"
        return Markup('<pre class="quote" tabindex="0" role="group" aria-label="{}"><code>{}</code></pre>').format(
            label, shown
        )

    def line(self, at: Place) -> str:
        """Return the line of code at a place without its indent; empty if it is not there as it ran."""
        lines = self._lines(at)
        if not lines or at.line is None:
            return ""
        return printable(shortened(lines[at.line - 1].strip().expandtabs(4), QUOTED_CHARS))

    def _lines(self, at: Place) -> list[str]:
        """Return all lines of the source of a place; none if they are not wanted, or not there as they ran."""
        if at.file is None or at.line is None or not self.code.quotes:
            return []
        text = self.sources.text(at.file)
        lines = text.splitlines() if text is not None and fits(text, at.function or MODULE_CODE, at.line) else []
        return lines if at.line <= len(lines) else []

    def is_changed(self, at: Place) -> bool:
        """Return whether the source is not the one that ran."""
        if at.file is None or at.line is None or not self.code.quotes or self.sources.text(at.file) is not None:
            return False
        path = self.sources.path(at.file)
        with suppress(OSError):
            return path is not None and self.sources.is_edited(path, at.file)
        return False


def _around(lines: list[str], line: int) -> Iterator[tuple[int, str]]:
    first, last = max(line - LINES_AROUND, 1), min(line + LINES_AROUND, len(lines))
    near = [(number, lines[number - 1].expandtabs(4).rstrip()) for number in range(first, last + 1)]
    indent = min((len(text) - len(text.lstrip()) for _, text in near if text), default=0)
    yield from ((number, text[indent:]) for number, text in near)


def _line(number: int, text: str, change: Change | None, at: Place) -> Markup:
    is_it = number == at.line
    hint = Markup('  <span class="change">\N{LEFTWARDS ARROW} {}</span>')
    what = change.to if change and re.search(change.at, text.split("#", maxsplit=1)[0]) else ""
    current = Markup(' aria-current="true"') if is_it else Markup()
    row = Markup('<span class="line"{}><span class="number">{:>4}</span> {}{}</span>\n')
    return row.format(current, number, _plain(text), hint.format(what) if what else "")


def _plain(text: str) -> Markup:
    return Markup.escape(shortened(text, QUOTED_CHARS)) if text else Markup()


def editor_of(text: str) -> str:
    """Return the template of links of an editor by its name, or a template as it is; empty for an empty text.

    Raises PinprofError if the text is neither.
    """
    template = EDITORS.get(text.lower(), text)
    if text and not SCHEME.fullmatch(template):
        raise PinprofError(
            f"{text!r} is not an editor: name one of {', '.join(EDITORS)}, or give a template such as "
            f"{EDITORS['vscode']}"
        )
    return template
