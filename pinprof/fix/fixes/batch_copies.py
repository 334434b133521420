"""Let the DataLoader pin batches, and the host not wait for their copies."""

from collections.abc import Iterator

import libcst as cst

from pinprof.fix.core.batches import (
    batch_of,
    check_gains_by_pinning,
    check_pinnable,
    check_uses,
    part,
    path_of,
    with_options,
)
from pinprof.fix.core.calls import argument, check_plain, copied_by, is_copy, method, with_argument
from pinprof.fix.core.clocks import waits_at
from pinprof.fix.core.facts import TraceFacts, Work
from pinprof.fix.core.files import neighbours
from pinprof.fix.core.fix import LineFix, PlannedOutcome, at_each, change_of
from pinprof.fix.core.rewrite import NotSafe, PlaceChange, Refusal, Rewrite, Waits
from pinprof.fix.core.source import SourceFile
from pinprof.fix.core.waits import check_runs_without_wait
from pinprof.rules.rule import Finding
from pinprof.trace.constructors import DENSE, MadeLoader
from pinprof.trace.lines import Place

REAL_TYPES = {f"torch.{name}" for name in ("float", "float32", "double", "float64", "half", "float16", "bfloat16")}
SAFE_COPIES = (
    "The host has memory for the pinned batches, which cannot be swapped. No code outside of the source shown writes "
    "to a batch on the host while it is copied."
)


class BatchCopies(LineFix):
    """Lets the DataLoader pin the batches, and the host not wait for their copies."""

    rules = ("PIN101", "PIN102", "PIN104", "PIN105")
    what = ""
    safe_if = SAFE_COPIES
    guide = (
        (
            (
                "`pin_memory=True` where the DataLoader is made, `non_blocking=True` where its batches are copied: by "
                "`.to()`, `.cuda()` or `.type()`, whole or in another shape, in a loop over the "
                "DataLoader"
            ),
            "equal",
        ),
    )
    INVALID = (
        """
        from torch.utils.data import DataLoader
        loader = DataLoader(data, num_workers=2)  #! loader
        for x, y in loader:  #! loop
            x = x.to(device)  #? PIN104
            model(x)
        # becomes
        from torch.utils.data import DataLoader
        loader = DataLoader(data, num_workers=2, pin_memory=True)
        for x, y in loader:
            x = x.to(device, non_blocking=True)
            model(x)
        """,
    )
    VALID = (
        """
        from torch.utils.data import DataLoader
        loader = DataLoader(data, **options)  #! loader
        for x, y in loader:  #! loop
            x = x.to(device)  #? PIN104
        # stays: the arguments of the DataLoader come from a list or a dict; set it there
        """,
        """
        from torch.utils.data import DataLoader
        loader = DataLoader(data, num_workers=2)  #! loader
        for x, y in loader:  #! loop
            a = x.to(device)  #? PIN102
            x.add_(1)
        # stays: x is used on the host in line 5, where it may be written to while it is copied
        """,
    )

    def change(self, source: SourceFile, place: Place, work: Work) -> PlaceChange:
        """Return the change of a line's copies and of the DataLoaders of what they copy. Raises Refusal."""
        copied = copies_of(source, place, work)
        loaders = {loader.place: loader for _, loader in copied if loader}.values()
        rewrites = [rewrite for loader in loaders for rewrite in _pinned(loader, place, work)]
        rewrites += [rewrite for call, _ in copied if (rewrite := non_blocking(source, call, work))]
        if not rewrites:
            raise NotSafe("the source has pin_memory=True and non_blocking=True already")
        return PlaceChange(rewrites, waits_at(source, place))

    def otherwise(self, finding: Finding, work: Work) -> Iterator[PlannedOutcome]:
        """Yield the change that pins pageable batches alone, where their copies cannot be made non-blocking."""
        if finding.rule.id != "PIN104":
            return
        waits: list[Waits] = []

        def pinned(loader: MadeLoader) -> list[Rewrite]:
            rewrites = _pinning(loader, work)
            with work.condition():
                waits.extend(_drawn(loader, work) if rewrites else ())
            return rewrites

        rewrites, refused = at_each(finding, work.facts.drawn, pinned)
        yield from refused
        if rewrites:
            yield change_of(finding, "pin_memory=True", rewrites, (), "equal", SAFE_COPIES, waits=waits, part=True)


def copies_of(source: SourceFile, place: Place, work: Work) -> list[tuple[cst.Call, MadeLoader | None]]:
    """Return the calls on a line that copy parts of a batch to the GPU, each with the DataLoader that makes the batch.

    A proposal may copy pinned memory that comes from elsewhere. Raises Refusal unless all calls are copies.
    """
    copies: list[tuple[cst.Call, MadeLoader | None]] = []
    for call in copy_calls(source, place, work.facts):
        loader = None
        with work.condition():
            loader = loader_of(source, call, place, work)
        at_place = work.facts.copies_at(place)
        if loader is None and not (at_place and at_place.pinned):
            raise NotSafe("the memory that it copies is not pinned, and no DataLoader is known to make it")
        copies.append((call, loader))
    return copies


