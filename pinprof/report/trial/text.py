"""The sentences on a patch that was tried, and a text that `git apply` takes: all but the diffs is behind a #."""

from collections.abc import Iterator
from math import inf

from pinprof.ab import CANNOT_TELL, FASTER, SLOWER, Judgement
from pinprof.report.ab.text import advice, how_measured, usual_ns
from pinprof.report.fix import commented, folded, lines_of_change, not_changed, on_one_line
from pinprof.report.words import NO_GPU_WORK
from pinprof.trial.certificate import Certificate, CheckResults
from pinprof.trial.numbers import NumbersComparison
from pinprof.trial.selection import FixOutcome
from pinprof.units import NS_PER_MS, counted, duration

KINDS = {"loss": "losses", "parameters": "parameters", "output": "outputs"}


def share(value: float) -> str:
    """Return a share as "38 %", and a small one as "3.8 %"."""
    return f"{100 * value:.{0 if abs(value) >= 0.1 else 1}f} %"  # noqa: PLR2004  two digits are enough


def span(judgement: Judgement) -> str:
    """Return the interval of the saving."""
    if judgement.high == inf:
        return "too few pairs for an interval"
    low, high = sorted((1 - judgement.high, 1 - judgement.low))
    return f"{share(low).removesuffix(' %')} to {share(high)}"


def speed(judgement: Judgement | None) -> str:
    """Return the result on the speed as a clause."""
    if judgement is None:
        return "not measured"
    if judgement.verdict == FASTER:
        return f"faster by {share(1 - judgement.ratio)} ({span(judgement)})"
    if judgement.verdict == SLOWER:
        return f"not faster: slower by {share(judgement.ratio - 1)} (saves {span(judgement)})"
    if judgement.verdict == "no_difference":
        return f"not faster: no difference above {100 * judgement.limit:g} % (saves {span(judgement)})"
    return f"perhaps faster: saves {share(1 - judgement.ratio)} ({span(judgement)})"


def numbers(compared: NumbersComparison) -> str:
    """Return whether the numbers are the same, as a clause."""
    return {
        "equal": "numbers equal",
        "rounding": "numbers equal but for rounding",
        "different": "other numbers",
        "cannot_tell": "numbers not compared",
    }[compared.verdict]


def races(checked: CheckResults) -> str:
    """Return whether there is a race, as a clause."""
    if checked.guard.why:
        return "races not looked for"
    if checked.new_races:
        return f"a race ({checked.new_races[0].rule})"
    if checked.races:
        return "no new race: the original has them, too"
    if any(not race.certain for race in checked.guard.races):
        return "no certain race"
    return "no race" if checked.guard.copies else "no copy that could race"


def sentence(certificate: Certificate) -> str:
    """Return the verdict in one line."""
    verdict, checked = certificate.verdict, certificate.checked
    if verdict == "nothing_to_change" and not certificate.analysis.profile.gpus:
        return f"nothing to change: {NO_GPU_WORK}"
    if verdict == "nothing_to_change":
        unproven = ", and no proposal is proven" if certificate.outcomes else ""
        return f"nothing to change: no finding has a change that is mechanical and certain{unproven}"
    parts = [_speed(certificate), *((numbers(checked.numbers), races(checked)) if checked else ())]
    if verdict == "take_it":
        return f"{', '.join(parts)}: take it{_by_itself(certificate)}"
    if verdict == "cannot_tell":
        return f"cannot tell: {', '.join(parts)}; open: {'; '.join(certificate.open())}"
    return f"{', '.join(parts)}: leave it"


def _speed(certificate: Certificate) -> str:
    """Return the result on the speed, and that it was measured without a GPU if so."""
    measurement = certificate.measurement
    is_on_host = measurement is not None and not any(first.gpu for first in measurement.first)
    return speed(certificate.judgement) + (" without a GPU" if is_on_host else "")


def _by_itself(certificate: Certificate) -> str:
    """Return how many fixes were not measured by themselves; empty if none."""
    kept = [outcome for outcome in certificate.outcomes if outcome.is_kept]
    unknown = sum(outcome.fate == "kept_unmeasured" for outcome in kept)
    if not unknown:
        return ""
    return f", as a whole: {unknown} of its {len(kept)} fixes may bring nothing"


def of_share(tried: FixOutcome) -> str:
    """Return the result for one fix among several."""
    measured = f": {speed(tried.judgement)} with it" if tried.judgement else ""
    why = f": {tried.why}" if tried.why else ""
    return {
        "kept": f"measured by itself{measured}"
        if measured
        else f"measured by the whole ({tried.why or 'with the others'})",
        "kept_unmeasured": f"not measured by itself ({tried.why})",
        "dropped_no_gain": f"left out, it brings nothing{measured}",
        "dropped_not_shown": f"left out, nothing could be shown in the time{measured or why}",
        "dropped_not_safe": f"left out, it is not proven{why}",
    }[tried.fate]


def lines(certificate: Certificate) -> Iterator[str]:
    """Yield the lines of a certificate: step, measurement, prediction, numbers and guard."""
    measurement, checked = certificate.measurement, certificate.checked
    if measurement is None:
        return
    before, after = (duration(usual_ns(measurement, number)) for number in (0, 1))
    yield f"step: {before} before, {after} after; {speed(measurement.test.judgement)}"
    yield f"measured: {how_measured(measurement)}"
    more = advice(measurement)
    if more:
        yield f"to tell more: {more}"
    yield from _prediction(certificate)
    if checked is None:
        return
    yield f"numbers: {_numbers(checked.numbers)}"
    yield f"guard: {_guard(checked)}"


