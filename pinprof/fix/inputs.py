"""Changes of the input: DataLoaders that pin, copies that do not block, workers."""

from collections.abc import Iterator
from functools import partial

import libcst as cst

from pinprof.fix.batches import cast_before
from pinprof.fix.constants import SAFE_CONSTANT, made_once_or_there
from pinprof.fix.filled import filled_there
from pinprof.fix.fresh import copies_of
from pinprof.fix.loaders import check_pinnable, made_loader, with_options
from pinprof.fix.outcomes import NOT_RECORDED, Outcome, at_each, mend_of, tried
from pinprof.fix.rewrite import NotSafe, Refusal, Refused, Rewrite, Waits
from pinprof.fix.timed import check_clocks, waits_at
from pinprof.fix.transfers import non_blocking
from pinprof.fix.work import Work
from pinprof.fix.workers import check_can_start, may_change_data, more_workers, yields_the_same
from pinprof.fix.written import check_parts_are_not_written
from pinprof.rules.rule import Finding, FoundSite, Numbers
from pinprof.trace.lines import Place
from pinprof.trace.made import MadeLoader

ALLOWED = "it changes numbers; allow that with --changes-numbers"
SAFE_NEW = (
    "The machine has cores and memory for the workers. Each epoch begins some 0.4 s later, until they have started; "
    "with --changes-numbers they persist."
)
SAFE_COPIES = (
    "The host has memory for the pinned batches, which cannot be swapped. No code outside of the source shown writes "
    "to a batch on the host while it is copied."
)


def copies(finding: Finding, work: Work) -> Iterator[Outcome]:
    """Mend copies of batches: the DataLoader pins them, and the host does not wait for them."""
    rewrites: list[Rewrite] = []
    mended: list[FoundSite] = []
    gone: list[Waits] = []
    for site in finding.sites:
        place = site.evidence.place
        if not work.chosen.has(place):
            continue
        constant = tried(partial(_constant, place, work), [])
        if constant:
            here = [waits_at(work.files.at(place), place)]
            yield mend_of(finding, "no step copies the constant", constant, [site], "equal", SAFE_CONSTANT, waits=here)
            continue
        try:
            copied = copies_of(work.files.at(place), place, work.told)
            loaders = {one.loader.place: one.loader for one in copied if one.loader}.values()
            casts = all(cast_before(one.call) for one in copied)
            new = [each for loader in loaders for each in _pinned(loader, place, work, casts=casts)]
            new += [each for one in copied if (each := non_blocking(one))]
            waits = waits_at(work.files.at(place), place)
            check_clocks([waits] if new else [], work)
        except Refusal as reason:
            yield Refused(finding.rule, place, str(reason))
            continue
        if not new:
            yield Refused(finding.rule, place, "the source has pin_memory=True and non_blocking=True already")
            continue
        rewrites += new
        gone.append(waits)
        mended.append(site)
    if not mended and finding.rule.id == "PIN104":
        yield from _only_pinned(finding, work)
    elif rewrites:
        what = ", ".join(dict.fromkeys(each.what for each in rewrites))
        yield mend_of(finding, what, rewrites, mended, "equal", SAFE_COPIES, waits=gone)


def _constant(place: Place, work: Work) -> list[Rewrite]:
    source, line = work.files.at(place), place.line or 0
    return tried(partial(made_once_or_there, source, line), []) or filled_there(source, line)


def _pinned(loader: MadeLoader, place: Place, work: Work, *, casts: bool) -> list[Rewrite]:
    """Return the rewrites that let a DataLoader pin; none if it does. Raises Refusal.

    `casts`: what is copied there is not its memory now, but that of `x.float()`.
    """
    copies = work.told.copies_at(place)
    if loader.pin_memory:
        if not casts and (copies is None or not copies.pinned):
            raise NotSafe("the DataLoader pins, but the memory copied here is not pinned: PIN105 says why")
        if (loader.own_collate or loader.batch_size is None) and not loader.num_workers:
            raise NotSafe("the batches are made by the program's own code, which may yield the same memory again")
        return []
    return _pinning(loader, work)


def _pinning(loader: MadeLoader, work: Work) -> list[Rewrite]:
    """Return the rewrites that make a DataLoader pin; none if it does. Raises Refusal."""
    if loader.pin_memory:
        return []
    check_pinnable(loader)
    for other in work.told.loaders_at(loader.place):
        if other.num_workers and other.batch is not None:
            check_pinnable(other)  # made by the same call
    if loader.own_collate or loader.batch_size is None:
        for place in loader.loops:
            check_parts_are_not_written(work.files.at(place), place)
    return with_options(work.files, loader, {"pin_memory": "True"})


def _only_pinned(finding: Finding, work: Work) -> Iterator[Outcome]:
    """Mend the DataLoaders of pageable batches alone, where their copies cannot be made non-blocking for certain."""
    rewrites, refused = at_each(finding, work.told.drawn, lambda loader: _pinning(loader, work))
    yield from refused
    if rewrites:
        waits = [each for loader in work.told.drawn for each in _drawn(loader, work)]
        yield mend_of(finding, "pin_memory=True", rewrites, (), "equal", SAFE_COPIES, waits=waits, part=True)


def _drawn(loader: MadeLoader, work: Work) -> Iterator[Waits]:
    """Yield that a step which draws from a DataLoader may copy its batches without a wait, wherever it does."""
    for place in loader.loops:
        source = work.files.at(place)
        for node in source.nodes:
            if isinstance(node, cst.For) and source.line(node) == place.line:
                yield Waits(source.file, (node.target,))


def workers(finding: Finding, work: Work) -> Iterator[Outcome]:
    """Mend DataLoaders that are too slow: more workers, which persist where numbers may change."""
    made = work.told.made
    if made is None or not made.drawn:
        yield Refused(finding.rule, finding.evidence.place, NOT_RECORDED)
        return
    saving_ns = finding.saving.saving_ns if finding.saving else 0.0
    same = not work.chosen.changes_numbers and all(yields_the_same(each, saving_ns, work.told) for each in made.drawn)
    rewrites, refused = at_each(finding, made.drawn, lambda loader: _with_workers(loader, work, same=same))
    yield from refused
    if rewrites:
        what = ", ".join(dict.fromkeys(each.what for each in rewrites))
        numbers: Numbers = "equal" if same else "different"
        safe_if, part = SAFE_NEW if same else finding.rule.safe_if, bool(refused) or len(made.drawn) > 1
        yield mend_of(finding, what, rewrites, finding.sites, numbers, safe_if, waits=(), part=part)


def _with_workers(loader: MadeLoader, work: Work, *, same: bool) -> list[Rewrite]:
    """Return the rewrites that give a DataLoader more workers; such that it yields the `same`, or that persist."""
    cpus = work.told.made.cpus if work.told.made else None
    options = more_workers(loader, cpus, work.told.processes)
    if any(each.iterable for each in work.told.loaders_at(loader.place)):
        raise NotSafe("the same line makes a DataLoader of an iterable dataset: each worker would yield all of it")
    source, call = made_loader(work.files, loader)
    if not loader.num_workers:
        check_can_start(source, work.told.made.starts_by if work.told.made else None)
    changes = may_change_data(source, call)
    if same and changes:
        raise NotSafe(f"the program may change the data set while workers read it; {ALLOWED}")
    if same or changes:
        options.pop("persistent_workers", None)
    return with_options(work.files, loader, options)
