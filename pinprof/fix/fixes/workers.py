"""Give DataLoaders more workers, if these read what the main process would."""

from collections.abc import Iterator

import libcst as cst

from pinprof.fix.core.batches import made_loader, with_options
from pinprof.fix.core.calls import argument
from pinprof.fix.core.facts import TraceFacts, Work
from pinprof.fix.core.fix import ALLOWED, NOT_RECORDED, Fix, PlannedOutcome, at_each, change_of
from pinprof.fix.core.rewrite import NotSafe, RefusedPlace, Rewrite
from pinprof.fix.core.source import SourceFile
from pinprof.rules.loading import workers_wanted
from pinprof.rules.rule import Finding, NumberEffect
from pinprof.trace.constructors import MadeLoader
from pinprof.units import listed

MOST_NAMED = 3
"""Parts of a data set that a reason names."""
RESTART_NS = 0.35e9
"""The time that workers take to start with each epoch, in ns: from a recording of torch's DCGAN example on an H200."""
PAYS = 2.0
"""Workers must save this multiple of `RESTART_NS` in each epoch."""
IN_MEMORY = "torch.utils.data.dataset.TensorDataset"


SAFE_NEW = (
    "The machine has cores and memory for the workers. Each epoch begins some 0.4 s later, until they have started; "
    "with --changes-numbers they persist."
)


class MoreWorkers(Fix):
    """Gives DataLoaders that are too slow more workers, which persist where numbers may change."""

    rules = ("PIN401", "PIN402")
    what = "more workers"
    safe_if = SAFE_NEW
    guide = (
        (
            (
                "more workers, where classes of torch and torchvision make the samples, or a data set of the "
                "program's own that only reads the plain data that it holds, without random numbers; the first ones "
                "only where they save in an epoch twice what it takes to start them, some 0.4 s"
            ),
            "equal",
        ),
        (
            "with `--changes-numbers`: more workers, which persist; random numbers may be drawn for the samples",
            "different random numbers",
        ),
    )
    INVALID = (
        """
        from torch.utils.data import DataLoader
        loader = DataLoader(data, num_workers=2)  #! loader
        for x in loader:  #! loop
            f(x)  #? PIN401
        # becomes
        from torch.utils.data import DataLoader
        loader = DataLoader(data, num_workers=4, persistent_workers=True)
        for x in loader:
            f(x)
        """,
    )
    VALID = (
        """
        from torch.utils.data import DataLoader
        loader = DataLoader(data, num_workers=args.n)  #! loader
        for x in loader:  #! loop
            f(x)  #? PIN401
        # stays: the source says num_workers=args.n; change it where that is set
        """,
    )

    def changes(self, finding: Finding, work: Work) -> Iterator[PlannedOutcome]:
        """Yield the change of all DataLoaders that the steps draw from, and those that stay as they are."""
        made = work.facts.made
        if made is None or not made.drawn:
            yield RefusedPlace(finding.rule, finding.evidence.place, NOT_RECORDED)
            return
        saving_ns = finding.saving.saving_ns if finding.saving else 0.0
        is_same = all(_yields_the_same(loader, saving_ns, work.facts) for loader in made.drawn)
        same = is_same and not work.chosen.changes_numbers
        rewrites, refused = at_each(finding, made.drawn, lambda loader: _with_workers(loader, work, same=same))
        yield from refused
        if rewrites:
            what = ", ".join(dict.fromkeys(rewrite.what for rewrite in rewrites))
            numbers: NumberEffect = "equal" if same else "different"
            safe_if, part = SAFE_NEW if same else finding.rule.safe_if, bool(refused) or len(made.drawn) > 1
            yield change_of(finding, what, rewrites, finding.sites, numbers, safe_if, waits=(), part=part)


def _yields_the_same(loader: MadeLoader, saving_ns: float, facts: TraceFacts) -> bool:
    """Return whether a DataLoader with more workers yields the same bits, and saves more than they take to start.

    Workers that persist change random numbers: the DataLoader then draws one seed less at the beginning of each epoch,
    so that all later random numbers of the program differ.
    """
    if not loader.fixed or loader.own_collate or loader.batch_size is None:
        return False  # without a batch size, a sample may be memory of the data set, which each worker has a copy of
    if loader.num_workers:
        return True
    if not loader.length or loader.begun > 2 + 2 * facts.steps_before / loader.length or loader.drawn < facts.steps:
        return False  # most epochs end early, or each step begins one or makes a DataLoader
    return saving_ns * loader.length >= PAYS * RESTART_NS


