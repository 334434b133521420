"""A source of step boundaries: the calls of a function that the command line names."""

import ast
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from inspect import getattr_static, unwrap
from typing import Any

from pinprof.capture.steps.sources import AUTO, SOURCES_BY_OPTION, STEP_CALLS, Observer, StepEvent
from pinprof.ground.errors import CaptureError
from pinprof.program.hooks import contained, preceded, replaced
from pinprof.program.user_program import CodeChange

MARKING_DECORATOR = "__pinprof_marks_steps__"  # the name of the decorator in a marked script


class FunctionCalls:
    """Reports calls of a function, MODULE:NAME or a NAME of the script; each call ends the step before it."""

    def __init__(self, name: str) -> None:
        self.name = name
        words = f"{name.rpartition(':')[2]}()"
        # no step precedes the first call
        self.source = replace(STEP_CALLS, option=name, words=words, enough=2, hook=self.reporting)
        self._observer: Observer | None = None

    @property
    def in_script(self) -> bool:
        """Whether the script defines the function, so that its code must change."""
        return ":" not in self.name

    @property
    def change(self) -> CodeChange | None:
        """The change of the script's code that marks the function; None if it is in another module."""
        return CodeChange(self._decorated, {MARKING_DECORATOR: self.mark}) if self.in_script else None

    @contextmanager
    def reporting(self, observer: Observer) -> Iterator[None]:
        """Report the calls in the block; a function of another module is marked for the block."""
        self._observer = observer
        with ExitStack() as undo:
            if not self.in_script:
                undo.enter_context(replaced(*_imported(self.name), self.mark))
            yield

    def _report_call(self, *_: object, **__: object) -> None:
        if self._observer is not None:
            self._observer.saw(StepEvent(self.source, self.name))

    def mark_in_main(self, undo: ExitStack) -> None:
        """Mark the function in a spawned process, which has run the script under another name than `__main__`."""
        if not self.in_script:
            return
        holder: Any = sys.modules["__main__"]
        *path, name = self.name.split(".")
        try:
            for attribute in path:
                holder = getattr(holder, attribute)
            function = getattr_static(holder, name)
        except AttributeError:
            return  # the process runs another program, whose code is changed
        undo.enter_context(replaced(holder, name, self.mark))
        namespace = getattr(unwrap(function), "__globals__", {})
        if not path and namespace.get(name) is function:
            undo.callback(namespace.__setitem__, name, function)
            namespace[name] = vars(holder)[name]

    def mark(self, function: Any) -> Any:
        """Return the function, changed so that each call is reported."""
        if isinstance(function, staticmethod | classmethod):
            return type(function)(self.mark(function.__func__))
        if not callable(function):
            raise CaptureError(f"{self.name}: not a function, but of type {type(function).__name__}")
        return preceded(contained(self._report_call))(function)

    def _decorated(self, tree: ast.Module) -> ast.Module:
        if not _decorate(tree, self.name):
            raise CaptureError(
                f"--step-marker {self.name}: the script does not define this function; name "
                f"{', '.join((AUTO, *SOURCES_BY_OPTION))}, a function or Class.method of the script, or "
                "MODULE:FUNCTION of one that it imports"
            )
        return tree


def _imported(place: str) -> tuple[Any, str]:
    module, _, qualname = place.partition(":")
    *path, name = qualname.split(".")
    try:
        holder: Any = import_module(module)
        for attribute in path:
            holder = getattr(holder, attribute)
        getattr_static(holder, name)
    except (ImportError, AttributeError, ValueError) as exc:
        raise CaptureError(f"--step-marker {place}: {exc}") from exc
    return holder, name


def _decorate(tree: ast.Module, qualname: str) -> bool:
    """Put the decorator on every definition of the function in a script, in place; return whether there is one.

    It becomes the outermost decorator: it must be around a compiled function, not in it. Line numbers do not change:
    Python takes the line of the outermost decorator as the first line of the function.
    """
    is_defined = False
    todo: list[tuple[ast.AST, str]] = [(tree, "")]
    while todo:
        node, prefix = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            qualified = prefix + node.name
            if qualified == qualname and not isinstance(node, ast.ClassDef):
                first = node.decorator_list[0] if node.decorator_list else node
                name = ast.copy_location(ast.Name(MARKING_DECORATOR, ast.Load()), first)
                node.decorator_list.insert(0, name)
                is_defined = True
            prefix = f"{qualified}."
        todo += [(child, prefix) for child in ast.iter_child_nodes(node)]
    return is_defined
