"""Links that open a place of the code in an editor, by the scheme of its addresses."""

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from pinprof.errors import PinprofError

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
"""Schemes by the names of editors."""
SCHEME = re.compile(r"(?!(?:javascript|vbscript|data|blob|about):)[a-z][a-z0-9+.-]*:\S*\{path\}\S*", re.IGNORECASE)
"""A link that opens something, and runs nothing in the page."""


class Editor(NamedTuple):
    """An editor that opens places by links."""

    template: str
    """With `{path}`, and mostly `{line}`."""

    def link(self, path: Path, line: int | None) -> str:
        """Return the address of a line of a file; without a line, of its first."""
        at = path.absolute().as_posix()
        at = at.removeprefix("/") if "file/{path}" in self.template else at
        return self.template.replace("{path}", quote(at)).replace("{line}", str(line or 1))


def editor_of(text: str) -> Editor | None:
    """Return the editor of a name, or of a template of its own; None for no text.

    Raises PinprofError if it is neither.
    """
    if not text:
        return None
    template = EDITORS.get(text.lower(), text)
    if not SCHEME.fullmatch(template):
        raise PinprofError(
            f"{text!r} is no editor: name one of {', '.join(EDITORS)}, or give a template such as {EDITORS['vscode']}"
        )
    return Editor(template)
