"""`pinprof explain`: the rules and the guides in words."""

import shutil
import sys

import click

from pinprof.cli.names import chosen
from pinprof.cli.terminal import page_options, say, show

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415

WIDEST = 110
"""Columns of a guide in a wider terminal: longer lines are hard to read."""


@click.command()
@click.argument("topic", required=False)
def explain(topic: str | None) -> None:
    """Explain a TOPIC: a rule in full, or a guide.

    A rule says what it looks at, why that costs, what to write instead, and when that is safe. A guide is a text on
    one subject, such as recording or what-if. The beginning of a name is enough. Without a TOPIC, list all guides and
    rules.

    \b
    Examples:
      pinprof explain
      pinprof explain PIN201
      pinprof explain what-if
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.report.explain import to_catalogue, to_page
    from pinprof.report.guide import guides, to_list, to_text
    from pinprof.rules import RULES

    width, color = page_options()
    if topic is None:
        show(to_list(guides(), width=width, color=color) + to_catalogue(RULES, width=width, color=color))
        say("Next: pinprof explain reading-a-report")
        return
    texts = {each.name: each for each in guides()}
    rules = {each.id: each for each in RULES}
    name = chosen(topic, [*rules, *texts], "rule or guide; `pinprof explain` lists all")
    if name in rules:
        _page(to_page(rules[name], width=width, color=color))
    else:
        _page(to_text(texts[name], width=min(width, WIDEST), color=color))


def _page(text: str) -> None:
    """Show a text, page by page where it is longer than the terminal."""
    if sys.stdout.isatty() and sys.stdin.isatty() and text.count("\n") >= shutil.get_terminal_size().lines:
        click.echo_via_pager(text)
    else:
        show(text)
