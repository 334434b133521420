"""Each fix changes the programs that it names as its own, and leaves those that only look alike."""

from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from fixing import LOADER, mended, plain

from pinprof.fix import Chosen
from pinprof.fix.core.fix import Fix
from pinprof.fix.fixes import every_fix, fixes_of
from pinprof.rules import RULES


def program(text: str) -> str:
    """Return a program that stands in a class, without its indentation."""
    return dedent(text).lstrip("\n")


VALID = [(fix, program(before), program(after)) for fix in every_fix() for before, after in fix.VALID]
INVALID = [(fix, program(code), why) for fix in every_fix() for code, why in fix.INVALID]
NAMES = {rule.id for rule in RULES}


@pytest.mark.parametrize(("fix", "before", "after"), VALID, ids=lambda each: type(each).__name__)
def test_a_program_of_a_fix_is_changed(fix: Fix, before: str, after: str, tmp_path: Path) -> None:
    outcome = mended(tmp_path, before, chosen=Chosen(changes_numbers=True))
    assert outcome.code == plain(after), (type(fix), outcome.why)


@pytest.mark.parametrize(("fix", "code", "why"), INVALID, ids=lambda each: type(each).__name__)
def test_a_program_that_looks_alike_stays(fix: Fix, code: str, why: str, tmp_path: Path) -> None:
    pinned = replace(LOADER, pin_memory="PIN102" in code)
    outcome = mended(tmp_path, code, loader=pinned, pinned=True, chosen=Chosen(changes_numbers=True))
    assert outcome.is_unchanged, (type(fix), outcome.code)
    assert why in outcome.why


def test_each_fix_is_for_rules_and_has_programs() -> None:
    for fix in every_fix():
        assert set(fix.rules) <= NAMES
        assert fix.what
        assert fix.VALID
        assert fix.INVALID
    assert [type(fix).__name__ for fix in fixes_of("PIN202")] == ["CheapConditionFirst"]
