"""`pinprof whatif` and `pinprof verify` as text and JSON: what a change would bring, and what it did bring."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import UNSET, UnsetType
from rich.console import RenderableType
from rich.text import Text

from pinprof.analyses.syncs.causes import WAITS, label_of
from pinprof.analyses.syncs.sites import Site
from pinprof.comparison.figures import SMALL_DIFFERENCE
from pinprof.document import Bytes, Count, Document, Ms, RangeMs, Share, Words, doc, encoded, filled, one_of
from pinprof.documents import fields
from pinprof.documents.fields import PlacedJson
from pinprof.ground.units import between, counted, duration, listed, percent, rate, sizes
from pinprof.prediction import Prediction, Scenario
from pinprof.prediction.pinning import pinned_rate
from pinprof.prediction.scenarios import OPTIONS, OptionChange
from pinprof.prediction.verification import Verification
from pinprof.replay.bound import BOUND_WORDS
from pinprof.report.html import Column, number_columns
from pinprof.report.terminal import bullet, fact, laid_out, section, unwrapped
from pinprof.report.view import Fact, ReportTable, Section, in_terminal
from pinprof.report.words import HOW_KNOWN, capitalized, place, printable, saves_or_costs
from pinprof.rules.sums import at, within
from pinprof.trace.tables import WHOLE_TRACE, Trace

MAX_SITES_OF_CHANGE = 5
MAX_LISTED_RANKS = 8
"""The most ranks that are listed; further ones are counted."""
RankChanges = tuple[Trace, Sequence[OptionChange]]
HOW_STEP_KNOWN = HOW_KNOWN | {"given": "as given with --step-ms"}
SIMPLER_SHARE = 0.9
"""A simpler change that saves this share of what the best one saves is advised in its place."""
MIN_CHANGE_SHARE_OF_STEP = 0.002


SPEEDS = {
    "host_speed": ("host", "all of the host's own time scales; the replay gives its waits"),
    "gpu_speed": ("GPU", "all kernels scale alike; copies keep their rates"),
}
"""Options that scale the speed of host or GPU, with what they assume."""


def prediction_to_text(
    ranks: Sequence[RankChanges], prediction: Prediction, *, width: int = 100, color: bool = False
) -> str:
    """Return a prediction as text for a terminal of this width, with ANSI colours if asked for.

    `ranks` are the traces that were replayed together, each with what changes in it.
    """
    return laid_out(_paragraphs(ranks, prediction), width=width, color=color)


def _paragraphs(ranks: Sequence[RankChanges], prediction: Prediction) -> Iterator[RenderableType]:
    traces, scenario = [trace for trace, _ in ranks], prediction.scenario
    whole, before, after = _whole_name(traces), prediction.baseline_ns, prediction.predicted_ns
    certain, bounded = prediction.is_certain, _saves_at_most(ranks)
    brings = difference(before, after, is_certain=certain, whole=whole, at_most=bounded)
    yield from _title(traces)
    yield Text(f"{duration(before)} now, {duration(after)} after the change: {brings}.", "bold")
    yield section("Step")
    yield fact(duration(before), f"now, {HOW_STEP_KNOWN[prediction.baseline_source]}")
    yield fact(duration(after), f"after the change ({between(*prediction.range_ns)})")
    for when, bound in (("now", prediction.bound_before), ("after", prediction.bound_after)):
        yield fact(bound.replace("gpu", "GPU"), f"{when}: {BOUND_WORDS[bound]}")
    if prediction.waits_for_pinning:
        yield fact("pinning", f"after: the DataLoader's thread pins {duration(prediction.pinning_ns)} per {whole}")
    yield section("What changes")
    yield from _changes(ranks, scenario)
    speeds = {name: factor for name in SPEEDS if (factor := getattr(scenario, name)) != 1}
    yield from (bullet(f"the {SPEEDS[name][0]} is {factor:.3g} times as fast") for name, factor in speeds.items())
    yield section("What this assumes")
    edited = (change.option for _, changes in ranks for change in changes if change.per_step or change.sites)
    yield from (bullet(OPTIONS[option].assumes) for option in dict.fromkeys(edited))
    yield from (bullet(SPEEDS[name][1]) for name in speeds)
    yield bullet(f"the rest of the {whole} stays as recorded")


def _title(traces: Sequence[Trace]) -> Iterator[RenderableType]:
    for trace in traces[:MAX_LISTED_RANKS]:
        yield unwrapped(trace.path, "bold")
    if len(traces) > MAX_LISTED_RANKS:
        yield Text(f"and {counted(len(traces) - MAX_LISTED_RANKS, 'more rank')}", "bold")
    size = traces[0].info.world_size
    if size and 1 < len(traces) < size:
        yield bullet(f"{len(traces)} of {size} ranks; the others reach each collective as late as they did")


def _changes(ranks: Sequence[RankChanges], scenario: Scenario) -> Iterator[RenderableType]:
    ranks_by_lines: dict[tuple[str, ...], list[str]] = {}
    for position, (trace, changes) in enumerate(ranks):
        lines = tuple(line for change in changes for line in change_lines(trace, change, scenario))
        rank = position if trace.info.rank is None else trace.info.rank
        ranks_by_lines.setdefault(lines, []).append(str(rank))
    for lines, numbers in ranks_by_lines.items():
        if len(ranks_by_lines) > 1:
            shown = ", ".join(numbers[:MAX_LISTED_RANKS]) + (" and others" if len(numbers) > MAX_LISTED_RANKS else "")
            yield Text(f"rank {shown}")
        yield from map(bullet, lines)


def _whole_name(traces: Sequence[Trace]) -> str:
    return "trace" if any(trace.steps.source == WHOLE_TRACE for trace in traces) else "step"


def _saves_at_most(ranks: Sequence[RankChanges]) -> bool:
    """Return whether a dropped wait must be replaced by another one, so that less is saved."""
    dropped = (change for _, changes in ranks for change in changes if change.option == "drop_syncs")
    return any(site.must_stay for change in dropped for site in change.sites)


def difference(
    before_ns: float, after_ns: float, *, is_certain: bool, whole: str = "step", at_most: bool = False
) -> str:
    """Return what a change saves, or saves at most: "saves 1.90 ms, 15 % of the step"."""
    change_ns = abs(before_ns - after_ns)
    if change_ns < MIN_CHANGE_SHARE_OF_STEP * before_ns:
        return "no measurable change"
    if not is_certain:
        return f"no certain change ({duration(change_ns)} {'more' if after_ns > before_ns else 'less'})"
    return saves_or_costs(before_ns, after_ns, whole) + (", at most" if at_most and after_ns < before_ns else "")


def change_lines(trace: Trace, change: OptionChange, scenario: Scenario | None = None) -> Iterator[str]:
    """Yield how many waits, copies or calls an option changes per step, and at which places."""
    words = OPTIONS[change.option]
    if not change.per_step and not change.sites:
        yield words.none
        return
    per = "in the whole trace" if trace.steps.source == WHOLE_TRACE else "per step"
    is_sized = words.is_sized and change.bytes_per_step != 0
    details = f" ({sizes(change.bytes_per_step, change.unsized)})" if is_sized else ""
    at_rate = f", at {_pinned(trace, scenario)}" if change.option == "pin" else ""
    count = counted(change.per_step, words.one, words.several)
    yield f"{count} {per}{details} {words.how}{at_rate}{_at_sites(change.sites)}"
    kept = [site for site in change.sites if site.guards] if change.option == "drop_syncs" else []
    if kept:
        yield f"another wait must replace these, since they guard copies in flight (PIN216){_at_sites(kept)}"
    if change.blockers:
        named = [f"{label_of(blocker.what)}{at(blocker.place)}" for blocker in change.blockers]
        blockers = listed(named, MAX_SITES_OF_CHANGE)
        yield f"one graph cannot hold these (--drop-syncs all removes those that are waits): {blockers}"


def _pinned(trace: Trace, scenario: Scenario | None) -> str:
    if scenario and scenario.machine and not scenario.pinned_gbps:
        return f"the rates measured on {printable(scenario.machine.gpu)}"
    if scenario and scenario.pinned_gbps:
        return rate(scenario.pinned_gbps)
    usual = pinned_rate(trace)
    return rate(usual.gbps) + ("" if usual.is_known else ", an assumed rate: the link of this GPU is not known")


def _at_sites(sites: Sequence[Site]) -> str:
    named = list(dict.fromkeys(f"{WAITS[site.cause].label} {where(site)}" for site in sites))
    return f": {listed(named, MAX_SITES_OF_CHANGE)}" if named else ""


def where(site: Site) -> str:
    """Return the place of a site, as far as the trace shows it."""
    named = place(site.place)
    return (f"at {named}" if named else f"in {site.op or site.call}") + within([site])


def to_overview(
    traces: Sequence[Trace],
    now: Prediction,
    named: Sequence[tuple[str, str, Prediction]],
    *,
    width: int = 100,
    color: bool = False,
) -> str:
    """Return the predictions of the usual scenarios, by name and options, as a table for a terminal of this width."""
    return laid_out(_overview(traces, now, named), width=width, color=color)


def is_saving(now: Prediction, after: Prediction) -> bool:
    """Return whether a change saves more than the error of the replay of the unchanged program, `now`."""
    off = abs(now.predicted_ns - now.baseline_ns)
    return after.baseline_ns - after.predicted_ns > max(off, MIN_CHANGE_SHARE_OF_STEP * now.baseline_ns)


def best_of(now: Prediction, named: Sequence[tuple[str, str, Prediction]]) -> tuple[str, str, Prediction] | None:
    """Return the first change that saves about as much as the best single one; None if none saves a measurable time.

    `named` begins with the simplest change; its last entry is all changes together.
    """
    if not any(is_saving(now, after) for _, _, after in named):
        return None
    most = max(after.saving.saving_ns for _, _, after in named[:-1])
    return next(choice for choice in named if choice[2].saving.saving_ns >= SIMPLER_SHARE * most)


def _best(now: Prediction, named: Sequence[tuple[str, str, Prediction]]) -> str:
    best = best_of(now, named)
    if best is None:
        return "None of these changes saves a measurable time: pinprof report says what limits the step"
    name, options, after = best
    step = between(after.baseline_ns, after.predicted_ns)
    return f"{capitalized(name)} would save most: {step} per step ({options})"


def _overview(
    traces: Sequence[Trace], now: Prediction, named: Sequence[tuple[str, str, Prediction]]
) -> Iterator[RenderableType]:
    whole, off = _whole_name(traces), abs(now.predicted_ns - now.baseline_ns)
    rows = []
    for name, options, after in named:
        saving = after.baseline_ns - after.predicted_ns
        cells = duration(saving), percent(saving / after.baseline_ns)
        shown = cells if is_saving(now, after) else ("-", "-")
        rows.append((name, options, duration(after.predicted_ns), between(*after.range_ns), *shown))
    step = f"now, {HOW_STEP_KNOWN[now.baseline_source]}; {BOUND_WORDS[now.bound_before]}"
    noise = f"the unchanged program replays at {duration(now.predicted_ns)}: savings up to {duration(off)} are noise"
    columns = [Column("change"), Column("options"), *number_columns(whole, "range", "saves", f"of the {whole}")]
    yield from _title(traces)
    yield Text(f"{_best(now, named)}.", "bold")
    yield from in_terminal(
        Section(
            "Step",
            facts=[Fact("step", duration(now.baseline_ns), step, is_named=False)],
            tables=[ReportTable("", columns, rows)],
            notes=[noise] if off >= MIN_CHANGE_SHARE_OF_STEP * now.baseline_ns else [],
        )
    )


def verified_to_text(before: Trace, verified: Verification, *, width: int = 100, color: bool = False) -> str:
    """Return the comparison as text for a terminal of this width, with ANSI colours if asked for."""
    return laid_out(_verified(before, verified), width=width, color=color)


def _verified(before: Trace, verified: Verification) -> Iterator[RenderableType]:
    yield Text(printable(f"{verified.before.path} -> {verified.after.path}"), "bold")
    if not verified.is_same_program:
        yield section("These may not be the same program")
        yield bullet(
            f"only {percent(verified.kernels_alike)} of their kernels per step have the same names: more than the fix "
            "differs between the steps"
        )
    yield section("Step after the fix")
    yield from _verified_steps(verified)
    yield section("What the fix changed")
    if not verified.changes:
        yield bullet(
            "nothing that the replay knows: the second trace has the same waits, copies and allocations as the "
            "first, so no saving is predicted"
        )
    for change in verified.changes:
        yield from map(bullet, change_lines(before, change))
    for site in verified.new_waits:
        yield bullet(f"new, and not in the prediction: {WAITS[site.cause].label} {where(site)}")


def _verified_steps(verified: Verification) -> Iterator[RenderableType]:
    predicted, measured = verified.prediction, verified.measured_range_ns
    if verified.changes:
        yield fact(
            f"{verified.error:+.1%}".replace("%", " %"), "is the error of the prediction against the measured step"
        )
        brings = difference(predicted.baseline_ns, predicted.predicted_ns, is_certain=predicted.is_certain)
        yield fact(duration(predicted.predicted_ns), f"predicted ({between(*predicted.range_ns)}): {brings}")
    how = f"{HOW_STEP_KNOWN[verified.measured_source]} ({between(*measured)})"
    is_small = abs(predicted.baseline_ns - verified.measured_ns) < SMALL_DIFFERENCE * predicted.baseline_ns
    is_certain = not is_small and not measured[0] <= predicted.baseline_ns <= measured[1]
    brings = difference(predicted.baseline_ns, verified.measured_ns, is_certain=is_certain)
    yield fact(duration(verified.measured_ns), f"{how}: {brings}")
    yield fact(duration(predicted.baseline_ns), f"before the fix, {HOW_STEP_KNOWN[predicted.baseline_source]}")


# JSON


class WaitJson(PlacedJson):
    """What distinguishes a wait from others."""

    cause: fields.WaitCause
    op: Annotated[str | None, doc("the op around it")]
    library: Annotated[fields.Library | None, doc("where it waits in a library")]
    guards: fields.Guards


class ChangeJson(Document):
    """What one option changes in the program."""

    option: Annotated[str, one_of(OPTIONS), doc("the option of `pinprof whatif`")]
    per_step: Annotated[float, doc("waits, copies or calls that it changes")]
    bytes_per_step: Annotated[Bytes | None, doc("bytes of the copies that it changes")]
    sites: Annotated[Sequence[WaitJson], doc("the waits that it is about")]
    blockers: Annotated[Sequence[fields.BlockerJson], doc("what cuts a CUDA graph into several")]


class RankChange(ChangeJson):
    """What one option changes in the program of a rank."""

    rank: Annotated[Count | None, doc("the rank")]


class Predicted(Document, rename={"baseline_ms": "baseline_step_ms", "predicted_ms": "predicted_step_ms"}):
    """The step before and after a change."""

    baseline_ms: Annotated[Ms, doc("the step before the change, without the profiler")]
    baseline_source: Annotated[fields.Source, doc("how that is known")]
    predicted_ms: Annotated[Ms, doc("the step after it")]
    range_ms: Annotated[RangeMs, doc("where that lies")]
    speedup: Annotated[float, doc("before by after")]
    bound_before: Annotated[fields.Bound | None, doc("what sets the pace before")]
    bound_after: Annotated[fields.Bound | None, doc("what sets the pace after")]


class UsualJson(Predicted):
    """One of the usual changes."""

    name: Annotated[Words, doc("the change in words")]
    options: Annotated[str, doc("the options that ask for it")]
    scenario: Annotated[Scenario, doc("the same as fields")]


class Whatif(Predicted, kw_only=True, tag_field="schema", tag="pinprof.whatif/1"):
    """What `pinprof whatif --json` writes."""

    path: Annotated[str, doc("the trace, or the first of several")]
    paths: Annotated[Sequence[str], doc("all traces that were replayed together")]
    scenario: Annotated[Scenario, doc("the changes asked for")]
    changes: Annotated[Sequence[RankChange], doc("what they change")]
    scenarios: Annotated[Sequence[UsualJson] | UnsetType, doc("the usual changes, where none was asked for")] = UNSET


class Verify(
    Predicted,
    tag_field="schema",
    tag="pinprof.verify/1",
    rename={"measured_ms": "measured_step_ms", "error": "error_fraction", "is_same_program": "same_program"},
):
    """What `pinprof verify --json` writes."""

    before: Annotated[str, doc("the trace before the fix")]
    after: Annotated[str, doc("the trace after it")]
    measured_ms: Annotated[Ms, doc("the step of the trace after the fix")]
    measured_source: Annotated[fields.Source, doc("how that is known")]
    measured_range_ms: Annotated[RangeMs, doc("where it lies")]
    error: Annotated[Share, doc("how far the prediction lies above the measured step")]
    predicted_saving_ms: Annotated[Ms, doc("what the fix was predicted to save")]
    measured_saving_ms: Annotated[Ms, doc("what it saved")]
    is_same_program: Annotated[bool, doc("whether the traces seem to be of one program")]
    kernels_alike: Annotated[Share, doc("kernels per step that both have, by name")]
    changes: Annotated[Sequence[ChangeJson], doc("what the fix changed, as far as a replay can apply it")]
    new_waits: Annotated[Sequence[WaitJson], doc("waits that only the trace after has")]


def prediction_to_json(
    ranks: Sequence[tuple[Trace, Sequence[OptionChange]]],
    prediction: Prediction,
    named: Sequence[tuple[str, str, Prediction]] | None = None,
) -> str:
    """Return a prediction as JSON text; with the usual scenarios, by name and options, if they are given.

    `ranks` are the traces that were replayed together, each with what changes in it.
    """
    paths = [trace.path for trace, _ in ranks]
    changes = [filled(RankChange, change, trace.info) for trace, changes in ranks for change in changes]
    usual = [filled(UsualJson, after, name=name, options=options) for name, options, after in named or ()]
    scenarios = UNSET if named is None else usual
    document = filled(Whatif, prediction, path=paths[0], paths=paths, changes=changes, scenarios=scenarios)
    return encoded(document)


def verification_to_json(verified: Verification) -> str:
    """Return a prediction and the measured step as JSON text."""
    before, after = verified.before.path, verified.after.path
    return encoded(filled(Verify, verified, verified.prediction, before=before, after=after))
