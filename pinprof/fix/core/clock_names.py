"""Find the names by which a program reads clocks of the host.

A function reads a clock if its body does, or mentions a function that does. The files that the changed one imports, and
those that import it, are searched too. Only names decide: nothing is imported or run.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from pinprof.fix.core.files import importing, neighbours

CLOCKS = {
    *("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "default_timer", "times"),
    *("process_time", "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns"),
    *("now", "utcnow", "today", "cpu_times", "getrusage", "datetime64", "localtime", "gmtime", "ctime", "asctime"),
}
"""Last names of functions that read a clock, in whatever library."""
TQDM_TIMES = "format_dict"
"""The attribute of tqdm's bars that has the time since they began."""
MODULES = {"time", "timeit"}
AS_TEXT = {"strftime", "isoformat"}
"""Methods that turn a date into a text, such as the name of a log: programs do not compute with it."""
NO_CLOCKS = {"Event", "synchronize", "elapsed_time"}
"""Last names of events, which look like clocks but read the time of the GPU."""
WORDS = {
    *("timer", "timers", "timeit", "timed", "timing", "timings", "stopwatch", "clock", "chrono", "chronometer"),
    *("elapsed", "lap", "tic", "toc", "benchmark", "speedometer", "throughput"),
}
"""Words in the names of library functions that measure time."""
PLAIN_BASES = {"object", "Module", "nn", "torch"}
PLAIN_DECORATORS = {"torch", "functools", "staticmethod", "classmethod", "property", "contextmanager", "dataclass"}
OWN_LINE = "line "
"""The beginning of a place in the changed file itself."""
Definition = ast.FunctionDef | ast.AsyncFunctionDef


