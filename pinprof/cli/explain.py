"""`pinprof explain` and `pinprof schema`: show rules, guides, the Python API, and the schemas of the JSON."""

import inspect
import shutil
import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

from pinprof.cli.terminal import fail, page_options, say, show
from pinprof.ground.standard_streams import is_terminal
from pinprof.ground.units import listed

if TYPE_CHECKING:
    from pinprof.report.explain import Guide

MAX_SUGGESTED_NAMES = 6
WIDEST_GUIDE_COLUMNS = 110
"""A guide in a wider terminal: longer lines are hard to read."""
API = "api"
API_HEAD = """\
# The Python API

Every public name of the package: how it is called, and what it is.

A time or a rate has its unit at the end of its name (`step_ms`, `bandwidth_gbps`); sizes are bytes, shares lie between
0 and 1. `help(pinprof.load)` says more: arguments, errors, examples. CONTRIBUTING.md says which names are stable.
"""
REPORT_CLASSES = ("Report", "JobReport", "ComparisonReport")
"""The classes whose tables and methods are listed; a class stands after the one that it inherits from."""


def _topics() -> dict[str, str]:
    from pinprof.report.explain import guides
    from pinprof.rules.search import RULES

    rules, texts = {rule.id: rule.title for rule in RULES}, {guide.name: guide.title for guide in guides()}
    return {**rules, **texts, API: "The Python API"}


@click.command(short_help="Explain a rule, or show a guide, such as recording or what-if.")
@click.argument("topic", required=False)
@click.option("--path", "as_path", is_flag=True, help="Print the path of a guide's file instead, to copy it.")
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
    from pinprof.report.explain import GUIDE_FOLDER, Guide, guide_to_text, guides, to_catalogue, to_list, to_page
    from pinprof.rules.search import RULES

    width, color = page_options()
    if topic is None:
        listed_guides = [*guides(), Guide(API, API_HEAD)]
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
    if is_terminal(sys.stdout) and is_terminal(sys.stdin) and text.count("\n") >= shutil.get_terminal_size().lines:
        click.echo_via_pager(text)
    else:
        show(text)


def _known(name: str, titles: Mapping[str, str], what: str) -> str:
    """Return the known name that is meant, in capitals or not; otherwise fail, and name those that are like it."""
    word, known = name.casefold(), {original.casefold(): original for original in titles}
    if word not in known:
        close = [original for original, title in titles.items() if word and word in f"{original} {title}".casefold()]
        close = close or [known[match] for match in get_close_matches(word, known, n=1)]
        fail(f"{name}: unknown {what}" + (f"; did you mean {listed(close, MAX_SUGGESTED_NAMES)}?" if close else ""))
    return known[word]


def api_guide() -> "Guide":
    """Return the public names as a guide: functions, reports with their tables and methods, other classes."""
    import pinprof
    from pinprof.report.explain import Guide

    others = {name: getattr(pinprof, name) for name in pinprof.__all__ if name not in REPORT_CLASSES}
    lines = [
        API_HEAD,
        "## Functions\n",
        *(_api_entry(*item) for item in others.items() if not inspect.isclass(item[1])),
    ]
    listed = set[int]()
    for name in REPORT_CLASSES:
        report = getattr(pinprof, name)
        lines += [f"\n## {name}\n", f"{_first_paragraph(report)}\n", *_api_members(report, listed)]
    lines += ["\n## Other classes\n", *(_api_entry(*item) for item in others.items() if inspect.isclass(item[1]))]
    return Guide("api", "\n".join(lines) + "\n")


def _api_members(report: type, listed: set[int]) -> Iterator[str]:
    """Yield the tables, figures and methods of a report that no report before it has."""
    for owner in report.__mro__:
        for name, member in vars(owner).items() if owner.__module__.startswith("pinprof.") else ():
            if not name.startswith("_") and id(member) not in listed and inspect.getdoc(member):
                listed.add(id(member))
                yield _api_entry(name, member)


def _api_entry(name: str, value: object) -> str:
    """Return a name with what it takes, types left out, and the first paragraph of its docstring."""
    arguments = ""
    if inspect.isfunction(value):
        taken = [each for each in inspect.signature(value).parameters.values() if each.name != "self"]
        arguments = str(inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in taken]))
    return f"- `{name}{arguments}`: {_first_paragraph(value)}"


def _first_paragraph(value: object) -> str:
    return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())


@click.command()
@click.argument("name", required=False)
def schema(name: str | None) -> None:
    """Print the JSON Schema of what a command writes with --json.

    NAME is a command: report, compare, whatif, verify or bench; report-brief and compare-brief are what --brief writes.
    Without a NAME, list them. The schema is of draft 2020-12, and of this version of pinprof: it names all fields, with
    their units and what they mean. The guide `pinprof explain json` says what null means, and what stays stable.

    \b
    Examples:
      pinprof schema
      pinprof schema report > report.schema.json
    """  # noqa: D301  click looks for the backspace itself
    import json

    from pinprof.report.schema import DOCUMENTS, to_schema

    if name is None:
        show("".join(f"{known:13} {to_schema(document)['description']}\n" for known, document in DOCUMENTS.items()))
        return
    command = _known(name, dict.fromkeys(DOCUMENTS, ""), f"schema; there are {', '.join(DOCUMENTS)}")
    show(json.dumps(to_schema(DOCUMENTS[command]), indent=2, ensure_ascii=False) + "\n")
