"""What a check has to say about places: limits that were not kept or judged first, then all else that was found."""

from dataclasses import dataclass

from pinprof.check.judge import Checked, LimitVerdict
from pinprof.check.places import CodePlace, finding_places
from pinprof.trace.lines import Place

LEVELS = {"high": "warning", "medium": "warning"}
"""The level of a finding that fails nothing; every other severity is a note."""

Spot = tuple[str, Place]
"""What it is about, and where."""


@dataclass(frozen=True)
class Remark:
    """A message on a place."""

    place: CodePlace
    level: str
    """`error` if it is behind a limit that was not kept, or could not be judged; else `warning` or `note`."""
    verdicts: tuple[LimitVerdict, ...] = ()
    """The limits that were not kept because of it."""

    @property
    def rule(self) -> str:
        """The id of the rule, or the name of the limit where no rule explains the place."""
        return self.place.rule or self.verdicts[0].name

    @property
    def message(self) -> str:
        """What there is to say, with the limits that it fails."""
        sentences = [verdict.sentence for verdict in self.verdicts if verdict.sentence != self.place.message]
        return "; ".join((self.place.message, *sentences))


def remarks(checked: Checked) -> tuple[Remark, ...]:
    """Return the remarks on a trace, errors first.

    A limit that no place explains is a remark without file. A finding whose place is already blamed is not repeated;
    one without a place fails with its rule.
    """
    errors = [Remark(place, "error", verdicts) for place, verdicts in _blamed(checked).items()]
    seen = {_spot(remark.place) for remark in errors}
    others = []
    for finding, place in zip(checked.findings, finding_places(checked.findings), strict=True):
        if _spot(place) in seen:
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
    """Return the places behind limits that were not kept; what several limits say of one spot is one place."""
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