class ClockNames:
    """The functions that read clocks in a file, in those that it imports and in those that import it."""

    def __init__(self, path: Path, folder: Path) -> None:
        above = importing(path, folder)
        paths = list(dict.fromkeys((*neighbours(path, folder), *above)))
        trees = {other: _parsed(other) for other in paths}
        where = {other: f"{other.relative_to(folder).as_posix()}:" for other in paths} | {path: OWN_LINE}
        nodes = {other: list(ast.walk(tree)) for other, tree in trees.items()}
        everything = [node for part in nodes.values() for node in part]
        self._aliases = {
            alias.asname or alias.name
            for node in everything
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if (node.module in MODULES and alias.name in CLOCKS) or (alias.asname and _is_timer(alias.name))
        }
        self._defined = {node.name for node in everything if isinstance(node, Definition | ast.ClassDef)}
        self._uses: dict[str, set[str]] = defaultdict(set)
        """What the functions of each name mention."""
        self.reads: dict[str, str] = {TQDM_TIMES: ""}
        """The functions that read a clock, each with the place of the clock."""
        for other, part in nodes.items():
            self._define(part, where[other])
        self._spread()
        self._modules = {where[other]: trees[other] for other in (path, *above)}
        """The trees of the file and of those that import it."""
        self._handed = {name for other in paths if other not in above for name in self._handed_in(nodes[other])}
        clocks = (self.clock_in(tree) is not None for tree in trees.values())
        self.has_clock = any(clocks) or any("<clock>" in self._handed_in(nodes[other]) for other in paths)

    def is_clock(self, names: list[str]) -> bool:
        """Return whether a call of something with these names reads a clock: `["time", "perf_counter"]`."""
        last = names[-1] if names else ""
        if last in CLOCKS or last in self._aliases:
            return True
        return last not in NO_CLOCKS and self._defined.isdisjoint(names) and any(map(_is_timer, names))

    def clock_in(self, node: ast.AST) -> int | None:
        """Return the line of the first clock in a part of a program."""
        nodes = list(ast.walk(node))
        texts = {id(inner.value) for inner in nodes if isinstance(inner, ast.Attribute) and inner.attr in AS_TEXT}
        for inner in nodes:
            is_call = isinstance(inner, ast.Call) and id(inner) not in texts and self.is_clock(_names(inner.func))
            if is_call or (isinstance(inner, ast.Attribute) and inner.attr == TQDM_TIMES):
                return getattr(inner, "lineno", 0)
        return None

    def clock_of_callers(self, running: Collection[str]) -> str | None:
        """Return the place of a clock in the functions `running` the changed one, or at the top of their files."""
        for where, tree in self._modules.items():
            parts = [part for part in tree.body if not isinstance(part, Definition | ast.ClassDef)]
            bodies = [node for node in ast.walk(tree) if isinstance(node, Definition) and node.name in running]
            for part in (*parts, *bodies):
                line = self.clock_in(part)
                mentioned = sorted(set(_names(part)) & self.reads.keys() - {TQDM_TIMES, *running})
                if line is not None or mentioned:
                    return f"{where}{line}" if line is not None else self.reads[mentioned[0]]
        return None

    def clock_of_importing(self) -> str | None:
        """Return the place of the first clock in the files that import the changed one."""
        lines = ((where, self.clock_in(tree)) for where, tree in self._modules.items() if where != OWN_LINE)
        return next((f"{where}{line}" for where, line in lines if line is not None), None)

    def clock_handed_on(self, running: Collection[str]) -> str | None:
        """Return the place of a clock that other code may read at any time, except in the functions in `running`."""
        names = self._handed & {"<clock>", *self.reads} - set(running)
        return self.reads.get(min(names), "") if names else None

    def running(self, name: str) -> set[str]:
        """Return the functions that call a function, directly or through others, by name; it is one of them."""
        running, count = {name}, 0
        while count != len(running):
            count = len(running)
            running |= {other for other, uses in self._uses.items() if uses & running}
        return running

    def _define(self, nodes: list[ast.AST], where: str) -> None:
        """Note what each function of a file mentions, and which of them read a clock themselves."""
        for node in nodes:
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._define_as(node.name, node, where)
                case ast.ClassDef():
                    for part in node.body:
                        if getattr(part, "name", "") == "__init__":
                            self._define_as(node.name, part, where)
                case ast.ImportFrom():
                    for alias in node.names:
                        self._uses[alias.asname or alias.name].add(alias.name)
                case ast.Assign(value=ast.Call(func=function)):
                    names = _names(function)
                    if names and names[-1] not in CLOCKS and self.is_clock(names):  # t = Timer()
                        targets = [_names(target) for target in node.targets]
                        self.reads |= {target[-1]: f"{where}{node.lineno}" for target in targets if target}

    def _define_as(self, name: str, body: ast.AST, where: str) -> None:
        self._uses[name] |= set(_names(body))
        line = self.clock_in(body)
        if line is not None:
            self.reads.setdefault(name, f"{where}{line}")

    def _spread(self) -> None:
        """Note that functions read a clock if they mention one that does, until nothing changes."""
        count = 0
        while count != len(self.reads):
            count = len(self.reads)
            for name, uses in self._uses.items():
                known = sorted(uses & self.reads.keys() - {name})
                if name not in self.reads and known:
                    self.reads[name] = self.reads[known[0]]

    def _handed_in(self, nodes: list[ast.AST]) -> Iterator[str]:
        """Yield what other code may call at any time: functions that are mentioned but not called, special methods."""
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        called |= {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        for node in nodes:
            match node:
                case ast.Name() | ast.Attribute() if id(node) not in called:
                    name = _names(node)[-1]
                    is_clock = name in CLOCKS and (isinstance(node, ast.Attribute) or name in MODULES | self._aliases)
                    yield "<clock>" if is_clock or name in {*self._aliases, "timeit"} else name
                case ast.Lambda() if self.clock_in(node) is not None:
                    yield "<clock>"
                case ast.Call() if _names(node.func)[-1:] == ["getattr"] and len(node.args) > 1:
                    text = node.args[1]
                    yield from [str(text.value)] if isinstance(text, ast.Constant) else self._defined
                case ast.Call() if _names(node.func)[:1] == ["timeit"] and _names(node.func)[-1] not in CLOCKS:
                    yield "<clock>"  # it runs a text
                case ast.ClassDef():
                    is_plain = {name for base in node.bases for name in _names(base)} <= PLAIN_BASES | self._defined
                    methods = {part.name for part in node.body if isinstance(part, Definition)} - {"__init__"}
                    yield from (name for name in methods if not is_plain or _is_special(name))
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    is_plain = not any(PLAIN_DECORATORS.isdisjoint(_names(part)) for part in node.decorator_list)
                    if not is_plain or any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(node)):
                        yield node.name


def _is_special(name: str) -> bool:
    return name == "forward" or (name.startswith("__") and name.endswith("__"))


def _is_timer(name: str) -> bool:
    """Return whether a name contains a word of `WORDS`."""
    words = (name.replace("_", ""), *re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name))
    return any(word.lower() in WORDS for word in words)


def _names(node: ast.AST) -> list[str]:
    """Return the names within a node, in the order of the source: `["time", "perf_counter"]`."""
    names = [name for child in ast.iter_child_nodes(node) for name in _names(child)]
    own = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
    return names if own is None else [*names, own]


def _parsed(path: Path) -> ast.Module:
    with suppress(OSError, SyntaxError, ValueError, RecursionError):
        return ast.parse(path.read_bytes())
    return ast.Module([], [])
