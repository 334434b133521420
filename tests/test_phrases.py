"""Every code that a report can show has a name in the user's own words."""

from pinprof.analyses.idle import IDLE_CAUSES
from pinprof.analyses.overlap import REASONS
from pinprof.analyses.syncs import CAUSES
from pinprof.phrases import EXPOSED, IDLE, LOST, SLOW, WAITS, wait_label
from pinprof.report import words
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
