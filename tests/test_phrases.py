"""No two causes read alike, and none reads as its code."""

import pytest

from pinprof.analyses.copies import EXPOSURES
from pinprof.analyses.idle import IDLE
from pinprof.analyses.syncs.causes import WAITS
from pinprof.verdict.step_limits import LIMITS

SHORT = {
    "waits": [cause.label for cause in WAITS.values()],
    "idle time": [cause.does for cause in IDLE.values()],
    "why": [limit.why for limit in LIMITS.values()],
    "lost": [limit.lost for limit in LIMITS.values()],
    "exposed": [exposure.label for exposure in EXPOSURES.values()],
}


@pytest.mark.parametrize("phrases", SHORT.values(), ids=SHORT)
def test_no_words_are_two_codes_or_a_code_themselves(phrases: list[str]) -> None:
    assert len(set(phrases)) == len(phrases)
    assert not any("_" in phrase and "`" not in phrase for phrase in phrases)
