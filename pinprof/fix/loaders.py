"""Arguments of DataLoaders: memory that is pinned, workers, and workers that persist."""

from collections.abc import Iterator, Mapping

import libcst as cst

from pinprof.fix.calls import argument, check_plain, with_argument
from pinprof.fix.files import Files
from pinprof.fix.rewrite import NotSure, Rewrite
from pinprof.fix.source import SourceFile
from pinprof.trace.made import DENSE, MadeLoader

CLASS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
KIND = "torch.utils.data.dataloader.DataLoader"
POSITIONAL = {"num_workers": 5, "pin_memory": 7, "persistent_workers": 99}
"""How many arguments can come by position before each of these does."""
IN_MEMORY = "torch.utils.data.dataset.TensorDataset"
MOST_WORKERS = 8
FEW_WORKERS = 4


def made_loader(files: Files, loader: MadeLoader) -> tuple[SourceFile, cst.Call]:
    """Return the call that made a DataLoader. Raises NotSure unless it is the only one on its line."""
    if not loader.direct:
        raise NotSure("a library made the DataLoader; ask it to")
    if loader.kind != KIND:
        raise NotSure(f"{loader.kind} is a class derived from DataLoader, with its own arguments")
    source = files.at(loader.place)
    calls = [call for call in source.calls(loader.line or 0) if source.qualified(call.func) in CLASS]
    if len(calls) != 1:
        raise NotSure(source.names(len(calls), "DataLoader by its imported name"))
    return source, calls[0]


def with_options(files: Files, loader: MadeLoader, options: Mapping[str, str]) -> list[Rewrite]:
    """Return the rewrites that give a DataLoader some options, in the place of literals or of none."""
    source, call = made_loader(files, loader)
    check_plain(call, min(POSITIONAL[name] for name in options), "the DataLoader")
    for name in options:
        given = argument(call, name)
        if given is not None and not isinstance(given.value, cst.Integer) and source.code(given.value) != "False":
            raise NotSure(f"the source says {name}={source.code(given.value)}; change it where that is set")
    _refuse_later_changes(source, call, options)
    return [source.rewrite(call, f"{name}={value}", with_argument(name, value)) for name, value in options.items()]


def check_pinnable(loader: MadeLoader) -> None:
    """Raise NotSure unless pinning gives the program the same batches, in pinned memory."""
    if loader.batch is None:
        raise NotSure("nobody saw what its batches are")
    if loader.num_workers == 0:
        raise NotSure(
            "with num_workers=0 the main thread would pin; whether that is faster depends on the machine (pinprof "
            "bench measures it, E1)"
        )
    for part in _leaves(loader.batch):
        if part == "tuple":
            raise NotSure("its batches are tuples, which older versions of torch turn into lists when they pin")
        if part.startswith(("cuda", "cpu")):
            raise NotSure(f"its batches hold tensors that cannot be pinned ({part})")
        if part not in {DENSE, "str", "int", "float", "bool", "bytes", "NoneType"}:
            raise NotSure(f"its batches hold objects of your own class ({part}); PIN105 shows how to pin them")
    if DENSE not in _leaves(loader.batch):
        raise NotSure("its batches hold no tensors")


def _leaves(batch: object) -> Iterator[str]:
    """Yield what a batch is made of; "tuple" for each tuple."""
    if isinstance(batch, str):
        yield batch
    elif isinstance(batch, list):
        for part in batch:
            yield from _leaves(part)
    elif isinstance(batch, dict) and "tuple" in batch:
        yield "tuple"
    elif isinstance(batch, dict):
        for part in batch.get("dict", {}).values():
            yield from _leaves(part)


def more_workers(loader: MadeLoader, cpus: int | None, processes: int) -> dict[str, str]:
    """Return the options that give a DataLoader more workers. Raises NotSure where that may change its batches."""
    if loader.iterable:
        raise NotSure("its dataset is iterable: each worker would yield all of it, unless the dataset divides itself")
    if not cpus:
        raise NotSure("the trace does not show how many cores the program has")
    room = max(1, cpus // max(1, processes)) - 1
    wanted = min(room, FEW_WORKERS if not loader.num_workers else max(2 * loader.num_workers, FEW_WORKERS))
    if loader.num_workers == 0 and loader.dataset != IN_MEMORY:
        raise NotSure(f"the source does not show whether several processes can read {loader.dataset}")
    if wanted <= loader.num_workers:
        raise NotSure(f"its {loader.num_workers} workers already share {cpus} cores with the program")
    options = {"num_workers": str(min(wanted, max(MOST_WORKERS, loader.num_workers)))}
    return options if loader.persistent_workers else {**options, "persistent_workers": "True"}


def _refuse_later_changes(source: SourceFile, call: cst.Call, options: Mapping[str, str]) -> None:
    """Raise NotSure where the program sets these options afterwards, as attributes of a DataLoader."""
    if "multiprocessing_context" in {each.keyword.value for each in call.args if each.keyword}:
        raise NotSure("it has a multiprocessing_context of its own")
    if any(f".{name} =" in source.text for name in options):
        raise NotSure("the program sets attributes of DataLoaders itself")
