"""Let optimizers make fewer launches: fused, or for all parameters at once."""

from collections.abc import Iterator

import libcst as cst

from pinprof.fix.core.calls import (
    argument,
    check_has_no_comments,
    check_plain,
    in_place_of,
    with_argument,
    without_argument,
)
from pinprof.fix.core.facts import TraceFacts, Work
from pinprof.fix.core.files import Files
from pinprof.fix.core.fix import NOT_RECORDED, Fix, PlannedOutcome, at_each, change_of
from pinprof.fix.core.rewrite import NotSafe, RefusedPlace, Rewrite
from pinprof.fix.core.source import SourceFile
from pinprof.rules.rule import Finding
from pinprof.trace.constructors import MadeOptimizer

FUSED = {"torch.optim.adam.Adam", "torch.optim.adamw.AdamW", "torch.optim.sgd.SGD"}
"""Classes that have a fused form on GPUs."""
FIRST_FUSED = (2, 4)
"""The first version of torch in which all of `FUSED` have it."""
UPDATES_SINGLY = "Adafactor"
"""The class that updates one parameter after the other unless it is told otherwise."""
MOST_POSITIONAL = 5
"""The number of positional arguments before the options, at least."""
MOST_OF_FUSED = 6
"""Those of `FUSED` have one more: `amsgrad` or `nesterov`; the options are keywords."""
LIBRARIES = ("apex", "deepspeed", "colossalai")
"""Libraries that put another optimizer in the place of one."""


class FusedOptimizer(Fix):
    """Lets an optimizer make few launches: fused, or for all parameters at once."""

    rules = ("PIN602",)
    what = "fused=True"
    safe_if = ""
    guide = (("`fused=True` for Adam, AdamW and SGD; `foreach=False` is removed", "rounding"),)
    INVALID = (
        """
        import torch
        opt = torch.optim.AdamW(model.parameters(), lr=1e-3)  #! optimizer
        step()  #? PIN602
        # becomes
        import torch
        opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        step()
        """,
    )
    VALID = (
        """
        import torch
        opt = torch.optim.AdamW(params, **options)  #! optimizer
        step()  #? PIN602
        # stays: the arguments of AdamW come from a list or a dict; set it there
        """,
        """
        import torch
        opt = torch.optim.AdamW(params)  #! optimizer
        scaler = GradScaler()
        step()  #? PIN602
        # stays: with a GradScaler, a fused optimizer unscales the gradients itself
        """,
    )

    def changes(self, finding: Finding, work: Work) -> Iterator[PlannedOutcome]:
        """Yield the change of all optimizers, and those that stay as they are."""
        made = work.facts.made
        if made is None or not made.optimizers:
            yield RefusedPlace(finding.rule, finding.evidence.place, NOT_RECORDED)
            return
        rewrites, refused = at_each(finding, made.optimizers, lambda optimizer: _fewer_launches(optimizer, work))
        yield from refused
        if rewrites:
            what = ", ".join(dict.fromkeys(rewrite.what for rewrite in rewrites))
            safe_if, part = finding.rule.safe_if, bool(refused)
            yield change_of(finding, what, rewrites, finding.sites, "rounding", safe_if, waits=(), part=part)


def _made_optimizer(files: Files, optimizer: MadeOptimizer) -> tuple[SourceFile, cst.Call]:
    """Return the call that made an optimizer. Raises Refusal unless it is the only one on its line."""
    if not optimizer.direct:
        raise NotSafe("a library made the optimizer; ask it to")
    if not optimizer.kind.startswith("torch.optim."):
        raise NotSafe(f"{optimizer.kind} is not an optimizer of torch")
    source = files.at(optimizer.place)
    name = optimizer.kind.rpartition(".")[2]
    names = {optimizer.kind, f"torch.optim.{name}"}
    calls = [call for call in source.calls(optimizer.line or 0) if source.qualified(call.func) in names]
    if len(calls) != 1:
        raise source.not_one(len(calls), f"{name} by its imported name")
    return source, calls[0]


