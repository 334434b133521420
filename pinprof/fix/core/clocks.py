"""Clocks of the host: a change may take no wait away behind which the program reads one, before it waits elsewhere.

The function with the wait is walked in the order in which it runs. Of all other code only names count: a function
reads a clock if its body has one, or names a function that does. A clock that other code may read at any time needs
every wait.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import libcst as cst

from pinprof.fix.core.calls import last_name
from pinprof.fix.core.facts import Work
from pinprof.fix.core.files import importing, neighbours
from pinprof.fix.core.numbers import as_read, is_real
from pinprof.fix.core.rewrite import NotSafe, Waits, walk
from pinprof.fix.core.source import SourceFile
from pinprof.trace.lines import Place

CLOCKS = {
    *("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "default_timer", "times"),
    *("process_time", "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns"),
    *("now", "utcnow", "today", "cpu_times", "getrusage", "datetime64", "localtime", "gmtime", "ctime", "asctime"),
}
"""Last names of functions that read a clock, in whatever library."""
OF_BAR = "format_dict"
"""The attribute by which bars of tqdm give the time since they began."""
MODULES = {"time", "timeit"}
AS_TEXT = {"strftime", "isoformat"}
"""Methods that make the name of a log of a date: no program computes with it."""
NO_CLOCKS = {"Event", "synchronize", "elapsed_time"}
"""Last names that look like clocks': events are the GPU's."""
WORDS = {
    *("timer", "timers", "timeit", "timed", "timing", "timings", "stopwatch", "clock", "chrono", "chronometer"),
    *("elapsed", "lap", "tic", "toc", "benchmark", "speedometer", "throughput"),
}
"""Words in names of functions of libraries that measure time."""
SYNCHRONIZE = {"torch.cuda.synchronize", "torch.accelerator.synchronize"}
READING = {"item", "tolist", "cpu", "numpy", "float", "int", "bool", "to", "cuda", "synchronize", "nonzero", "print"}
"""Calls that wait for the GPU where the trace has a wait in their line."""
PLAIN_BASES = {"object", "Module", "nn", "torch"}
PLAIN_DECORATORS = {"torch", "functools", "staticmethod", "classmethod", "property", "contextmanager", "dataclass"}
OWN = "line "
"""How a place begins that is in the file itself."""
Definition = ast.FunctionDef | ast.AsyncFunctionDef


def waits_at(source: SourceFile, place: Place) -> Waits:
    """Return that a change takes away all waits of the calls in a line."""
    return Waits(source.file, tuple(source.calls(place.line or 0)))


def check_clocks(waits: Iterable[Waits], work: Work) -> None:
    """Raise NotSafe where a clock may be read before the GPU has done its work, with all changes made already."""
    new = [wait for wait in waits if wait.gone]
    together = [*work.waits, *new]
    removed = {id(node) for waits in together for gone in waits.gone for node in walk(gone)}
    names_of: dict[Path, ClockNames] = {}
    for wait in together if new else ():
        source = work.files.taken(wait.file)
        if source.path not in names_of:
            names_of[source.path] = ClockNames(source, work.files.folder)
        if names_of[source.path].has_clock:
            _Walk(source, wait, removed, work.facts.waiting, names_of[source.path]).check()


class ClockNames:
    """The names by which a file and those that it imports read clocks, each with the place of the clock."""

    def __init__(self, source: SourceFile, folder: Path) -> None:
        others = [path for path in neighbours(source.path, folder) if path != source.path]
        above = importing(source.path, folder)
        parsed = {path: _parsed(path) for path in {source.path, *others, *above}}
        everything = [node for tree in parsed.values() for node in ast.walk(tree)]
        self._trees = [parsed[path] for path in (source.path, *others)]
        self._aliases = {
            alias.asname or alias.name
            for node in everything
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if (node.module in MODULES and alias.name in CLOCKS) or (alias.asname and _is_timer(alias.name))
        }
        self._defined = {node.name for node in everything if isinstance(node, Definition | ast.ClassDef)}
        self._methods = {
            method.name
            for node in everything
            if isinstance(node, ast.ClassDef)
            for method in node.body
            if isinstance(method, Definition)
        }
        self._uses: dict[str, set[str]] = defaultdict(set)
        """What the functions of each name mention."""
        self.reads: dict[str, str] = {OF_BAR: ""}
        """The functions that read a clock, each with the place of the clock."""
        where = {path: f"{path.relative_to(folder).as_posix()}:" for path in parsed} | {source.path: OWN}
        for path, tree in parsed.items():
            self._define(tree, where[path])
        self._spread()
        self._modules = {where[path]: parsed[path] for path in (source.path, *above)}
        """The trees of the file and of those that import it."""
        self.has_clock = any(
            self.clock_in(tree) is not None or "<clock>" in self._handed_in(tree) for tree in parsed.values()
        )

    def is_clock(self, names: list[str]) -> bool:
        """Return whether a call of something with these names reads a clock: `["time", "perf_counter"]`."""
        last = names[-1] if names else ""
        if last in CLOCKS or last in self._aliases:
            return True
        return last not in NO_CLOCKS and self._defined.isdisjoint(names) and any(map(_is_timer, names))

    def clock_in(self, node: ast.AST) -> int | None:
        """Return the line of the first clock in a part of a program."""
        texts = {
            id(inner.value) for inner in ast.walk(node) if isinstance(inner, ast.Attribute) and inner.attr in AS_TEXT
        }
        for inner in ast.walk(node):
            is_call = isinstance(inner, ast.Call) and id(inner) not in texts and self.is_clock(_names(inner.func))
            if is_call or (isinstance(inner, ast.Attribute) and inner.attr == OF_BAR):
                return getattr(inner, "lineno", 0)
        return None

    def clock_around(self, running: set[str], name: str) -> str | None:
        """Return a clock of what runs a function of a name, or of itself where it runs again."""
        calls = 0
        for where, tree in self._modules.items():
            for part in _behind(tree, running):
                mentioned = sorted(set(_names(part)) & self.reads.keys() - running - {OF_BAR})
                line = self.clock_in(part)
                if line is not None or mentioned:
                    return self.reads[mentioned[0]] if line is None else f"{where}{line}"
            calls += _calls(tree, running)
        return self.reads.get(name) if calls > len(running) else None

    def clock_of_importing(self) -> str | None:
        """Return the first clock of the files that import this one."""
        lines = ((where, self.clock_in(tree)) for where, tree in self._modules.items() if where != OWN)
        return next((f"{where}{line}" for where, line in lines if line is not None), None)

    def _define(self, tree: ast.AST, where: str) -> None:
        for node in ast.walk(tree):
            if isinstance(node, Definition | ast.ClassDef):
                body = [statement for statement in node.body if getattr(statement, "name", "") == "__init__"]
                for part in [node] if isinstance(node, Definition) else body:
                    self._uses[node.name] |= set(_names(part))
                    line = self.clock_in(part)
                    if line is not None:
                        self.reads.setdefault(node.name, f"{where}{line}")
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self._uses[alias.asname or alias.name].add(alias.name)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                names = _names(node.value.func)
                if names and names[-1] not in CLOCKS and self.is_clock(names):  # t = Timer()
                    self.reads |= {
                        _names(target)[-1]: f"{where}{node.lineno}" for target in node.targets if _names(target)
                    }

    def _spread(self) -> None:
        count = 0
        while count != len(self.reads):
            count = len(self.reads)
            for name, uses in self._uses.items():
                known = sorted(uses & self.reads.keys() - {name})
                if name not in self.reads and known:
                    self.reads[name] = self.reads[known[0]]

    def handed(self, running: Collection[str]) -> str | None:
        """Return a clock that other code may read at any time, but for functions that are `running` the wait."""
        for tree in self._trees:
            for name in self._handed_in(tree):
                if name == "<clock>" or (name in self.reads and name not in running):
                    return self.reads.get(name, "")
        return None

    def _handed_in(self, tree: ast.AST) -> Iterator[str]:
        """Yield what other code may call at any time: functions that are named and not called, special methods."""
        nodes = [*ast.walk(tree)]
        beside = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        beside |= {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        for node in nodes:
            match node:
                case ast.Name() | ast.Attribute() if id(node) not in beside:
                    name = _names(node)[-1]
                    is_clock = name in CLOCKS and (isinstance(node, ast.Attribute) or name in MODULES | self._aliases)
                    yield "<clock>" if is_clock or name in {*self._aliases, "timeit"} else name
                case ast.Lambda() if self.clock_in(node) is not None:
                    yield "<clock>"
                case ast.Call() if _names(node.func)[-1:] == ["getattr"] and len(node.args) > 1:
                    text = node.args[1]
                    yield from [str(text.value)] if isinstance(text, ast.Constant) else self._methods
                case ast.Call() if _names(node.func)[:1] == ["timeit"] and _names(node.func)[-1] not in CLOCKS:
                    yield "<clock>"  # it runs a text
                case ast.ClassDef():
                    bases = {name for base in node.bases for name in _names(base)}
                    is_plain = bases <= PLAIN_BASES | self._defined
                    methods = [statement.name for statement in node.body if isinstance(statement, Definition)]
                    yield from (name for name in methods if name != "__init__" and (not is_plain or _is_special(name)))
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    is_plain = not any(
                        PLAIN_DECORATORS.isdisjoint(_names(decorator)) for decorator in node.decorator_list
                    )
                    is_generator = any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in ast.walk(node))
                    if is_generator or not is_plain:
                        yield node.name

    def running(self, name: str) -> set[str]:
        """Return the names of functions that run one of a name, as far as names show it."""
        running, count = {name}, 0
        while count != len(running):
            count = len(running)
            running |= {other for other, uses in self._uses.items() if uses & running}
        return running


class _Walk:
    """One walk through the function with a wait that a change takes away: whether the host has waited elsewhere."""

    def __init__(
        self,
        source: SourceFile,
        waits: Waits,
        removed: Collection[int],
        waiting: Collection[tuple[str, int]],
        clocks: ClockNames,
    ) -> None:
        self._source, self._removed, self._waiting, self._clocks = source, removed, waiting, clocks
        self._gone, self._read, self._lost = ({id(node) for node in part} for part in waits[1:4])
        self._scope = source.scope(waits.gone[0])
        self._is_lost = False
        self._ends: list[bool] = []
        """Whether the host has waited, where the function returns."""
        self._leaves: list[bool] = []
        """And where a loop ends early, or goes on."""

    def check(self) -> None:
        """Raise NotSafe where a clock may be read too early."""
        scope = self._scope
        name = scope.name.value if isinstance(scope, cst.FunctionDef) else ""
        running = self._clocks.running(name) if name else set[str]()
        handed = self._clocks.handed(running)
        if handed is not None:
            raise _read_early(handed)
        if isinstance(scope, cst.Module):
            around = None if self._block(scope.body, done=True) else self._clocks.clock_of_importing()
            if around is not None:
                raise _read_early(around)
            return
        if not isinstance(scope, cst.FunctionDef) or any(isinstance(node, cst.Yield) for node in walk(scope)):
            raise NotSafe("the program reads a clock, and the wait is not in a plain function")
        if not all((self._block(scope.body.body, done=True), *self._ends)):
            around = self._clocks.clock_around(running, name)
            if around is not None:
                raise _read_early(around)

    def _block(self, statements: Iterable[cst.CSTNode], *, done: bool) -> bool:
        for statement in statements:
            done = self._statement(statement, done=done)
        return done

    def _statement(self, node: cst.CSTNode, *, done: bool) -> bool:
        """Return whether the host has waited behind a statement; True behind one that leads elsewhere."""
        done = done or id(node) in self._read
        match node:
            case cst.FunctionDef() | cst.ClassDef():
                return done  # it runs where it is named
            case cst.SimpleStatementLine() | cst.SimpleStatementSuite() | cst.IndentedBlock():
                return self._block(node.body, done=done)
            case cst.Else() | cst.Finally():
                return self._statement(node.body, done=done)
            case cst.For() | cst.While():
                return self._loop(node, done=done)
            case cst.BaseCompoundStatement():
                return self._branches(node, done=done)
        return self._small(node, done=done)

    def _small(self, node: cst.CSTNode, *, done: bool) -> bool:
        match node:
            case cst.Break() | cst.Continue():
                self._leaves.append(done)
                return True
            case cst.Return() | cst.Raise():
                self._ends.append(self._values(node.children, done=done))
                return True
            case cst.Assign():
                return self._values((node.value, *(target.target for target in node.targets)), done=done)
        return self._values(node.children, done=done)

    def _branches(self, node: cst.BaseCompoundStatement, *, done: bool) -> bool:
        match node:
            case cst.If():
                done = self._value(node.test, done=done)
                taken = self._statement(node.body, done=done)
                if node.orelse is None and "cuda" in self._source.code(node.test):
                    return taken  # the program ran on a GPU
                return (self._statement(node.orelse, done=done) if node.orelse else done) and taken
            case cst.With():
                items = [item.item for item in node.items]
                return self._values(items, done=self._statement(node.body, done=self._values(items, done=done)))
            case cst.Try() | cst.TryStar():
                failed = done and not any(id(inner) in self._gone for inner in walk(node.body))
                ended = self._statement(node.body, done=done)
                ended = self._statement(node.orelse, done=ended) if node.orelse else ended
                ended = all([ended, *(self._statement(handler.body, done=failed) for handler in node.handlers)])
                return self._statement(node.finalbody, done=ended) if node.finalbody else ended
            case cst.Match():
                done = self._value(node.subject, done=done)
                self._values([case.guard for case in node.cases if case.guard], done=done)
                return all([done, *(self._statement(case.body, done=done) for case in node.cases)])
        return self._values(node.children, done=done)

    def _loop(self, node: cst.For | cst.While, *, done: bool) -> bool:
        outer, self._leaves = self._leaves, []
        done = self._value(node.iter if isinstance(node, cst.For) else node.test, done=done)
        head = node.target if isinstance(node, cst.For) else node.test
        state = done
        for _ in range(2):
            state = self._statement(node.body, done=self._value(head, done=state)) and state
            state = all((state, *self._leaves))
        self._leaves = outer
        if isinstance(node, cst.For):
            state = self._value(node.iter, done=state)
        if id(node) in self._read:
            state = True
        return self._statement(node.orelse, done=state) if node.orelse else state

    def _values(self, nodes: Iterable[cst.CSTNode], *, done: bool) -> bool:
        for node in nodes:
            done = self._value(node, done=done)
        return done

    def _value(self, node: cst.CSTNode, *, done: bool) -> bool:
        """Return whether the host has waited when an expression has been evaluated."""
        match node:
            case cst.BooleanOperation():
                done = self._value(node.left, done=done)
                return self._value(node.right, done=done) and done
            case cst.IfExp():
                done = self._value(node.test, done=done)
                return all((self._value(node.body, done=done), self._value(node.orelse, done=done), done))
            case cst.Lambda() | cst.BaseComp():
                return self._values(node.children, done=done) and done
            case cst.Call():
                done = self._value(node.func, done=self._values(node.args, done=done))
            case _:
                done = self._values(node.children, done=done)
        if not done and self._reads_clock(node):
            raise _read_early(f"line {self._source.line(node)}")
        if id(node) in self._gone:
            return False
        if id(node) in self._lost and not done:
            self._is_lost = True
        return done or (id(node) in self._read and not self._is_lost) or self._drains(node)

    def _reads_clock(self, node: cst.CSTNode) -> bool:
        around = self._source.parent(node)
        if isinstance(node, cst.Call):
            is_text = isinstance(around, cst.Attribute) and around.attr.value in AS_TEXT
            return not is_text and self._clocks.is_clock(self._source.names_in(node.func))
        is_word = isinstance(around, cst.Arg) and around.keyword is node
        return isinstance(node, cst.Name) and node.value in self._clocks.reads and not is_word

    def _drains(self, node: cst.CSTNode) -> bool:
        """Return whether the host waits in a call for all work before it, after all changes."""
        if not isinstance(node, cst.Call) or id(node) in self._removed:
            return False
        if self._source.qualified(node.func) in SYNCHRONIZE:
            return True
        lines = {self._source.line(node.func.attr if isinstance(node.func, cst.Attribute) else node)}
        lines.add(self._source.line(node))
        if last_name(node) in READING and any((self._source.file, line) in self._waiting for line in lines):
            return True
        read = as_read(node)
        return read is not None and is_real(self._source, read.tensor, node)


def _read_early(place: str) -> NotSafe:
    return NotSafe(f"{place or 'the program'} reads a clock, which needs the wait")


def _is_special(name: str) -> bool:
    return name == "forward" or (name.startswith("__") and name.endswith("__"))


def _is_timer(name: str) -> bool:
    """Return whether a name has a word of what measures time in it."""
    words = (name.replace("_", ""), *re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name))
    return any(word.lower() in WORDS for word in words)


def _names(node: ast.AST) -> list[str]:
    """Return the names within a node, in the order of the source; those of attributes behind what they are of."""
    names = [name for child in ast.iter_child_nodes(node) for name in _names(child)]
    own = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
    return names if own is None else [*names, own]


def _behind(tree: ast.Module, functions: set[str]) -> Iterator[ast.AST]:
    """Yield the statements that run a function, and those behind them, of a module and of some functions."""
    bodies = [[statement for statement in tree.body if not isinstance(statement, Definition | ast.ClassDef)]]
    bodies += [node.body for node in ast.walk(tree) if isinstance(node, Definition) and node.name in functions]
    for body in bodies:
        first = next((place for place, statement in enumerate(body) if functions & set(_names(statement))), len(body))
        yield from body[first:]


def _calls(tree: ast.AST, names: Collection[str]) -> int:
    """Return how often calls of some names run, as far as it matters: twice stands for more."""
    count = 0
    for node in ast.iter_child_nodes(tree):
        times = 2 if isinstance(node, ast.For | ast.While | ast.comprehension) else 1
        count += times * _calls(node, names)
        count += isinstance(node, ast.Call) and bool(_names(node.func)) and _names(node.func)[-1] in names
    return count


def _parsed(path: Path) -> ast.Module:
    with suppress(OSError, SyntaxError, ValueError, RecursionError):
        return ast.parse(path.read_bytes())
    return ast.Module([], [])
