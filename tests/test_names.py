"""One name, one meaning: what is called alike in several places has to be told apart at each use."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import pinprof

SAME_TYPES = {"Bools", "Floats"}  # each an alias of one type in several rooms
OF_JSON = {"Source"}  # also a field of documents


@pytest.fixture(scope="module")
def nodes() -> list[ast.stmt]:
    """Return the statements at the top level of all modules."""
    return [node for path in Path(pinprof.__file__).parent.rglob("*.py") for node in ast.parse(path.read_bytes()).body]


def assigned_type(node: ast.stmt) -> list[str]:
    """Return the name of the type, not the type variable, that a statement assigns; else nothing."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    names = [target.id for target in targets if isinstance(target, ast.Name) and "TypeVar" not in ast.unparse(node)]
    return [name for name in names if name[0].isupper() and not name.isupper()]


@pytest.mark.slow
def test_no_two_public_classes_or_types_share_a_name(nodes: list[ast.stmt]) -> None:
    counts = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    counts.update(name for node in nodes for name in assigned_type(node))
    shared = {name for name, count in counts.items() if count > 1 and name[0] != "_"}
    assert shared == SAME_TYPES | OF_JSON
