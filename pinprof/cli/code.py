"""The page of a report, as options of commands: where it goes, and how it shows the user's own code."""

import os
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from pinprof.report.source import Code

VARIABLE = "PINPROF_EDITOR"

HTML = click.option(
    "--html", "html_file", metavar="FILE", help="Also write a page with charts and an interactive timeline."
)
NO_SOURCE = click.option(
    "--no-source", is_flag=True, help="Quote no lines of your code, so that you can share the report."
)
EDITOR = click.option(
    "--editor",
    metavar="NAME",
    help="Link places in the page to an editor: vscode, cursor, zed, pycharm, ..., or a template such as "
    f"vscode://file/{{path}}:{{line}}  [env var: {VARIABLE}; default: no links].",
)


class HtmlPage(NamedTuple):
    """The page to write, if one is wanted, and how it shows the user's code."""

    file: str | None
    code: "Code"


def html_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options about the page to a command, which gets them as `html`."""

    @wraps(command)
    def with_html(*args: Any, html_file: str | None, no_source: bool, editor: str | None, **options: Any) -> None:
        command(*args, html=HtmlPage(html_file, code_of(editor, quotes=not no_source)), **options)

    return HTML(NO_SOURCE(EDITOR(with_html)))


def code_of(editor: str | None = None, *, quotes: bool = True) -> "Code":
    """Return how pages show code: with the editor of this name, else with that of the environment, if any.

    Raises PinprofError if there is no such editor.
    """
    from pinprof.report.source import Code, editor_of  # noqa: PLC0415  `pinprof --help` needs none of it

    return Code(quotes, editor_of(os.environ.get(VARIABLE, "") if editor is None else editor))
