"""What `pinprof explain` shows: a rule in full or the catalogue of rules, a guide or the list of guides."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof.report.layout import laid_out, section, table
from pinprof.rules import Rule
from pinprof.rules.rule import FAMILIES

FOLDER = Path(__file__).parents[1] / "guides"
ORDER = (
    "reading-a-report",
    "recording",
    "hidden-synchronizations",
    "overlap",
    "what-if",
    "fix",
    "try",
    "ranks",
    "ci",
    "ab",
    "guard",
    "logging",
    "perfetto",
    "hta",
    "SKILL",
    "mcp",
    "json",
    "json-fields",
    "accuracy",
    "design",
)
"""As they are best read."""

PIECES = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|\[([^\]]+)\]\(([^)]+)\)")
"""What stands in a line beside plain text: code, bold, italic, a link."""
GUIDE = re.compile(r"([\w-]+)\.md(?:#.*)?")
"""A link to another guide."""
FRONT = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
"""What programs read of a text before its title."""
EMPTY = re.compile(r"\n{3,}")
"""Two empty lines or more."""
RULE = re.compile(r"\|[\s:|-]+\|")
"""The line between the head and the rows of a table."""


@dataclass(frozen=True)
class Guide:
    """A text on one subject, in Markdown: its title, a line that says what is in it, and more."""

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
    """Return all guides, in the order in which they are best read."""
    texts = ((name, (FOLDER / f"{name}.md").read_text(encoding="utf-8")) for name in ORDER)
    return tuple(Guide(name, FRONT.sub("", text)) for name, text in texts)


def to_text(guide: Guide, *, width: int = 100, color: bool = False) -> str:
    """Return a guide for a terminal of this width."""
    return EMPTY.sub("\n\n", laid_out(_blocks(guide.text.splitlines()), width=width, color=color))


def to_list(all_of_them: Sequence[Guide], *, width: int = 100, color: bool = False) -> str:
    """Return the guides, a line each, for a terminal of this width."""
    rows = Table.grid(padding=(0, 2))
    for guide in all_of_them:
        rows.add_row(Text(f"  {guide.name}", "bold"), _inline(guide.summary))
    return laid_out((Text("Guides", "bold"), rows, Text()), width=width, color=color)


def _blocks(lines: Sequence[str]) -> Iterator[RenderableType]:
    """Yield the blocks of a text: headings, code, tables, points of lists, and paragraphs."""
    at = 0
    while at < len(lines):
        end = _end(lines, at)
        yield from _block(lines[at:end], first=at == 0)
        at = end


def _end(lines: Sequence[str], at: int) -> int:
    """Return where the block ends that begins here."""
    first = lines[at]
    if first.startswith("```"):
        return lines.index("```", at + 1) + 1
    if not first or first.startswith(("#", "<!--")):
        return at + 1
    stop = ("|",) if not first.startswith("|") else ()
    following = range(at + 1, len(lines))
    new = (place for place in following if not lines[place] or lines[place].startswith(("#", "```", "- ", *stop)))
    return next(new, len(lines))


def _block(lines: Sequence[str], *, first: bool) -> Iterator[RenderableType]:
    """Yield one block as the terminal shows it."""
    begin = lines[0]
    if begin.startswith("```"):
        yield from (Padding(Text(code, overflow="fold"), (0, 0, 0, 4)) for code in lines[1:-1])
    elif begin.startswith("|"):
        yield _table(lines)
    elif begin.startswith("#"):
        title = begin.lstrip("# ").replace("`", "")
        yield Text(title, "bold") if first else section(title)
    elif begin.startswith("- "):
        yield Padding(_inline(" ".join(map(str.strip, lines))), (0, 0, 0, 2))
    elif not begin.startswith("<!--"):
        yield _inline(" ".join(lines))


def _table(lines: Sequence[str]) -> RenderableType:
    head, *rows = (
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if not RULE.fullmatch(line)
    )
    grid = table(*(_inline(cell).plain for cell in head), text_columns=len(head))
    for row in rows:
        grid.add_row(*map(_inline, row))
    return grid


def _inline(text: str) -> Text:
    """Return a line with its code, its bold and italic words, and what its links lead to."""
    line, at = Text(), 0
    for piece in PIECES.finditer(text):
        code, bold, italic, link, target = piece.groups()
        line.append(text[at : piece.start()])
        line.append(code or bold or italic or link, "bold" if bold else "italic" if italic else "cyan" if code else "")
        line.append(_leads_to(target) if target else "")
        at = piece.end()
    return line.append(text[at:])


def _leads_to(target: str) -> str:
    guide = GUIDE.fullmatch(target)
    return f" (pinprof explain {guide[1]})" if guide else f" ({target.removeprefix('../../')})"


def to_page(rule: Rule, changes: Sequence[tuple[str, str]] = (), *, width: int = 100, color: bool = False) -> str:
    """Return all that a rule says, for a terminal of this width.

    `changes` are those that `pinprof fix` makes for its findings, each with what becomes of the program's numbers.
    """
    return laid_out(_page(rule, changes), width=width, color=color)


def to_catalogue(rules: Sequence[Rule], *, width: int = 100, color: bool = False) -> str:
    """Return the rules by family, a line each, for a terminal of this width."""
    return laid_out(_catalogue(rules), width=width, color=color)


def _page(rule: Rule, changes: Sequence[tuple[str, str]]) -> Iterator[RenderableType]:
    yield Text.assemble((rule.id, "bold"), f"  {rule.title}")
    sections = (
        ("What it looks at", rule.looks_at),
        ("Why it is dangerous" if rule.is_hazard else "Why it costs", rule.why),
        ("What to do", rule.fix),
    )
    for title, text in sections:
        yield _titled(title, text)
    yield from _code("Code like this", rule.before)
    yield from _code("What to write", rule.code)
    if changes:
        yield Text("\nWhat pinprof fix changes, where that is certain", "bold")
        for what, numbers in changes:
            yield Padding(_inline(f"{what}; the program's numbers: {numbers}"), (0, 0, 0, 4))
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
