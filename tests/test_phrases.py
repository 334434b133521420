"""No two causes read alike, none reads as its code, and the most common texts are kept."""

from collections.abc import Callable, Iterator, Mapping

import pytest

from pinprof.analyses.copies import EXPOSURES
from pinprof.analyses.idle import IDLE
from pinprof.analyses.syncs.causes import WAITS
from pinprof.analyses.syncs.removal import VERDICTS
from pinprof.cli import main
from pinprof.cli.group import SECTIONS
from pinprof.measurement.trust.doubt import FIGURE_KINDS
from pinprof.prediction.options import OPTIONS
from pinprof.report.trace.whole_run import WHY_IRREGULAR as UNLIKE
from pinprof.report.wait_groups import WAIT_PARTS
from pinprof.report.whatif.text import SPEEDS
from pinprof.rules.search import RULES
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


def test_a_label_of_a_legend_has_no_backticks() -> None:
    assert WAITS["item"].plain == ".item()"


def test_the_most_common_texts_read_as_kept(golden: Callable[[str, str], None]) -> None:
    golden("phrases.txt", "\n".join(_most_common()))


def _most_common() -> Iterator[str]:
    """Yield the texts that nearly every user meets, as they stand in the code."""
    groups: dict[str, Mapping[str, str]] = {
        "commands": {
            name: main.commands[name].get_short_help_str(100) for names in SECTIONS.values() for name in names
        },
        "why a step is slow": {name: limit.why for name, limit in LIMITS.items()},
        "what to do where no finding tells more": {name: limit.advice for name, limit in LIMITS.items()},
        "causes that cost time": {name: limit.lost for name, limit in LIMITS.items()},
        "where the host waits": {name: cause.label for name, cause in WAITS.items()},
        "kinds of waits": VERDICTS,
        "parts of a wait": {part.key: part.label for part in WAIT_PARTS},
        "the GPU, while it is idle": {name: cause.does for name, cause in IDLE.items()},
        "why the GPU was idle": {name: cause.why for name, cause in IDLE.items()},
        "why a copy is exposed, in a table": {name: exposure.label for name, exposure in EXPOSURES.items()},
        "why a copy is exposed": {name: exposure.sentence for name, exposure in EXPOSURES.items()},
        "steps unlike the others": UNLIKE,
        "what a trace cannot tell": {str(figure): words for figure, words in FIGURE_KINDS.items()},
        "what a prediction assumes": {name: fix.assumes for name, fix in OPTIONS.items()}
        | {name: assumes for name, (_, assumes) in SPEEDS.items()},
        "findings": {rule.id: rule.title for rule in RULES},
        "what to change": {rule.id: rule.change.to for rule in RULES if rule.change},
    }
    for title, texts in groups.items():
        yield f"{title}:"
        yield from (f"  {code}: {text}".rstrip() for code, text in texts.items())
        yield ""
