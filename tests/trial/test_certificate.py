"""What a certificate says, and that it says no more than was seen: everything measured is made up."""

from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from pinprof.ab import Judgement
from pinprof.ab.times import Difference, Pair
from pinprof.ab.worker import GuardResult, Race
from pinprof.report.trial.text import lines, of_share, sentence
from pinprof.rules.rule import Saving
from pinprof.trial.certificate import Certificate, CheckResults
from pinprof.trial.numbers import NumbersComparison
from pinprof.trial.selection import FixOutcome

EQUAL = NumbersComparison("equal", 10, ("loss",), "")
RACE = Race("PIN503", "PIN503: aten::fill_ writes at train.py:3", certain=True, key=("a",))
PERHAPS = Race("PIN506", "PIN506: a view at train.py:4", certain=False, key=("b",))
FASTER = Judgement(8, 0.73, 0.70, 0.76, 0.02)


def certificate(
    judgement: Judgement = FASTER,
    guard: GuardResult | None = None,
    before: GuardResult | None = None,
    numbers: NumbersComparison = EQUAL,
    fates: tuple[Any, ...] = ("kept",),
    gpu: str | None = "H200",
    predicted: tuple[float, float, float] = (0.27, 0.2, 0.3),
    doubts: frozenset[str] = frozenset(),
) -> Certificate:
    """Return the certificate of a patch that is predicted to save so much of a step of 100 ns."""
    saves, low, high = (100 * share for share in predicted)
    change: Any = SimpleNamespace(rule="PIN201")
    first: Any = SimpleNamespace(gpu=gpu, children=0)
    pair = Pair(0, (100.0, 73.0), (100.0, 73.0), Difference(-0.31), Difference(-0.31))
    test = SimpleNamespace(judgement=judgement, pairs=[pair], seconds=40.0)
    measurement: Any = SimpleNamespace(
        test=test, first=(first, first), has_workers=False, plan=SimpleNamespace(takes_turns=True, why_runs="")
    )
    return Certificate(
        analysis=SimpleNamespace(profile=SimpleNamespace(step_ns=100.0, gpus=(1,), doubt=doubts.__contains__)),  # type: ignore[arg-type]
        patches=SimpleNamespace(patches=[SimpleNamespace(change=change)], saving=Saving(saves, (low, high))),  # type: ignore[arg-type]
        outcomes=tuple(FixOutcome(change, fate) for fate in fates),
        measurement=measurement,
        checked=CheckResults(numbers, guard or GuardResult(copies=60), before),
        verified=None,
        why_not_verified="not asked for",
        changes_numbers=False,
        seconds=100.0,
    )


def test_a_proven_patch_is_to_be_taken() -> None:
    made = certificate()
    assert sentence(made) == "faster by 27 % (24 to 30 %), numbers equal, no race: take it"
    text = "\n".join(lines(made))
    assert "predicted: saves 27 % (20 % to 30 %); the measured saving is within" in text
    assert "not recorded again: not asked for" in text
    assert "to tell more" not in text
    assert "shared GPU" not in text
    assert "of a shared GPU" in "\n".join(lines(certificate(doubts=frozenset({"shared_gpu"}))))
    assert "--minutes" in "\n".join(lines(certificate(Judgement(1, 0.8, 0.0, inf, 0.02))))


@pytest.mark.parametrize(
    ("changed", "verdict", "said"),
    [
        ({"gpu": None}, "take_it", "faster by 27 % (24 to 30 %) without a GPU, numbers equal"),
        ({"guard": GuardResult()}, "take_it", "no copy that could race: take it"),
        ({"guard": GuardResult((PERHAPS,), 60)}, "take_it", "no certain race: take it"),
        ({"guard": GuardResult((RACE,), 60)}, "leave_it", "a race (PIN503): leave it"),
        (
            {"guard": GuardResult((RACE,), 60), "before": GuardResult((RACE,), 60)},
            "take_it",
            "no new race: the original has",
        ),
        ({"guard": GuardResult(why="no memory")}, "cannot_tell", "open: races (no memory)"),
        ({"fates": ("kept", "kept_unmeasured", "dropped_no_gain")}, "take_it", "1 of its 2 fixes may bring nothing"),
        ({"judgement": Judgement(8, 0.8, 0.6, 1.1, 0.02)}, "cannot_tell", "cannot tell: perhaps faster: saves 20 %"),
        ({"judgement": Judgement(8, 1.0, 0.99, 1.01, 0.02)}, "leave_it", "not faster: no difference above 2 %"),
    ],
)
def test_the_verdict_claims_no_more_than_was_seen(changed: dict[str, Any], verdict: str, said: str) -> None:
    made = certificate(**changed)
    assert made.verdict == verdict
    assert said in sentence(made)
    assert sentence(made).endswith("take it") <= (verdict == "take_it")


@pytest.mark.parametrize(
    ("predicted", "said"),
    [
        ((0.27, 0.2, 0.3), "the measured saving is within"),
        ((0.2, 0.1, 0.25), "the measured saving may be within"),
        ((0.1, 0.05, 0.2), "the measured saving is NOT within"),
    ],
)
def test_a_prediction_that_is_only_touched_may_be_right(predicted: tuple[float, float, float], said: str) -> None:
    assert said in "\n".join(lines(certificate(predicted=predicted)))


@pytest.mark.parametrize(
    ("judgement", "is_as_predicted", "said"),
    [
        (Judgement(8, 0.979, 0.89, 1.018, 0.02), False, "wherever the measured saving lies, it is outside of what was"),
        (Judgement(8, 1.3, 0.96, 1.7, 0.02), False, "wherever the measured saving lies"),
        (Judgement(8, 0.7, 0.4, 0.85, 0.02), True, "may be within"),
        (Judgement(8, 0.979, 0.85, 1.018, 0.02), None, ""),  # up to 15 %, which touches the range
        (Judgement(8, 0.6, 0.2, 1.1, 0.02), None, ""),
        (Judgement(2, 0.979, 0.0, inf, 0.02), None, ""),  # no interval
        (Judgement(8, 1.0, 0.99, 1.01, 0.02), False, "the measured saving is NOT within"),
    ],
)
def test_what_is_open_may_refute_a_prediction_but_not_support_it(
    judgement: Judgement, is_as_predicted: bool | None, said: str
) -> None:
    made = certificate(judgement, predicted=(0.18, 0.14, 0.22))
    assert made.is_as_predicted is is_as_predicted
    predicted_line = next(line for line in lines(made) if line.startswith("predicted"))
    assert said in predicted_line
    assert predicted_line.endswith("(14 % to 22 %)") == (not said)


def test_what_may_be_a_race_is_named_and_one_reason_for_numbers_and_races_is_said_once() -> None:
    perhaps = certificate(guard=GuardResult((PERHAPS,), 60))
    assert "PERHAPS, look at it: PIN506: a view at train.py:4" in "\n".join(lines(perhaps))
    made = certificate(guard=GuardResult(why="two ranks"), numbers=NumbersComparison("cannot_tell", 0, (), "two ranks"))
    assert sentence(made).count("two ranks") == 1


def test_a_fix_that_is_left_alone_is_measured_by_the_whole() -> None:
    change: Any = None
    assert of_share(FixOutcome(change, "kept", why="the others are left out")) == (
        "measured by the whole (the others are left out)"
    )
    assert of_share(FixOutcome(change, "kept", FASTER)) == "measured by itself: faster by 27 % (24 to 30 %) with it"
