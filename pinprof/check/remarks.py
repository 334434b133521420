"""The remarks of a check on places: broken and unknown limits first, then all other findings."""

from dataclasses import dataclass

from pinprof.check.judge import Checked, LimitVerdict
from pinprof.check.places import CodePlace, finding_places
from pinprof.trace.lines import Place

LEVELS = {"high": "warning", "medium": "warning"}
"""The level of a finding that fails no limit; every other severity is a note."""

Spot = tuple[str, Place]
"""A subject and its place."""


@dataclass(frozen=True)
class Remark:
    """A message on a place."""

    place: CodePlace
    level: str
    """`error` if it causes a broken or unknown limit; else `warning` or `note`."""
    verdicts: tuple[LimitVerdict, ...] = ()
    """The limits that it breaks."""

    @property
    def rule(self) -> str:
        """The id of the rule, or the name of the limit where no rule explains the place."""
        return self.place.rule or self.verdicts[0].name

    @property
    def message(self) -> str:
        """The message of the place, with the limits that it breaks."""
        sentences = [verdict.sentence for verdict in self.verdicts if verdict.sentence != self.place.message]
        return "; ".join((self.place.message, *sentences))


def remarks(checked: Checked) -> tuple[Remark, ...]:
    """Return the remarks on a trace, errors first.

    A limit without places is a remark without a file. A finding at the place of an error is not repeated. A finding
    without a place is an error if a failed limit has its rule.
    """
    errors = [Remark(place, "error", verdicts) for place, verdicts in _blamed(checked).items()]
    blamed = {_spot(remark.place) for remark in errors}
    others = []
    for finding, place in ((one, place) for one in checked.findings for place in finding_places([one])):
        if _spot(place) in blamed:
            continue
        behind = tuple(
            verdict
            for verdict in checked.verdicts
            if verdict.failed and any(place.rule == blame.rule for blame in verdict.places)
        )
        if behind and place.file is None and place.function is None:
            errors.append(Remark(place, "error", behind))
        else:
            others.append(Remark(place, LEVELS.get(finding.severity, "note")))
    return (*errors, *sorted(others, key=lambda remark: remark.level != "warning"))


def _blamed(checked: Checked) -> dict[CodePlace, tuple[LimitVerdict, ...]]:
    """Return the places that cause broken or unknown limits; several limits of one spot share a place."""
    blamed: dict[CodePlace, tuple[LimitVerdict, ...]] = {}
    for verdict in checked.verdicts:
        if not verdict.failed:
            continue
        earlier: dict[Spot, list[CodePlace]] = {}
        for place in blamed:
            earlier.setdefault(_spot(place), []).append(place)
        nowhere = CodePlace(None, None, None, None, verdict.key, verdict.sentence)
        for place in verdict.places or (nowhere,):
            same = [place] if place in blamed else earlier.get(_spot(place), [place])
            for known in same:
                if verdict not in blamed.get(known, ()):
                    blamed[known] = (*blamed.get(known, ()), verdict)
    return blamed


def _spot(place: CodePlace) -> Spot:
    return place.rule or place.subject, place.place
