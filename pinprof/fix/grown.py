"""Lists that grow by a number of the GPU: the statement that adds it, how a list begins, and how it is read."""

import libcst as cst

from pinprof.fix.names import check_is_builtin
from pinprof.fix.reads import Read
from pinprof.fix.rewrite import NotSafe, NotThisForm, call_of
from pinprof.fix.source import SourceFile


def grown(source: SourceFile, read: Read) -> tuple[cst.Name, cst.BaseSmallStatement]:
    """Return the variable of the list to which a number alone is added, and the statement."""
    small = source.statement(read.node).body[0]
    name: cst.BaseExpression | None = None
    if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
        call = small.value
        alone = len(call.args) == 1 and call.args[0].value is read.node and not call.args[0].keyword
        if alone and isinstance(call.func, cst.Attribute) and call.func.attr.value == "append":
            name = call.func.value
    elif isinstance(small, cst.AugAssign) and isinstance(small.operator, cst.AddAssign):
        value = small.value
        if isinstance(value, cst.List) and len(value.elements) == 1 and value.elements[0].value is read.node:
            name = small.target
    if name is None:
        raise NotThisForm("the number goes into no list")
    if not isinstance(name, cst.Name):
        raise NotSafe(f"{source.code(name)} is not a variable of the function: other code may read it")
    return name, small


def is_empty(source: SourceFile, value: cst.BaseExpression) -> bool:
    """Return whether an expression is a list without elements."""
    if isinstance(value, cst.List):
        return not value.elements
    if source.code(value) == "list()":
        check_is_builtin(source, "list")
        return True
    return False


def is_shared(start: cst.SimpleStatementLine) -> bool:
    """Return whether a list gets two names where it begins: `a = b = []`."""
    small = start.body[0]
    return isinstance(small, cst.Assign) and len(small.targets) > 1


def given_to(source: SourceFile, node: cst.Name) -> cst.Call | None:
    """Return the call that gets a variable as an argument by itself."""
    argument = source.parent(node)
    call = source.parent(argument) if isinstance(argument, cst.Arg) and not argument.star else None
    return call if isinstance(call, cst.Call) else None


def is_counted(source: SourceFile, node: cst.Name) -> bool:
    """Return whether only the length of a list is asked for: `len(losses)`."""
    call = given_to(source, node)
    if call is None or not isinstance(call.func, cst.Name) or call.func.value != "len":
        return False
    check_is_builtin(source, "len")
    return True


def numbers_of(name: str, function: str) -> cst.SimpleStatementLine:
    """Return the line that makes a list of numbers of a list of tensors."""
    text = "[each.item() for each in X]" if function == "item" else f"[{function}(each) for each in X]"
    values = cst.Assign([cst.AssignTarget(cst.Name(name))], call_of(text, X=cst.Name(name)))
    return cst.SimpleStatementLine([values])
