"""Arguments of DataLoaders: memory that is pinned, workers, and workers that persist."""

from collections.abc import Mapping

import libcst as cst

from pinprof.fix.core.calls import argument, check_plain, with_argument
from pinprof.fix.core.files import Files
from pinprof.fix.core.rewrite import NotSafe, Rewrite
from pinprof.fix.core.source import SourceFile
from pinprof.trace.constructors import DENSE, MadeLoader

CLASS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
KIND = "torch.utils.data.dataloader.DataLoader"
POSITIONAL = {"num_workers": 5, "pin_memory": 7, "persistent_workers": 99}
"""How many arguments can come by position before each of these does."""


def made_loader(files: Files, loader: MadeLoader) -> tuple[SourceFile, cst.Call]:
    """Return the call that made a DataLoader. Raises Refusal unless it is the only one on its line."""
    if not loader.direct:
        raise NotSafe("a library made the DataLoader; ask it to")
    if loader.kind != KIND:
        raise NotSafe(f"{loader.kind} is a class derived from DataLoader, with its own arguments")
    source = files.at(loader.place)
    calls = [call for call in source.calls(loader.line or 0) if source.qualified(call.func) in CLASS]
    if len(calls) != 1:
        raise source.not_one(len(calls), "DataLoader by its imported name")
    return source, calls[0]


def with_options(files: Files, loader: MadeLoader, options: Mapping[str, str]) -> list[Rewrite]:
    """Return the rewrites that give a DataLoader some options, in the place of literals or of none."""
    source, call = made_loader(files, loader)
    check_plain(call, min(POSITIONAL[name] for name in options), "the DataLoader")
    for name in options:
        given = argument(call, name)
        if given is not None and not isinstance(given.value, cst.Integer) and source.code(given.value) != "False":
            raise NotSafe(f"the source says {name}={source.code(given.value)}; change it where that is set")
    _refuse_later_changes(source, call, options)
    return [source.rewrite(call, f"{name}={value}", with_argument(name, value)) for name, value in options.items()]


def check_gains_by_pinning(loader: MadeLoader) -> None:
    """Raise Refusal where pinned batches may be others, or take longer to make."""
    if loader.batch is None:
        raise NotSafe("nobody saw what its batches are")
    if loader.num_workers == 0:
        raise NotSafe(
            "with num_workers=0 the main thread would pin; whether that is faster depends on the machine (pinprof "
            "bench measures it, E1)"
        )
    if "tuple" in loader.parts:
        raise NotSafe("its batches are tuples, which older versions of torch turn into lists when they pin")


def check_pinnable(loader: MadeLoader) -> None:
    """Raise Refusal where the batches, as far as they are known, cannot be pinned."""
    if loader.batch is None:
        return
    for part in loader.parts:
        if part.startswith(("cuda", "cpu")):
            raise NotSafe(f"its batches hold tensors that cannot be pinned ({part})")
        if part not in {DENSE, "tuple", "str", "int", "float", "bool", "bytes", "NoneType"}:
            raise NotSafe(f"its batches hold objects of your own class ({part}); PIN105 shows how to pin them")
    if DENSE not in loader.parts:
        raise NotSafe("its batches hold no tensors")


def _refuse_later_changes(source: SourceFile, call: cst.Call, options: Mapping[str, str]) -> None:
    """Raise Refusal where the program sets these options afterwards, as attributes of a DataLoader."""
    if "multiprocessing_context" in {arg.keyword.value for arg in call.args if arg.keyword}:
        raise NotSafe("it has a multiprocessing_context of its own")
    targets = [
        source.parent(node) for node in source.nodes if isinstance(node, cst.Attribute) and node.attr.value in options
    ]
    if any(isinstance(target, cst.AssignTarget | cst.AugAssign) for target in targets):
        raise NotSafe("the program sets attributes of DataLoaders itself")
