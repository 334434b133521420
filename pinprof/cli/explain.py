"""`pinprof explain` and `pinprof schema`: show rules, guides, and the schemas of the JSON."""

import shutil
import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches

import click
from click.shell_completion import CompletionItem

from pinprof.cli.terminal import fail, page_options, say, show
from pinprof.standard_streams import is_terminal
from pinprof.units import listed

MOST_SUGGESTED_NAMES = 6
"""Of an error for an unknown name."""
WIDEST_GUIDE_COLUMNS = 110
"""A guide in a wider terminal: longer lines are hard to read."""
API = "api"
"""The topic that shows the Python API; no file has its text."""


def _topics() -> dict[str, str]:
    """Return the titles of all rules and guides."""
    from pinprof.report.explain import guides
    from pinprof.rules.search import RULES

    rules, texts = {rule.id: rule.title for rule in RULES}, {guide.name: guide.title for guide in guides()}
    return {**rules, **texts, API: "The Python API"}


def _schemas() -> dict[str, str]:
    """Return the descriptions of all schemas."""
    from pinprof.report.schema import DOCUMENTS, to_schema

    return {name: to_schema(document)["description"] for name, document in DOCUMENTS.items()}


def _completing(titles: Callable[[], dict[str, str]]) -> Callable[..., list[CompletionItem]]:
    """Return what completes an argument with the names that begin like this."""

    def complete(_context: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
        named = titles().items()
        return [CompletionItem(name, help=title) for name, title in named if name.lower().startswith(begun.lower())]

    return complete


@click.command(short_help="Explain a rule, or show a guide, such as recording or what-if.")
@click.argument("topic", required=False, shell_complete=_completing(_topics))
@click.option("--path", "as_path", is_flag=True, help="Print the file of a guide instead, to copy it.")
def explain(topic: str | None, *, as_path: bool) -> None:
    """Explain a TOPIC: a rule in full, a guide, or the Python API.

    A rule says what it looks at, why that costs, what to write instead, when that is safe, and what only looks like it.
    A guide is a text on one subject, such as recording or what-if. The topic api lists the public names of the Python
    package. Without a TOPIC, list all guides and rules.

    \b
    Examples:
      pinprof explain
      pinprof explain PIN201
      pinprof explain what-if
      pinprof explain api
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.cli.api import HEAD, api_guide
    from pinprof.report.explain import GUIDE_FOLDER, Guide, guide_to_text, guides, to_catalogue, to_list, to_page
    from pinprof.rules.search import RULES

    width, color = page_options()
    if topic is None:
        listed_guides = [*guides(), Guide(API, HEAD)]
        show(to_list(listed_guides, width=width, color=color) + to_catalogue(RULES, width=width, color=color))
        say("Next: pinprof explain reading-a-report")
        return
    texts = {guide.name: guide for guide in guides()}
    rules = {rule.id: rule for rule in RULES}
    name = _known(topic, _topics(), "rule or guide; `pinprof explain` lists all")
    if as_path:
        show(f"{GUIDE_FOLDER / name}.md\n" if name in texts else fail(f"{name} is not a guide, so it has no file"))
    elif name in rules:
        _page(to_page(rules[name], width=width, color=color))
    else:
        guide = api_guide() if name == API else texts[name]
        _page(guide_to_text(guide, width=min(width, WIDEST_GUIDE_COLUMNS), color=color))


def _page(text: str) -> None:
    """Show a text, page by page if it is longer than the terminal."""
    if is_terminal(sys.stdout) and is_terminal(sys.stdin) and text.count("\n") >= shutil.get_terminal_size().lines:
        click.echo_via_pager(text)
    else:
        show(text)


def _known(name: str, titles: Mapping[str, str], what: str) -> str:
    """Return the known name that is meant, whose case does not matter; otherwise end and name those that are like it.

    `titles` are those of the known names; `what` says in the error what such a name stands for.
    """
    word, known = name.casefold(), {original.casefold(): original for original in titles}
    if word not in known:
        close = [original for original, title in titles.items() if word and word in f"{original} {title}".casefold()]
        close = close or [known[match] for match in get_close_matches(word, known, n=1)]
        fail(f"{name}: unknown {what}" + (f"; did you mean {listed(close, MOST_SUGGESTED_NAMES)}?" if close else ""))
    return known[word]


@click.command()
@click.argument("name", required=False, shell_complete=_completing(_schemas))
def schema(name: str | None) -> None:
    """Print the JSON Schema of what a command writes with --json.

    NAME is a command: report, compare, whatif, verify or bench; report-brief and compare-brief are what --brief writes.
    Without a NAME, list them. The schema is of draft 2020-12, and of this version of pinprof: it names all fields, with
    their units and what they mean. The guide `pinprof explain json` says what null means, and what stays as it is.

    \b
    Examples:
      pinprof schema
      pinprof schema report
      pinprof schema report > report.schema.json
    """  # noqa: D301  click looks for the backspace itself
    import json

    from pinprof.report.schema import DOCUMENTS, to_schema

    if name is None:
        show("".join(f"{known:13} {description}\n" for known, description in _schemas().items()))
        return
    command = _known(name, dict.fromkeys(DOCUMENTS, ""), f"schema; there are {', '.join(DOCUMENTS)}")
    show(json.dumps(to_schema(DOCUMENTS[command]), indent=2, ensure_ascii=False) + "\n")