def _fewer_launches(optimizer: MadeOptimizer, work: Work) -> list[Rewrite]:
    """Return the rewrites that let an optimizer make fewer launches. Raises Refusal if it may not, or already does."""
    facts = work.facts
    source, call = _made_optimizer(work.files, optimizer)
    name = optimizer.kind.rpartition(".")[2]
    check_plain(call, MOST_OF_FUSED if optimizer.kind in FUSED else MOST_POSITIONAL, name)
    _check_options(source, call, optimizer)
    _check_others(optimizer, facts)
    if optimizer.fused:
        raise NotSafe(f"{name} is fused already")
    if optimizer.differentiable:
        raise NotSafe(f"{name} is differentiable, which neither fused nor foreach can be")
    if not optimizer.plain_on_gpu:
        raise NotSafe("its parameters are not all dense and on a GPU, or were not when it was made")
    foreach = argument(call, "foreach")
    foreach_code = source.code(foreach.value) if foreach is not None else None
    if optimizer.kind in FUSED and not (foreach_code == "False" and _has_scaler(facts, source)):
        if facts.torch_version < FIRST_FUSED:
            raise NotSafe(f"it is unknown whether this version of torch has a fused {name}")
        with work.condition():
            _check_fusible(name, facts, source)
        with work.condition():
            _check_state(source, call)
        if foreach_code is None:
            return [source.rewrite(call, "fused=True", with_argument("fused", "True"))]
        if argument(call, "fused") is not None:
            raise NotSafe("the source says both fused and foreach")
        return [source.rewrite(call, "fused=True", in_place_of("foreach", "fused", "True"))]
    if foreach_code == "False" and name != UPDATES_SINGLY:
        return [_without(source, call, "foreach")]
    raise NotSafe(f"{name} has no certain fused form, and already updates all parameters at once")


def _check_others(optimizer: MadeOptimizer, facts: TraceFacts) -> None:
    """Raise Refusal if the same call makes another optimizer, for which the change may be wrong."""
    made = facts.made.optimizers if facts.made else ()
    for other in made:
        if other.place == optimizer.place and (other.kind != optimizer.kind or not other.plain_on_gpu):
            raise NotSafe("the line also makes an optimizer whose parameters are not all dense and on a GPU")


def _check_options(source: SourceFile, call: cst.Call, optimizer: MadeOptimizer) -> None:
    """Raise Refusal if the call does not show the options `fused`, `foreach` and their like."""
    for option in ("fused", "foreach", "differentiable", "capturable"):
        present = argument(call, option)
        if present is not None and source.code(present.value) not in {"None", "False", "True"}:
            raise NotSafe(f"the source says {option}={source.code(present.value)}; change it where that is set")
    for option, kept in (("fused", optimizer.fused), ("foreach", optimizer.foreach)):
        if kept is not None and argument(call, option) is None:
            raise NotSafe(f"its parameter groups set {option} themselves")


def _check_fusible(name: str, facts: TraceFacts, source: SourceFile) -> None:
    if facts.has_sparse_gradients or any(_makes_sparse(source, call) for call in source.every_call):
        raise NotSafe(f"gradients are sparse, which a fused {name} does not take")
    library = next((library for library in LIBRARIES if library in source.nodes_named), None)
    if library:
        raise NotSafe(f"{library} changes the optimizer, and may not know a fused one")
    if _has_scaler(facts, source):
        raise NotSafe(
            "with a GradScaler, a fused optimizer unscales the gradients itself: other code would read them scaled"
        )


def _makes_sparse(source: SourceFile, call: cst.Call) -> bool:
    """Return whether a call makes a gradient sparse: `p.grad.to_sparse()`."""
    names = source.names_in(call.func)
    return "grad" in names and names[-1].startswith("to_sparse")


def _has_scaler(facts: TraceFacts, source: SourceFile) -> bool:
    return facts.has_scaler or source.mentions(("GradScaler",)) is not None


def _check_state(source: SourceFile, call: cst.Call) -> None:
    """Raise Refusal if the program uses the state of an optimizer: a fused one counts its steps on the GPU."""
    assign = source.parent(call)
    targets = [source.names_in(target)[-1:] for target in assign.targets] if isinstance(assign, cst.Assign) else []
    for node in source.nodes:
        if isinstance(node, cst.Attribute) and node.attr.value == "state":
            name = source.names_in(node.value)[-1:]
            if name in targets or any("optim" in part for part in name):
                where = f"line {source.line(node)}"
                raise NotSafe(f"{where} uses the optimizer's state, which a fused one keeps on the GPU")


def _without(source: SourceFile, call: cst.Call, option: str) -> Rewrite:
    check_has_no_comments(source.code(call), f"take {option}=False out")
    return source.rewrite(call, f"without {option}=False", without_argument(option))