def _more_workers(loader: MadeLoader, work: Work) -> dict[str, str]:
    """Return the options that give a DataLoader more workers. Raises Refusal where that may change its batches."""
    cpus = work.facts.made.cpus if work.facts.made else None
    if loader.iterable:
        raise NotSafe("its dataset is iterable: each worker would yield all of it, unless the dataset divides itself")
    if not cpus:
        raise NotSafe("the trace does not show how many cores the program has")
    more = workers_wanted(loader.num_workers, cpus, work.facts.processes)
    with work.condition():
        _check_can_be_shared(loader)
    if more <= loader.num_workers:
        raise NotSafe(f"its {loader.num_workers} workers already share {cpus} cores with the program")
    options = {"num_workers": str(more)}
    return options if loader.persistent_workers else {**options, "persistent_workers": "True"}


def _check_can_be_shared(loader: MadeLoader) -> None:
    """Raise Refusal unless other processes make its batches already, or can: with torch and torchvision alone."""
    if loader.num_workers:
        return
    foreign = (loader.dataset,) if loader.foreign is None and loader.dataset != IN_MEMORY else loader.foreign
    if foreign:
        makers = listed(foreign, MOST_NAMED)
        raise NotSafe(f"{makers} makes its samples; the source does not show whether several processes can make them")
    if loader.own_collate:
        raise NotSafe("a function of the program's own makes its batches, which may need the GPU or the main process")
    if loader.batch is None or any(part.startswith("cuda") for part in loader.parts):
        raise NotSafe("its batches may be on the GPU, which other processes cannot read")


def _check_can_start(source: SourceFile, starts_by: str | None) -> None:
    """Raise Refusal if a worker may run the whole program again, as processes do that are not forked."""
    if source.mentions(("spawn", "forkserver")):
        raise NotSafe("the program says how its processes start, and the workers may not get its data that way")
    if starts_by != "fork" and not source.mentions(("__name__",)):
        raise NotSafe('without `if __name__ == "__main__":` a worker that is not forked runs the whole program')


def _may_change_data(source: SourceFile, call: cst.Call) -> bool:
    """Return whether the program may change a data set while it trains: workers that persist would not see that."""
    dataset = argument(call, "dataset") or next((arg for arg in call.args if not arg.keyword), None)
    names = source.names_in(dataset.value) if dataset and isinstance(dataset.value, cst.Name | cst.Attribute) else []
    dataset_names = {"dataset", *names[-1:]}
    for node in source.nodes:
        if not isinstance(node, cst.Attribute):
            continue
        around = source.parent(node)
        is_used = isinstance(around, cst.AssignTarget | cst.AugAssign) or (
            isinstance(around, cst.Call) and around.func is node
        )
        of = (source.names_in(node.value) or [""])[-1]
        if is_used and (of in dataset_names or (node.attr.value == "set_epoch" and "sampler" not in of)):
            return True
    return False


def _with_workers(loader: MadeLoader, work: Work, *, same: bool) -> list[Rewrite]:
    """Return the rewrites that give a DataLoader more workers: such that it yields the `same`, or such that persist."""
    options = _more_workers(loader, work)
    if any(other.iterable for other in work.facts.loaders_at(loader.place)):
        raise NotSafe("the same line makes a DataLoader of an iterable dataset: each worker would yield all of it")
    source, call = made_loader(work.files, loader)
    with work.condition():
        if not loader.num_workers:
            _check_can_start(source, work.facts.made.starts_by if work.facts.made else None)
    changes = _may_change_data(source, call)
    with work.condition():
        if same and changes:
            raise NotSafe(f"the program may change the data set while workers read it; {ALLOWED}")
    if same or changes:
        options.pop("persistent_workers", None)
    return with_options(work.files, loader, options)