def _prediction(certificate: Certificate) -> Iterator[str]:
    predicted, within = certificate.predicted, certificate.is_as_predicted
    if predicted is None:
        why = f" ({certificate.why_not_verified})" if certificate.why_not_verified else ""
        yield f"predicted: not known, all of it cannot be replayed{why}"
        return
    measured = "" if within is None else f"; {_against_prediction(certificate)}"
    yield f"predicted: saves {share(predicted[0])} ({share(predicted[1])} to {share(predicted[2])}){measured}"
    if certificate.analysis.profile.doubt("shared_gpu"):
        yield "another program seems to have used the GPU while it was recorded: the prediction is of a shared GPU"
    verified = certificate.verified
    if verified is None and certificate.why_not_verified:
        yield f"not recorded again: {certificate.why_not_verified}"
    if verified is not None:
        one, other = verified.prediction.predicted_ns, verified.measured_ns
        yield (
            f"recorded again: {duration(other)} per step, {duration(one)} predicted "
            f"({100 * verified.error:+.1f} %); pinprof verify"
        )
        if verified.new_waits:
            yield f"new waits: {counted(len(verified.new_waits), 'place')}"


def _against_prediction(certificate: Certificate) -> str:
    judgement = certificate.judgement
    if certificate.is_as_predicted:
        return f"the measured saving {'is' if certificate.is_by_estimate_as_predicted else 'may be'} within"
    if judgement and judgement.verdict == CANNOT_TELL:
        return "wherever the measured saving lies, it is outside of what was predicted"
    return "the measured saving is NOT within"


def _numbers(compared: NumbersComparison) -> str:
    what = " and ".join(KINDS[kind] for kind in compared.kinds)
    what_is_compared = f"{what} of the first {counted(compared.steps, 'step')}, under one seed"
    if compared.verdict == "equal":
        return f"equal bit for bit: {what_is_compared}"
    distances = _distances(compared)
    if compared.verdict == "rounding":
        return f"equal but for rounding: {what_is_compared}; {distances}"
    if compared.verdict == "different":
        return f"DIFFERENT: {compared.why}; {distances}" if distances else f"DIFFERENT: {compared.why}"
    return f"not known: {compared.why}"


def _distances(compared: NumbersComparison) -> str:
    if compared.distance is None or compared.rounding is None:
        return ""
    again = "the same" if not compared.repeated else f"off by {compared.repeated:.2g}"
    return f"off by {compared.distance:.2g}; the original with other last bits: {compared.rounding:.2g}, again: {again}"


def _guard(checked: CheckResults) -> str:
    guard = checked.guard
    if guard.why:
        return f"did not run: {guard.why}"
    notes = f" ({'; '.join(guard.notes)})" if guard.notes else ""
    perhaps = [race.headline for race in guard.races if not race.certain]
    notes = f"; PERHAPS, look at it: {'; '.join(perhaps)}{notes}" if perhaps else notes
    if not checked.races:
        if not guard.copies:
            return f"no race was possible: no asynchronous copy in these steps{notes}"
        return f"no race; it followed {counted(guard.copies, 'asynchronous copy', 'asynchronous copies')}{notes}"
    new = checked.new_races
    if new:
        return f"RACE: {'; '.join(race.headline for race in new)}{notes}"
    return f"races that the original has, too: {'; '.join(race.headline for race in checked.races)}{notes}"


def milliseconds(certificate: Certificate, number: int) -> float | None:
    """Return the usual step of a version in ms."""
    return None if certificate.measurement is None else usual_ns(certificate.measurement, number) / NS_PER_MS


def trial_to_text(certificate: Certificate) -> bytes:
    """Return the patch, why the rest is not changed, the certificate, and the verdict in the last line.

    The diffs of an unproven patch are also behind a #, so that a pipe into `git apply` does not apply them.
    """
    is_proven = certificate.verdict == "take_it"
    return b"".join(
        (*_patch(certificate, is_proven=is_proven), not_changed(certificate.patches), _certificate(certificate))
    )


def to_patch(certificate: Certificate) -> bytes:
    """Return the patch alone with its certificate, proven or not, for a file."""
    return b"".join((*_patch(certificate, is_proven=True), _certificate(certificate)))


def _patch(certificate: Certificate, *, is_proven: bool) -> Iterator[bytes]:
    step_ns = certificate.analysis.profile.step_ns
    by_change = {id(outcome.change): outcome for outcome in certificate.outcomes}
    for patch in certificate.patches.patches:
        about = list(lines_of_change(patch.change, step_ns))
        outcome = by_change.get(id(patch.change))
        if outcome is not None and len(by_change) > 1:
            about += folded(of_share(outcome), "  ")
        yield ("\n".join(about) + "\n").encode()
        yield (patch.diff if is_proven else commented(patch.diff)) + b"\n"
    left_out = [outcome for outcome in certificate.outcomes if not outcome.is_kept]
    if left_out:
        yield b"# Left out:\n"
        for outcome in left_out:
            change = outcome.change
            doubts = f" (not certain: {'; '.join(change.doubts)})" if change.doubts else ""
            text = f"{change.rule.id} {change.what} at {change.places[0]}{doubts}: {of_share(outcome)}"
            yield ("\n".join(folded(text)) + "\n").encode()


def _certificate(certificate: Certificate) -> bytes:
    shown = [line for text in lines(certificate) for line in folded(text, "  ")]
    head = ["", "# Certificate:", *shown, f"#   took {certificate.seconds:.0f} s"] if shown else [""]
    return ("\n".join([*head, f"# {on_one_line(sentence(certificate))}"]) + "\n").encode()
