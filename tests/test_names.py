"""One name, one meaning: what is called alike in several places has to be told apart at each use."""

import ast
from collections import Counter
from pathlib import Path

import pinprof

MOST_FUNCTIONS = 4
NAMED_BY_OTHERS = {"PinprofCallback"}  # Lightning and transformers each have callbacks
MODULES = [ast.parse(path.read_bytes()) for path in Path(pinprof.__file__).parent.rglob("*.py")]


def names_of(kind: type[ast.ClassDef | ast.FunctionDef]) -> Counter[str]:
    """Return how many modules define each public class, or each function, at their top level."""
    return Counter(node.name for module in MODULES for node in module.body if isinstance(node, kind))


def test_no_two_public_classes_share_a_name() -> None:
    counts = names_of(ast.ClassDef)
    assert {name for name, count in counts.items() if count > 1 and name[0] != "_"} == NAMED_BY_OTHERS


def test_few_functions_share_a_name() -> None:
    assert {name: count for name, count in names_of(ast.FunctionDef).items() if count > MOST_FUNCTIONS} == {}
