"""`pinprof explain` and `pinprof schema`: show rules, guides, and the schemas of the JSON."""

import shutil
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from pinprof.cli.terminal import fail, page_options, say, show
from pinprof.standard_streams import is_terminal

if TYPE_CHECKING:
    from pinprof.rules.rule import Rule

SIMILAR = 0.7
"""Of difflib: a name less like the given one than this is not taken for it."""
MOST_NAMED = 6
"""The most names that an error suggests."""
WIDEST = 110
"""Columns of a guide in a wider terminal: longer lines are hard to read."""


def _complete_topic(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the rules and guides that begin like this."""
    from pinprof.report.explain import guides
    from pinprof.rules import RULES

    topics = [*((rule.id, rule.title) for rule in RULES), *((guide.name, guide.title) for guide in guides())]
    return [CompletionItem(name, help=title) for name, title in topics if name.lower().startswith(incomplete.lower())]


@click.command(short_help="Explain a rule, or show a guide, such as recording or what-if.")
@click.argument("topic", required=False, shell_complete=_complete_topic)
@click.option("--path", "as_path", is_flag=True, help="Print the file of a guide instead, to copy it.")
def explain(topic: str | None, *, as_path: bool) -> None:
    """Explain a TOPIC: a rule in full, or a guide.

    A rule says what it looks at, why that costs, what to write instead, when that is safe, and what only
    looks like it. A guide is a text on one subject, such as recording or what-if. The beginning of a name
    is enough; so is the number of a rule, or a word of its title, such as item. Without a TOPIC, list all guides and
    rules.

    \b
    Examples:
      pinprof explain
      pinprof explain PIN201
      pinprof explain what-if
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.report.explain import FOLDER, guide_to_text, guides, to_catalogue, to_list, to_page
    from pinprof.rules import RULES

    width, color = page_options()
    if topic is None:
        show(to_list(guides(), width=width, color=color) + to_catalogue(RULES, width=width, color=color))
        say("Next: pinprof explain reading-a-report")
        return
    texts = {guide.name: guide for guide in guides()}
    rules = {rule.id: rule for rule in RULES}
    name = _topic(topic, rules, texts)
    if as_path:
        show(f"{FOLDER / name}.md\n" if name in texts else fail(f"{name} is a rule, and has no file of its own"))
    elif name in rules:
        _page(to_page(rules[name], width=width, color=color))
    else:
        _page(guide_to_text(texts[name], width=min(width, WIDEST), color=color))


def _topic(topic: str, rules: "Mapping[str, Rule]", texts: Iterable[str]) -> str:
    """Return the rule or guide that is meant: by its name, its number alone, or a word of a rule's title or causes."""
    topics, word = [*rules, *texts], f"PIN{topic}" if topic.isdigit() else topic
    if not meant(word, topics):
        about = [rule for rule in rules.values() if word.casefold() in " ".join((rule.title, *rule.causes)).casefold()]
        if len(about) == 1:
            return about[0].id
        if about:
            more = f" and {len(about) - MOST_NAMED} more" if len(about) > MOST_NAMED else ""
            named = ", ".join(f"{rule.id} {rule.title}" for rule in about[:MOST_NAMED])
            fail(f"{topic}: {len(about)} rules are about it: {named}{more}")
    return chosen(word, topics, "rule or guide; `pinprof explain` lists all")


def _page(text: str) -> None:
    """Show a text, page by page if it is longer than the terminal."""
    if is_terminal(sys.stdout) and is_terminal(sys.stdin) and text.count("\n") >= shutil.get_terminal_size().lines:
        click.echo_via_pager(text)
    else:
        show(text)


def chosen(name: str, known: Iterable[str], what: str) -> str:
    """Return the known name that is meant: this one, the only one that begins so, or the one most like it.

    Upper and lower case are alike, and so are `-`, `_` and spaces. `what` names in the error what such a name stands
    for.
    """
    names = meant(name, known)
    if not names:
        fail(f"{name}: unknown {what}")
    if len(names) > 1:
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        fail(f"{name}: several begin so: {', '.join(names[:MOST_NAMED])}{more}")
    return names[0]


def meant(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that this one may mean: one, unless several begin like it."""
    names = {_normalized(original): original for original in known}
    asked = _normalized(name)
    if asked in names:
        return [names[asked]]
    beginnings = [plain for plain in names if asked and plain.startswith(asked)]
    return [names[plain] for plain in beginnings or get_close_matches(asked, names, n=1, cutoff=SIMILAR)]


def _normalized(name: str) -> str:
    return name.casefold().replace("_", "-").replace(" ", "-")


def _complete_schema(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the schemas that begin like this."""
    from pinprof.report.schema import DOCUMENTS, to_schema

    return [
        CompletionItem(name, help=to_schema(document)["description"])
        for name, document in DOCUMENTS.items()
        if name.startswith(incomplete)
    ]


@click.command()
@click.argument("name", required=False, shell_complete=_complete_schema)
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
        for known, document in DOCUMENTS.items():
            show(f"{known:13} {to_schema(document)['description']}\n")
        return
    command = chosen(name, DOCUMENTS, f"schema; there are {', '.join(DOCUMENTS)}")
    show(json.dumps(to_schema(DOCUMENTS[command]), indent=2, ensure_ascii=False) + "\n")
