"""What is wrong and what to do about it: rules in plain sight, and what they find in a profile."""

from pinprof.rules.rule import NEGLIGIBLE, Evidence, Finding, Findings, FoundSite, Joint, Rule, Saving
from pinprof.rules.search import (
    RULES,
    find,
    finding_of_verdict,
    look,
    rule_of,
    rule_of_exposure,
    rule_of_wait,
    unsearched,
)

__all__ = [
    "NEGLIGIBLE",
    "RULES",
    "Evidence",
    "Finding",
    "Findings",
    "FoundSite",
    "Joint",
    "Rule",
    "Saving",
    "find",
    "finding_of_verdict",
    "look",
    "rule_of",
    "rule_of_exposure",
    "rule_of_wait",
    "unsearched",
]
