"""Tensors of ones and zeros that each step makes on the host and copies to the GPU: the GPU makes them itself."""

from collections.abc import Iterator

import libcst as cst

from pinprof.fix.core.calls import CASTS, VIEWS, check_has_no_comments, is_copy, method, moved_to, with_argument
from pinprof.fix.core.clocks import waits_at
from pinprof.fix.core.facts import Work
from pinprof.fix.core.fix import LineFix
from pinprof.fix.core.rewrite import NotSafe, NotThisForm, PlaceChange, Rewrite
from pinprof.fix.core.source import SourceFile
from pinprof.fix.core.waits import check_runs_without_wait
from pinprof.trace.lines import Place

FILLERS = {"torch.ones", "torch.zeros", "torch.eye"}
"""Functions of torch that make the same numbers on each device."""


class FillerOnGpu(LineFix):
    """Lets `torch.ones(n).long().to(device)` be made on the device."""

    rules = ("PIN101", "PIN102", "PIN104", "PIN105")
    what = "no step copies the constant"
    safe_if = "Nothing else relies on the removed wait."
    guide = (("`torch.ones(n).long().to(device)` becomes `torch.ones(n, device=device).long()`", "equal"),)
    INVALID = (
        (
            """
            import torch
            for x in loader:
                f(torch.ones(4).long().to(device))  #? PIN104
            """,
            """
            import torch
            for x in loader:
                f(torch.ones(4, device=device).long())
            """,
        ),
    )
    VALID = (
        (
            """
            import torch
            for x in loader:
                f((torch.ones(4) + x).to(device))  #? PIN104
            """,
            "no name of a batch",
        ),
    )

    def change(self, source: SourceFile, place: Place, work: Work) -> PlaceChange:
        """Return the change of all that a line makes and copies. Raises Refusal."""
        made = [call for call in source.calls(place.line or 0) if source.qualified(call.func) in FILLERS]
        copies = [call for call in source.calls(place.line or 0) if is_copy(call)]
        if not made or len(made) != len(copies):
            raise NotThisForm("what the line copies is more than tensors of one number")
        rewrites: list[Rewrite] = []
        for call in made:
            with work.condition():
                check_runs_without_wait(source, call)
            rewrites += _made_there(source, call)
        return PlaceChange(rewrites, waits_at(source, place))


def _made_there(source: SourceFile, call: cst.Call) -> Iterator[Rewrite]:
    keywords = {arg.keyword.value for arg in call.args if arg.keyword}
    if keywords - {"dtype"} or any(arg.star == "**" for arg in call.args):
        raise NotSafe("its arguments are not a shape and a type")
    move, device = moved_to(source, _changed(source, call))
    check_has_no_comments(source.code(move), "make it on the GPU")
    yield source.rewrite(call, "made on the GPU", with_argument("device", source.code(device)))
    yield source.rewrite(move, "not copied", _called_on)


def _changed(source: SourceFile, call: cst.Call) -> cst.Call:
    """Return what is made of a tensor before it is copied, the same on each device: another type, another shape."""
    while True:
        attribute = source.parent(call)
        outer = source.parent(attribute) if isinstance(attribute, cst.Attribute) else None
        if not (isinstance(outer, cst.Call) and outer.func is attribute):
            return call
        if not (method(outer) in VIEWS or (method(outer) in CASTS and not outer.args)):
            return call
        call = outer


def _called_on(node: cst.CSTNode) -> cst.BaseExpression:
    """Return what a method is called on, with the parentheses around the call."""
    call = cst.ensure_type(node, cst.Call)
    inner = cst.ensure_type(call.func, cst.Attribute).value
    return inner.with_changes(lpar=[*call.lpar, *inner.lpar], rpar=[*inner.rpar, *call.rpar])
