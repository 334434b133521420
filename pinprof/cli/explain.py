"""`pinprof explain`: the rules and the guides in words."""

import shutil
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from pinprof.cli.names import MOST_NAMED, chosen, meant
from pinprof.cli.terminal import fail, page_options, say, show
from pinprof.streams import is_terminal

if TYPE_CHECKING:
    from pinprof.rules.rule import Rule

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415

WIDEST = 110
"""Columns of a guide in a wider terminal: longer lines are hard to read."""


def _complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the rules and guides that begin so."""
    from pinprof.report.explain import guides
    from pinprof.rules import RULES

    known = [*((rule.id, rule.title) for rule in RULES), *((guide.name, guide.title) for guide in guides())]
    return [CompletionItem(name, help=title) for name, title in known if name.lower().startswith(incomplete.lower())]


@click.command()
@click.argument("topic", required=False, shell_complete=_complete)
def explain(topic: str | None) -> None:
    """Explain a TOPIC: a rule in full, or a guide.

    A rule says what it looks at, why that costs, what to write instead, what pinprof fix changes, when that is safe,
    and what only looks like it. A guide is a text on one subject, such as recording or what-if. The beginning of a name
    is enough; so is the number of a rule, or a word of its title, such as item. Without a TOPIC, list all guides and
    rules.

    \b
    Examples:
      pinprof explain
      pinprof explain PIN201
      pinprof explain what-if
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.report.explain import guides, to_catalogue, to_list, to_page, to_text
    from pinprof.rules import RULES

    width, color = page_options()
    if topic is None:
        show(to_list(guides(), width=width, color=color) + to_catalogue(RULES, width=width, color=color))
        say("Next: pinprof explain reading-a-report")
        return
    texts = {each.name: each for each in guides()}
    rules = {each.id: each for each in RULES}
    name = _named(topic, rules, texts)
    if name in rules:
        _page(to_page(rules[name], _changes(rules[name]), width=width, color=color))
    else:
        _page(to_text(texts[name], width=min(width, WIDEST), color=color))


def _changes(rule: "Rule") -> list[tuple[str, str]]:
    """Return what `pinprof fix` changes for findings of a rule, each with what becomes of the program's numbers."""
    if rule.mended not in {"line", "construction"}:
        return []
    from pinprof.fix.fixes import fixes_of

    return [change for fix in fixes_of(rule.id) for change in fix.guide]


def _named(topic: str, rules: "Mapping[str, Rule]", texts: Iterable[str]) -> str:
    """Return the rule or guide that is meant: by its name, its number alone, or a word of a rule's title or causes."""
    known, word = [*rules, *texts], f"PIN{topic}" if topic.isdigit() else topic
    if not meant(word, known):
        about = [rule for rule in rules.values() if word.casefold() in " ".join((rule.title, *rule.causes)).casefold()]
        if len(about) == 1:
            return about[0].id
        if about:
            more = f" and {len(about) - MOST_NAMED} more" if len(about) > MOST_NAMED else ""
            named = ", ".join(f"{rule.id} {rule.title}" for rule in about[:MOST_NAMED])
            fail(f"{topic}: {len(about)} rules are about it: {named}{more}")
    return chosen(word, known, "rule or guide; `pinprof explain` lists all")


def _page(text: str) -> None:
    """Show a text, page by page where it is longer than the terminal."""
    if is_terminal(sys.stdout) and is_terminal(sys.stdin) and text.count("\n") >= shutil.get_terminal_size().lines:
        click.echo_via_pager(text)
    else:
        show(text)
