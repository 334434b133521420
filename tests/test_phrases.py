"""Every code that a report can show has a name in the user's own words, and the most common texts are kept."""

from collections.abc import Callable, Iterator, Mapping

from pinprof.analyses.idle import IDLE_CAUSES
from pinprof.analyses.overlap import REASONS, SENTENCES
from pinprof.analyses.syncs import CAUSES
from pinprof.cli.group import SECTIONS
from pinprof.measurement.trust.doubt import FIGURES
from pinprof.phrases import EXPOSED, IDLE, LOST, PARTS, SLOW, WAITING, WAITS, wait_label
from pinprof.report import words
from pinprof.report.trace.course import OF_STEPS as UNLIKE
from pinprof.report.trace.verdict import ADVICE
from pinprof.report.whatif.text import EDITS, SPEEDS
from pinprof.rules import RULES
from pinprof.verdict import CAUSES as OF_STEPS


def test_each_code_has_its_words() -> None:
    assert set(WAITS) == set(CAUSES)
    assert set(IDLE) == set(words.IDLE) == set(IDLE_CAUSES)
    assert set(SLOW) == set(LOST) == set(OF_STEPS)
    assert set(EXPOSED) == set(REASONS)


def test_no_words_are_two_codes_or_a_code_themselves() -> None:
    for phrases in (WAITS, IDLE, SLOW, LOST, EXPOSED):
        assert len(set(phrases.values())) == len(phrases)
        assert not any("_" in phrase and "`" not in phrase for phrase in phrases.values())


def test_a_label_has_no_backticks() -> None:
    assert wait_label("item") == ".item()"


def test_the_most_common_texts_read_as_kept(golden: Callable[[str, str], None]) -> None:
    golden("phrases.txt", "\n".join(_most_common()))


def _most_common() -> Iterator[str]:
    """Yield the texts that nearly every user meets, as they stand in the code."""
    groups: dict[str, Mapping[str, str]] = {
        "commands": {name: what for _, commands in SECTIONS for name, what in commands},
        "why a step is slow": SLOW,
        "what to do where no finding tells more": ADVICE,
        "causes that cost time": LOST,
        "where the host waits": WAITS,
        "kinds of waits": WAITING,
        "parts of a wait": PARTS,
        "the GPU, while it is idle": IDLE,
        "why the GPU was idle": words.IDLE,
        "why a copy is exposed, in a table": EXPOSED,
        "why a copy is exposed": SENTENCES,
        "steps unlike the others": UNLIKE,
        "what a trace cannot tell": {str(figure): words for figure, words in FIGURES.items()},
        "what a prediction assumes": {name: edit.assumes for name, edit in EDITS.items()} | SPEEDS,
        "findings": {rule.id: rule.title for rule in RULES},
        "what to change": {rule.id: rule.change.to for rule in RULES if rule.change},
    }
    for title, texts in groups.items():
        yield f"{title}:"
        yield from (f"  {code}: {text}".rstrip() for code, text in texts.items())
        yield ""