def copy_calls(source: SourceFile, place: Place, facts: TraceFacts) -> list[cst.Call]:
    """Return the calls on a line that copy to the GPU. Raises Refusal unless the line does only that, by calls."""
    if not facts.are_to_gpu(place):
        raise NotSafe("the trace has no copy to the GPU at this line alone")
    calls = [call for call in source.calls(place.line or 0) if is_copy(call)]
    if not calls:
        raise NotSafe("no call of .to(), .cuda() or .type() begins on the line")
    return calls


def non_blocking(source: SourceFile, call: cst.Call, work: Work) -> Rewrite | None:
    """Return the rewrite that makes a copy non-blocking; None if it is already. Raises NotSafe."""
    _check_arguments(source, call)
    with work.condition():
        check_runs_without_wait(source, call)
    present = argument(call, "non_blocking")
    says = source.code(present.value) if present is not None else "False"
    if says not in {"True", "False"}:
        raise NotSafe(f"the source says non_blocking={says}; change it where that is set")
    if says == "True":
        return None
    if argument(call, "copy") or argument(call, "memory_format"):
        raise NotSafe("the copy has arguments that change what it makes")
    return source.rewrite(call, "non_blocking=True", with_argument("non_blocking", "True"))


def _check_arguments(source: SourceFile, call: cst.Call) -> None:
    """Raise Refusal for a copy with a positional argument that may be `non_blocking`; a dtype is none."""
    positional = [arg.value for arg in call.args if not arg.keyword]
    is_typed = method(call) == "to" and len(positional) == 2 and source.qualified(positional[1]) in REAL_TYPES  # noqa: PLR2004
    check_plain(call, 2 if is_typed else 1, "the copy")


def loader_of(source: SourceFile, call: cst.Call, place: Place, work: Work) -> MadeLoader:
    """Return the DataLoader whose batch a call copies. Raises Refusal where the batch may come from elsewhere."""
    copied = copied_by(call)
    name, keys = path_of(copied)
    batch = batch_of(source, call, name)
    facts = work.facts
    loader = facts.loader_of(place, source.line(batch.loop))
    if loader is None:
        raise NotSafe("the trace does not show that the loop draws from one DataLoader")
    kind = part(loader.batch, [*batch.keys, *keys])
    with work.condition():
        if kind != DENSE:
            raise NotSafe(f"{source.code(copied)} is not known to be a tensor of the batch")
    names: list[tuple[str, cst.CSTNode]] = [(name, call)]
    if batch.unpacked:
        names.append((batch.name, batch.unpacked))
    with work.condition():
        for part_name, at in names:
            check_uses(source, batch.loop, part_name, at, lambda line: facts.are_to_gpu(place._replace(line=line)))
    return loader


def _pinned(loader: MadeLoader, place: Place, work: Work) -> list[Rewrite]:
    """Return the rewrites that let a DataLoader pin; none if it does. Raises NotSafe."""
    copies = work.facts.copies_at(place)
    if loader.pin_memory:
        if copies is None or not copies.pinned:
            raise NotSafe("the DataLoader pins, but the memory copied here is not pinned: PIN105 says why")
        with work.condition():
            if (loader.own_collate or loader.batch_size is None) and not loader.num_workers:
                raise NotSafe("the batches are made by the program's own code, which may yield the same memory again")
        return []
    return _pinning(loader, work)


def _pinning(loader: MadeLoader, work: Work) -> list[Rewrite]:
    """Return the rewrites that make a DataLoader pin; none if it does. Raises Refusal."""
    if loader.pin_memory:
        return []
    with work.condition():
        check_gains_by_pinning(loader)
    check_pinnable(loader)
    for other in work.facts.loaders_at(loader.place):
        if other.num_workers and other.batch is not None:  # made by the same call
            with work.condition():
                check_gains_by_pinning(other)
            check_pinnable(other)
    with work.condition():
        if loader.own_collate or loader.batch_size is None:
            raise NotSafe(
                "its batches are made by the program's own code: parts may share memory until they are pinned"
            )
    return with_options(work.files, loader, {"pin_memory": "True"})


def _drawn(loader: MadeLoader, work: Work) -> Iterator[Waits]:
    """Yield the loops over a DataLoader where non-blocking copies of pinned batches would no longer wait.

    Raises Refusal if a loop is not in the program's own files, such as that of a progress bar.
    """
    for place in loader.loops:
        try:
            source = work.files.at(place)
        except Refusal as reason:
            raise NotSafe(f"the loop over it, at {place.file}:{place.line}, cannot be read: {reason}") from None
        files = neighbours(source.path, work.files.folder)
        if not any(b"non_blocking" in path.read_bytes() for path in files):
            continue  # each copy waits, from whatever memory
        for node in source.nodes:
            if isinstance(node, cst.For) and source.line(node) == place.line:
                yield Waits(source.file, (node.target,))
