"""The rules in words: one in full, or the catalogue."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from pinprof.report.layout import laid_out
from pinprof.rules import Rule
from pinprof.rules.rule import FAMILIES


def to_page(rule: Rule, *, width: int = 100, color: bool = False) -> str:
    """Return all that a rule says, for a terminal of this width."""
    return laid_out(_page(rule), width=width, color=color)


def to_catalogue(rules: Sequence[Rule], *, width: int = 100, color: bool = False) -> str:
    """Return the rules by family, a line each, for a terminal of this width."""
    return laid_out(_catalogue(rules), width=width, color=color)


def _page(rule: Rule) -> Iterator[RenderableType]:
    yield Text.assemble((rule.id, "bold"), f"  {rule.title}")
    sections = (
        ("What it looks at", rule.looks_at),
        ("Why it is dangerous" if rule.is_hazard else "Why it costs", rule.why),
        ("What to do", rule.fix),
    )
    for title, text in sections:
        yield _titled(title, text)
    for title, code in (("Code like this", rule.before), ("What to write", rule.code)):
        yield Text(f"\n{title}", "bold")
        yield Padding(Text(code), (0, 0, 0, 4))
    yield _titled("Safe if", rule.safe_if)
    if rule.causes:
        yield _titled("Causes in the report", ", ".join(rule.causes))


def _titled(title: str, text: str) -> Text:
    return Text.assemble("\n", (title, "bold"), f"\n{text}")


def _catalogue(rules: Sequence[Rule]) -> Iterator[RenderableType]:
    for family in FAMILIES.values():
        members = [rule for rule in rules if rule.family == family.name]
        if members:
            yield Text(family.title, "bold")
            yield from (Text.assemble("  ", (rule.id, "bold"), f"  {rule.title}") for rule in members)
            yield Text("")
