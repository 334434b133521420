import pickle
import re
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest
from recordings import ROOT

from pinprof.measurement.trust.doubt import FIGURE_KINDS, FigureKind
from pinprof.report.explain import to_page
from pinprof.rules import catalogue
from pinprof.rules.rule import Rule
from pinprof.rules.search import RULE_OF_GUARDS, RULES, rule_of
from pinprof.verdict.step_limits import LIMITS


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_file_is_named_after_its_rule(rule: Rule) -> None:
    (file,) = Path(catalogue.__path__[0]).glob(f"{rule.id.lower()}_*.py")
    assert import_module(f"{catalogue.__name__}.{file.stem}").RULE is rule
    assert pickle.loads(pickle.dumps(rule)) is rule_of(rule.id) is rule


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_all_that_a_rule_says_is_explained(rule: Rule) -> None:
    page = to_page(rule, width=2000)
    for text in (rule.title, rule.why, rule.fix, rule.safe_if):
        assert text in page
    for code in (rule.before, rule.code, rule.near_miss):
        assert "".join(f"    {line}".rstrip() + "\n" for line in code.splitlines()) in page
    assert "#" in rule.near_miss, "a comment says why it is fine"


def test_rules_are_in_the_order_of_their_numbers() -> None:
    numbers = [rule.id for rule in RULES]
    assert all(rule.is_hazard or 0 < len(rule.short) <= 22 for rule in RULES)
    assert numbers == sorted(set(numbers))


def test_rules_rest_on_figures() -> None:
    assert get_args(FigureKind) == tuple(FIGURE_KINDS)


def test_each_limit_of_the_step_is_answered() -> None:
    """But for steps unlike the others: a trace shows the step, not what to change."""
    answered = {name for rule in RULES for name in rule.answers}
    assert answered == set(LIMITS) - {"irregular"}


def test_each_rule_that_is_about_time_answers_a_limit() -> None:
    """But for a recording that began cold: later steps do not have its cost."""
    silent = {rule.id for rule in RULES if rule.search and not rule.answers and not rule.is_hazard}
    assert silent == {"PIN304"}


def test_what_looks_at_a_trace_rests_on_figures() -> None:
    """But for two: the program's own profiler and unread gradients stand in the trace as they are."""
    assert {rule.id for rule in RULES if rule.search and not rule.rests_on} == {"PIN613", "PIN704"}


def test_what_no_trace_shows_is_a_hazard() -> None:
    assert all(rule.is_hazard for rule in RULES if rule.search is None)


def test_one_rule_is_for_waits_that_guard_a_copy() -> None:
    (rule,) = [rule for rule in RULES if rule.guards]
    assert rule.id == RULE_OF_GUARDS


def test_each_rule_that_a_text_names_exists() -> None:
    texts = [*(ROOT / "pinprof").rglob("*.py"), *(ROOT / "pinprof/guides").glob("*.md")]
    named = {number for path in texts for number in re.findall(r"PIN\d{3}", path.read_text())}
    assert named == {rule.id for rule in RULES}
