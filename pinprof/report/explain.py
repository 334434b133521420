"""What `pinprof explain` shows: a rule in full or the catalogue of rules, a guide or the list of guides."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof.report.terminal import laid_out, section
from pinprof.rules.rule import FAMILIES, Rule

GUIDE_FOLDER = Path(__file__).parents[1] / "guides"
GUIDE_ORDER = (
    "reading-a-report",
    "recording",
    "notebook",
    "hidden-synchronizations",
    "overlap",
    "cuda-graphs",
    "wrong-numbers",
    "what-if",
    "ranks",
    "ci",
    "guard",
    "perfetto",
    "hta",
    "SKILL",
    "json",
    "accuracy",
    "design",
)

MARKDOWN_LINK = re.compile(r"\[([^\]]+)\]\((?:([\w-]+)\.md(?:#[^)]*)?|(?:\.\./)*([^)]+))\)")
"""A link in Markdown: its text, and the guide or the other address that it leads to."""
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
"""Front matter, which stands before the title for other programs."""
EMPTY_LINES = re.compile(r"\n{3,}")


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield a heading as reports have it; the first is the title."""
        yield Text(self.text.plain, "bold") if self.tag == "h1" else section(self.text.plain)


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield code without colours, a broken line where it is too long."""
        yield Padding(Text(str(self.text).rstrip(), overflow="fold"), (0, 0, 0, 4))


class _Text(Markdown):
    """A text in Markdown whose links are commands and addresses that can be typed."""

    elements = {**Markdown.elements, "heading_open": _Heading, "fence": _Code}  # noqa: RUF012  as in rich

    def __init__(self, text: str) -> None:
        super().__init__(MARKDOWN_LINK.sub(_typed, text), hyperlinks=False)


def _typed(link: re.Match[str]) -> str:
    text, guide, address = link.groups()
    return f"{text} (`pinprof explain {guide}`)" if guide else f"{text} ({address})"


@dataclass(frozen=True)
class Guide:
    """A text on one subject, in Markdown: its title, a line that sums it up, and more."""

    name: str
    text: str

    @property
    def title(self) -> str:
        """Its first line."""
        return self.text.split("\n", 1)[0].removeprefix("# ")

    @property
    def summary(self) -> str:
        """Its first sentence."""
        return self.text.split("\n")[2]


@cache
def guides() -> tuple[Guide, ...]:
    """Return all guides, in reading order."""
    texts = ((name, (GUIDE_FOLDER / f"{name}.md").read_text(encoding="utf-8")) for name in GUIDE_ORDER)
    return tuple(Guide(name, FRONT_MATTER.sub("", text)) for name, text in texts)


def guide_to_text(guide: Guide, *, width: int = 100, color: bool = False) -> str:
    """Return a guide for a terminal of this width."""
    return EMPTY_LINES.sub("\n\n", laid_out([_Text(guide.text)], width=width, color=color))


def to_list(listed: Sequence[Guide], *, width: int = 100, color: bool = False) -> str:
    """Return the guides, a line each, for a terminal of this width."""
    rows = Table.grid(padding=(0, 2))
    for guide in listed:
        rows.add_row(Text(f"  {guide.name}", "bold"), _Text(guide.summary))
    return laid_out((Text("Guides", "bold"), rows, Text()), width=width, color=color)


def to_page(rule: Rule, *, width: int = 100, color: bool = False) -> str:
    """Return all texts of a rule, for a terminal of this width."""
    return laid_out(_page(rule), width=width, color=color)


def to_catalogue(rules: Sequence[Rule], *, width: int = 100, color: bool = False) -> str:
    """Return the rules by family, a line each, for a terminal of this width."""
    return laid_out(_catalogue(rules), width=width, color=color)


def _page(rule: Rule) -> Iterator[RenderableType]:
    yield Text.assemble((rule.id, "bold"), f"  {rule.title}")
    sections = (
        ("Why it is dangerous" if rule.is_hazard else "Why it costs", rule.why),
        ("What to do", rule.fix),
    )
    for title, text in sections:
        yield _titled(title, text)
    yield from _code("Code like this", rule.before)
    yield from _code("What to write", rule.code)
    yield _titled("Safe if", rule.safe_if)
    yield from _code("What only looks like it, and is fine", rule.near_miss)
    if rule.causes:
        yield _titled("Causes in the report", ", ".join(rule.causes))


def _titled(title: str, text: str) -> Text:
    return Text.assemble("\n", (title, "bold"), f"\n{text}")


def _code(title: str, code: str) -> Iterator[RenderableType]:
    yield Text(f"\n{title}", "bold")
    yield Padding(Text(code), (0, 0, 0, 4))


def _catalogue(rules: Sequence[Rule]) -> Iterator[RenderableType]:
    for family in FAMILIES.values():
        members = [rule for rule in rules if rule.family == family.name]
        if members:
            yield Text(family.title, "bold")
            yield from (Text.assemble("  ", (rule.id, "bold"), f"  {rule.title}") for rule in members)
            yield Text("")
