"""The code of README and guides: what stands in their fenced blocks, and how a test runs it."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
from recordings import ROOT

from pinprof.cli import main

README = ROOT / "README.md"
GUIDES = sorted((ROOT / "pinprof" / "guides").glob("*.md"))
FILE = re.compile(r"\.(py|json|json\.gz)$")
FENCED = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A block of code."""

    language: str
    marks: frozenset[str]
    """`gpu`: it needs one. `no-run`: it needs what no test has."""
    text: str


def blocks(path: Path) -> list[Block]:
    """Return the blocks of a text, in order."""
    return [Block(block[1], frozenset(block[2].split()), block[3]) for block in FENCED.finditer(path.read_text())]


class Command(NamedTuple):
    """A command of a shell, with what comes before and behind a `|` as commands of their own."""

    words: tuple[str, ...]
    piped: bool


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a block of a shell."""
    for line in block.text.splitlines():
        parts = _split(_words(line))
        yield from (Command(tuple(part), piped=len(parts) > 1) for part in parts if part)


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|")
    lexer.whitespace_split = True
    return list(lexer)


def _split(words: list[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word == "|":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def ours(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the words behind `pinprof`, also of `torchrun ... -m pinprof`; None for commands of others."""
    words = tuple(word for word in words if "=" not in word or not word.split("=")[0].isupper())
    for begin in (("pinprof",), ("-m", "pinprof")):
        for at in range(len(words) - len(begin) + 1):
            if words[at : at + len(begin)] == begin and (at == 0 or begin != ("pinprof",)):
                return words[at + len(begin) :]
    return None


def parse(words: tuple[str, ...]) -> None:
    """Parse the words of a pinprof command as click does, without running it. Raises click.UsageError."""
    command: click.Command = main
    rest = list(words)
    if rest and FILE.search(rest[0]):  # a file means a command
        rest.insert(0, "run" if rest[0].endswith(".py") else "report")
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        subcommand = command.get_command(click.Context(command), name)
        if subcommand is None:
            raise click.UsageError(f"there is no command {name}")
        command = subcommand
    context: dict[str, Any] = dict(command.context_settings)
    command.make_parser(click.Context(command, **context)).parse_args(rest)
