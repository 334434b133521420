"""Checks that nothing relies on a wait that a change removes: events, non-blocking copies, and other streams."""

from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from pinprof.fix.core.calls import last_name
from pinprof.fix.core.rewrite import NotSafe, walk
from pinprof.fix.core.source import Loop, SourceFile
from pinprof.fix.core.uses import bound_to

COMPILING = ("compile", "jit", "script")
"""Words of decorators that compile a function."""
COPYING = {"to", "cuda", "copy_"}
CPU = m.SimpleString("'cpu'") | m.SimpleString('"cpu"')
HOST = CPU | m.Call(m.Attribute(attr=m.Name("device")) | m.Name("device"), [m.Arg(CPU)])


def catches(source: SourceFile, node: cst.CSTNode) -> bool:
    """Return whether a statement may catch the errors of what is in it."""
    if isinstance(node, cst.With):
        names = [name for item in node.items for name in source.names_in(item.item)]
        return "suppress" in names or any(_is_defined(source, name) for name in names)
    return isinstance(node, cst.Try | cst.TryStar)


def _is_defined(source: SourceFile, name: str) -> bool:
    """Return whether a name is a function or a class of the file."""
    return any(isinstance(node, cst.FunctionDef | cst.ClassDef) and node.name.value == name for node in source.nodes)


def check_may_come_later(source: SourceFile, node: cst.CSTNode, loop: Loop) -> None:
    """Raise Refusal if something may rely on a read in each step of a loop: error handling, copies, or streams."""
    check_errors_pass(source, node, loop)
    check_runs_without_wait(source, node)


def check_errors_pass(source: SourceFile, node: cst.CSTNode, loop: Loop) -> None:
    """Raise Refusal if a loop goes on after an error of a read: that error would come later."""
    for outer in source.ancestors(node):
        if outer is loop:
            return
        if catches(source, outer):
            raise NotSafe(f"line {source.line(outer)} may catch an error of the read, which would come later")


def check_no_other(source: SourceFile) -> None:
    """Raise Refusal if copied memory or an event may rely on a wait somewhere in a file."""
    for call in source.every_call:
        if _may_not_wait(source, call) and (last_name(call) == "copy_" or _is_to_host(source, call)):
            raise NotSafe(f"line {source.line(call)} copies without its own wait, and may rely on this one")
        if source.qualified(call.func) == "os.fork":
            raise NotSafe(f"line {source.line(call)} makes a process that cannot read the GPU")
        if last_name(call) == "query" and not call.args and isinstance(call.func, cst.Attribute):
            raise NotSafe(f"line {source.line(call)} asks whether the GPU is done, which depends on the wait")
        if last_name(call) == "elapsed_time":
            raise NotSafe(f"line {source.line(call)} asks events for a time, which fails before the GPU is done")
    _check_refills(source)


def check_runs_without_wait(source: SourceFile, node: cst.CSTNode) -> None:
    """Raise Refusal if something other than the code after a copy may rely on its wait."""
    check_no_other(source)
    check_runs_in_order(source, node)


def check_runs_in_order(source: SourceFile, node: cst.CSTNode) -> None:
    """Raise Refusal where a node may run on another stream than what uses its result, or is compiled with it."""
    _check_is_not_compiled(source, node)
    if any(last_name(call) == "set_stream" for call in source.every_call):
        raise NotSafe("the program sets the current stream: work on another one may rely on the wait")
    scope = source.scope(node)
    name = scope.name.value if isinstance(scope, cst.FunctionDef) else None
    for block in _with_streams(source):
        is_called = name is not None and any(isinstance(node, cst.Name) and node.value == name for node in walk(block))
        if is_called or source.is_within(node, block):
            raise NotSafe(f"line {source.line(block)} changes the stream: work on another one may rely on the wait")


def _check_is_not_compiled(source: SourceFile, node: cst.CSTNode) -> None:
    """Raise Refusal in a compiled function: what stays on the GPU may be fused, and then rounds otherwise."""
    names = set()
    for outer in source.ancestors(node):
        if isinstance(outer, cst.FunctionDef):
            names.add(outer.name.value)
            if any(word in source.code(decorator.decorator) for decorator in outer.decorators for word in COMPILING):
                raise NotSafe(f"{outer.name.value} is compiled, and what stays on the GPU may round otherwise")
    for call in source.every_call:
        if last_name(call) == "compile" and any(set(source.names_in(arg.value)) & names for arg in call.args[:1]):
            raise NotSafe(f"line {source.line(call)} compiles it, and what stays on the GPU may round otherwise")


def _may_not_wait(source: SourceFile, call: cst.Call) -> bool:
    """Return whether a copy may not wait: by `non_blocking`, given by keyword or by position."""
    if last_name(call) not in COPYING | {"cpu"}:
        return False
    arguments = [arg for arg in call.args if arg.keyword and arg.keyword.value == "non_blocking"]
    arguments += [arg for arg in call.args[1:] if not arg.keyword and isinstance(arg.value, cst.Name)][-1:]
    values = [(source.code(arg.value), arg.keyword) for arg in arguments]
    return any(value == "True" or (keyword is not None and value != "False") for value, keyword in values)


def _is_to_host(source: SourceFile, call: cst.Call) -> bool:
    return last_name(call) == "cpu" or any(_is_host(source, arg.value) for arg in call.args)


def _is_host(source: SourceFile, node: cst.BaseExpression) -> bool:
    """Return whether an expression is the host, or a variable that always stands for it."""
    if isinstance(node, cst.Name):
        scope = source.variable_scope(node)
        names = [getattr(assignment, "node", None) for assignment in (scope[node.value] if scope else ())]
        values = [bound_to(source, name) if isinstance(name, cst.Name) else None for name in names]
        return bool(values) and all(value is not None and m.matches(value[0], HOST) for value in values)
    return m.matches(node, HOST)


def _check_refills(source: SourceFile) -> None:
    """Raise Refusal if the program pins memory itself and copies without a wait: it may write to that memory again."""
    if not any(_may_not_wait(source, call) for call in source.every_call):
        return
    for call in source.every_call:
        asks = any(arg.keyword and arg.keyword.value == "pin_memory" for arg in call.args)
        is_of_torch = (source.qualified(call.func) or "").startswith("torch.") and "Loader" not in last_name(call)
        if last_name(call) == "pin_memory" or (asks and is_of_torch):
            raise NotSafe(f"line {source.line(call)} pins memory, which is copied without a wait of its own")


def _with_streams(source: SourceFile) -> Iterator[cst.With]:
    """Yield the blocks that run on a stream of their own, as far as the source says so."""
    for node in source.nodes:
        if isinstance(node, cst.With):
            names = [name for item in node.items for name in source.names_in(item.item)]
            if any("stream" in name.lower() for name in names):
                yield node
