"""Forbid phrases that must be read twice in comments, docstrings, texts and guides. Run `python scripts/lint_words.py`.

A phrase that still stands somewhere has a number: there may be fewer, never more. Write the smaller number then.
"""

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("pinprof", "scripts", "tests")
TEXTS = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


@dataclass(frozen=True)
class Phrase:
    """Words that are not to be written, what is clearer, and how often they still stand."""

    pattern: str
    instead: str
    left: int = 0


PHRASES = (
    Phrase(r"\bso many\b", "N, or the name of the number", 3),
    Phrase(r"\bbeside\b", "next to, with, overlapping, besides", 11),
    Phrase(r"\bof late\b", "recently, or since when", 0),
    Phrase(r"\belse(?=[.;:]?(?:[\"'`)]|$))", "otherwise, in front, or what the other case is", 4),
    Phrase(r"\bis no\b", "is not a", 15),
    Phrase(r"\btells\b", "shows, says, reports; distinguishes", 6),
    Phrase(r"\bhas it\b", "the noun", 3),
    Phrase(r"\bof which\b", "a clause of its own, or `whose`", 12),
    Phrase(r"\bto each beside\b", "what it is added to"),
    Phrase(r"\ba lot says\b", "what was drawn, and what follows"),
    Phrase(r"\bthe first change also removes other causes\b", "which causes"),
    Phrase(r"\balone it may only move\b", "what moves where"),
    Phrase(r"\bNot searched in full\b", "what was left out, and why"),
    Phrase(r"\bcommunication is the limit\b", "Communication-bound: …"),
    Phrase(r"\bcannot tell the step, the step without\b", "a sentence for each figure"),
    Phrase(r"\bits copies cost the step\b", "host and copies by name"),
)
ANY_OF_THEM = re.compile("|".join(phrase.pattern for phrase in PHRASES), re.IGNORECASE | re.MULTILINE)


def main() -> int:
    """Print each phrase that stands more often than it may, with its places; return the exit status."""
    places: dict[Phrase, list[str]] = {phrase: [] for phrase in PHRASES}
    for path in files():
        for phrase, line in phrases_in(path.read_text(encoding="utf-8"), is_python=path.suffix == ".py"):
            places[phrase].append(f"{path.relative_to(ROOT)}:{line}")
    too_many = {phrase: lines for phrase, lines in places.items() if len(lines) > phrase.left}
    for phrase, lines in too_many.items():
        print(*lines, sep="\n")
        print(f"{phrase.pattern}: {len(lines)} times, at most {phrase.left}. Clearer: {phrase.instead}")
    for phrase, lines in places.items():
        if len(lines) < phrase.left:
            print(f"{phrase.pattern}: {len(lines)} are left: write that in place of {phrase.left}")
    return 1 if too_many else 0


def files() -> Iterator[Path]:
    """Yield the files of the program, its guides, the scripts but this one, and the tests."""
    yield from (ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md"))
    for folder in FOLDERS:
        paths = {path for suffix in (".py", ".md") for path in (ROOT / folder).rglob(f"*{suffix}")}
        yield from sorted(paths - {Path(__file__).resolve()})


def phrases_in(text: str, *, is_python: bool) -> Iterator[tuple[Phrase, int]]:
    """Yield the phrases in a file and their lines; of a program in its comments and texts alone."""
    if not ANY_OF_THEM.search(text):
        return
    for first, words in texts_in(text) if is_python else [(1, text)]:
        for phrase in PHRASES:
            for match in re.finditer(phrase.pattern, words, re.IGNORECASE | re.MULTILINE):
                yield phrase, first + words.count("\n", 0, match.start())


def texts_in(program: str) -> Iterator[tuple[int, str]]:
    """Yield the comments and texts of a program, each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(program).readline):
        if token.type in TEXTS and ANY_OF_THEM.search(token.string):
            yield token.start[0], token.string


if __name__ == "__main__":
    sys.exit(main())
