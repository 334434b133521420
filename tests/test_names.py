"""One name, one meaning: what is called alike in several places has to be told apart at each use."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import pinprof

MOST_FUNCTIONS = 4
NAMED_BY_OTHERS = {"PinprofCallback"}  # Lightning and transformers each have callbacks


@pytest.fixture(scope="module")
def counts() -> dict[type[ast.stmt], Counter[str]]:
    """Return how many modules define each class, and each function, at their top level."""
    nodes = [node for path in Path(pinprof.__file__).parent.rglob("*.py") for node in ast.parse(path.read_bytes()).body]
    kinds = (ast.ClassDef, ast.FunctionDef)
    return {kind: Counter(node.name for node in nodes if isinstance(node, kind)) for kind in kinds}


def test_no_two_public_classes_share_a_name(counts: dict[type[ast.stmt], Counter[str]]) -> None:
    classes = counts[ast.ClassDef]
    assert {name for name, count in classes.items() if count > 1 and name[0] != "_"} == NAMED_BY_OTHERS


def test_few_functions_share_a_name(counts: dict[type[ast.stmt], Counter[str]]) -> None:
    assert {name: count for name, count in counts[ast.FunctionDef].items() if count > MOST_FUNCTIONS} == {}
