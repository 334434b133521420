"""Clocks that are read while the GPU may still be at work on what a wait was for, which a change takes away."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst

from pinprof.fix.core.calls import last_name
from pinprof.fix.core.clocks import OF_BAR, is_clock, is_clock_of_python, is_timer, may_read_clock, reads_clock
from pinprof.fix.core.files import Function, Program, handed
from pinprof.fix.core.flow import Flow, State, names_of, worst, yields
from pinprof.fix.core.numbers import as_read, is_real
from pinprof.fix.core.rewrite import Waits, walk
from pinprof.fix.core.source import SourceFile
from pinprof.fix.core.uses import is_builtin

DONE, HELD, LOST = range(3)
"""What a wait was for is done; it may not be, and what is read in its place waits for it; or nothing waits for it."""
SYNCHRONIZE = {"torch.cuda.synchronize", "torch.accelerator.synchronize"}
READING = {"item", "tolist", "cpu", "numpy", "float", "int", "bool", "to", "cuda", "synchronize", "nonzero", "print"}
"""Calls that wait for the GPU where the trace has a wait in their line."""
INSTANCES = ("__call__", "forward")
ENTERING, LEAVING = ("__enter__", "__iter__", "__next__"), ("__exit__",)
SHOWING = ("__str__", "__repr__", "__format__", "__float__", "__int__")
FOLLOWED = {*INSTANCES, *ENTERING, *LEAVING, *SHOWING, "__init__"}
"""Special methods of which the walk sees the calls."""
DECORATING = ("torch.", "functools.", "contextlib.", "abc.", "typing.", "dataclasses.")
"""Libraries whose decorators call a function where the program calls it."""
MODULE = "module"
"""The attribute in which wrappers of torch keep a model."""


@dataclass(frozen=True)
class Clock:
    """A call that reads a clock too early."""

    source: SourceFile
    node: cst.BaseExpression


@dataclass
class ClockWalk:
    """One walk through a program, beside a change: which clocks are read before the GPU has done its work."""

    program: Program
    waits: Waits
    removed: Collection[int]
    """The nodes at which no change leaves a wait, by their ids."""
    seen: Collection[tuple[str, int]]
    """The lines at which the trace has waits."""
    clocks: dict[int, Clock] = field(default_factory=dict)
    _done: dict[tuple[int, State, State], State] = field(default_factory=dict)
    _called: set[int] = field(default_factory=set)
    """The functions that the program was seen to call."""
    _handed: dict[int, Function] = field(default_factory=dict)
    """The functions that it hands to other code."""
    _gone: int = 0

    def __post_init__(self) -> None:
        self._is_gone = {id(each) for each in self.waits.gone}
        self._is_read = {id(each) for each in self.waits.read}
        self._is_lost = {id(each) for each in self.waits.lost}

    def walked(self) -> Sequence[Clock]:
        """Return the clocks, after the program was walked through from each place where it may begin."""
        for source in self.program.files:
            Flow(self, source).through(source.module, DONE)
        functions = [each for group in self.program.functions.values() for each in group]
        for function in functions:
            if id(function.node) not in self._called:
                self._run(function, LOST if self._is_of_a_library(function) else DONE)
                if self._is_for_others(function):
                    self._hand(function)
        for function in [*self._handed.values()]:
            gone, self._gone = self._gone, 0
            self._done.clear()
            self._run(function, DONE)
            if not self._gone:  # it may run at any time, beside the steps
                self._run(function, LOST)
            self._gone += gone
        return [*self.clocks.values()]

    def _is_of_a_library(self, function: Function) -> bool:
        """Return whether a library may call a method at any time: the program does not, and the class has bases."""
        if function.of_class is None or not isinstance(function.node, cst.FunctionDef):
            return False
        made = [node for _, node in self.program.classes.get(function.of_class, ())]
        bases = [name for node in made for base in node.bases for name in names_of(base)]
        name = function.node.name.value
        return bool(set(bases) - {"object", MODULE, "nn", "torch", "Module"}) and name != "__init__"

    def _is_for_others(self, function: Function) -> bool:
        """Return whether other code than calls may run a function: operators, a registry, `getattr(hook, name)()`."""
        if not isinstance(function.node, cst.FunctionDef):
            return False
        name = function.node.name.value
        is_special = name.startswith("__") and name.endswith("__") and name not in FOLLOWED
        is_asked_for = function.of_class is not None and not self.program.asked.isdisjoint({name, ""})
        is_decorated = not all(_is_plain(function.source, each.decorator) for each in function.node.decorators)
        return is_special or is_asked_for or is_decorated

    def before(self, node: cst.CSTNode, state: State) -> State:
        """Return what holds at the beginning of a statement or a block."""
        is_read = id(node) in self._is_read and isinstance(node, cst.BaseSuite | cst.SimpleStatementLine)
        return self._read(state) if is_read else state

    def behind(self, source: SourceFile, node: cst.CSTNode, state: State) -> State:
        """Return what holds when an expression or a loop has run."""
        if state is None:
            return None
        if isinstance(node, cst.Name | cst.Attribute) and self._hands_clock(source, node):
            self._note(source, node, HELD)  # other code may read it at any time
        if isinstance(node, cst.Call):
            state = self._call(source, node, state)
        elif isinstance(node, cst.Attribute):
            state = self._property(source, node, state)
        elif isinstance(node, cst.Name):
            state = self._mentioned(source, node, state)
        elif isinstance(node, cst.Lambda) and not _has_name(source, node):
            self._hand(Function(source, node, None))
        elif isinstance(node, cst.FormattedStringExpression):
            state = self._shown(source, node.expression, state)
        return self._waited(node, state)

    def _waited(self, node: cst.CSTNode, state: State) -> State:
        """Return what holds behind a node after what the change does there."""
        if id(node) in self._is_read:
            state = self._read(state)
        if id(node) in self._is_lost and state == HELD:
            state = LOST
        if id(node) in self._is_gone:
            self._gone += 1
            state = HELD
        return state

    def _read(self, state: State) -> State:
        return DONE if state == HELD else state

    def entered(self, source: SourceFile, node: cst.BaseExpression, state: State) -> State:
        """Return what holds when a `with` has begun, or a loop has asked for one more element."""
        return self._around(source, node, state, ENTERING)

    def left(self, source: SourceFile, node: cst.BaseExpression, state: State) -> State:
        """Return what holds when a `with` has ended."""
        return self._around(source, node, state, LEAVING)

    def _around(self, source: SourceFile, node: cst.BaseExpression, state: State, methods: tuple[str, ...]) -> State:
        """Return what holds behind code that a `with` or a loop runs without a call: generators and special methods."""
        if state is None:
            return None
        for each in walk(node):
            if isinstance(each, cst.Call) and not self._callees(source, each)[0] and may_read_clock(source, each):
                self._note(source, each, state)
        ways: list[State] = [state]
        for function in self._going(source, node, methods):
            ways.append(self._run(function, state))
            if yields(function.node.body):
                ways.append(self._run(function, None, state))
        return worst(*ways)

    def _going(self, source: SourceFile, node: cst.BaseExpression, methods: tuple[str, ...]) -> Iterator[Function]:
        """Yield the generators and special methods of what an expression may be."""
        names = set(names_of(node))
        values = [value for name in names for _, value in self.program.assigned.get(name, ())]
        known = names | {name for value in values for name in names_of(value)}
        is_open = any(isinstance(each, cst.Name) and _is_argument(source, each) for each in walk(node))
        for own, group in self.program.functions.items():
            for function in group:
                is_known = is_open or (function.of_class if own in methods else own) in known
                if is_known and (own in methods or yields(function.node.body)):
                    yield function

    def _call(self, source: SourceFile, call: cst.Call, state: State) -> State:
        if reads_clock(source, call) or self._is_alias_of_clock(last_name(call)):
            self._note(source, call, worst(state, *self._of_texts(call, state)))
            return state
        if self._drains(source, call):
            return DONE
        found, is_exact = self._callees(source, call)
        if not found:
            is_plain = isinstance(call.func, cst.Name | cst.Attribute)
            if is_plain and (may_read_clock(source, call) or self._is_of_timer(call)):
                self._note(source, call, state)
            return state
        ways = [self._run(each, state) for each in found if not yields(each.node.body)]
        return worst(*ways) if is_exact and ways else worst(state, *ways)

    def _is_alias_of_clock(self, name: str, *names: str) -> bool:
        """Return whether a name is given to a clock: `now = time.time if is_new else time.clock`, `tick = now`."""
        for source, value in self.program.assigned.get(name, ()):
            for node in handed(source, value):
                other = node.value if isinstance(node, cst.Name) else name
                is_new = other not in {name, *names}
                if is_clock(source, node) or (is_new and self._is_alias_of_clock(other, name, *names)):
                    return True
        return False

    def _is_of_timer(self, call: cst.Call) -> bool:
        """Return whether a method is of a timer that a library makes: `lap = codetiming.Timer()`, `lap.stop()`."""
        receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
        name = receiver.attr.value if isinstance(receiver, cst.Attribute) else getattr(receiver, "value", "")
        values = self.program.assigned.get(name, ()) if isinstance(name, str) else ()
        return any(isinstance(value, cst.Call) and may_read_clock(source, value) for source, value in values)

    def _of_texts(self, call: cst.Call, state: State) -> Iterator[State]:
        """Yield what holds behind functions that the texts given to a clock call: `timeit.repeat("train()")`."""
        texts = (each.value.value for each in call.args if isinstance(each.value, cst.SimpleString))
        for name in (word for text in texts for word in re.findall(r"\w+", text)):
            yield from (self._run(each, state) for each in self.program.functions.get(name, ()))

    def _drains(self, source: SourceFile, call: cst.Call) -> bool:
        """Return whether the host waits in a call for all work before it, after all changes."""
        if id(call) in self.removed:
            return False
        if source.qualified(call.func) in SYNCHRONIZE:
            return True
        if last_name(call) in READING:
            lines = {source.line(call), source.line(call.func.attr if isinstance(call.func, cst.Attribute) else call)}
            if any((source.file, line) in self.seen for line in lines):
                return True
        read = as_read(call)
        return read is not None and is_real(source, read.tensor, call)

    def _callees(self, source: SourceFile, call: cst.Call) -> tuple[list[Function], bool]:
        """Return the functions of the program that a call may run, and whether it runs one of them for certain."""
        name, function = last_name(call), call.func
        named = source.qualified(function)
        if not name or (named and named.strip(".").split(".")[0] not in self.program.modules):
            return [], False
        is_own = isinstance(function, cst.Attribute) and source.code(function.value) in {"self", "super()"}
        if isinstance(function, cst.Name):
            found = [] if _is_argument(source, function) else self.program.named(name)
            found = [each for each in found if not each.of_class]
            found += [each for each in self.program.methods("__init__") if each.of_class == name]
        else:
            found = self._of_receiver(source, call) or self.program.named(name)
        if found:
            return found, (isinstance(function, cst.Name) or is_own) and len(found) == 1
        is_instance = isinstance(function, cst.Name) and not is_builtin(source, name)
        if is_instance or is_own or name == MODULE or name in self.program.attributes:
            return [each for special in INSTANCES for each in self.program.methods(special)], False
        return [], False

    def _of_receiver(self, source: SourceFile, call: cst.Call) -> list[Function]:
        """Return the method that is called where the program shows of which of its classes an object is."""
        if not (isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Name | cst.Attribute)):
            return []
        receiver = call.func.value.attr if isinstance(call.func.value, cst.Attribute) else call.func.value
        values = [value for _, value in self.program.assigned.get(receiver.value, ())]
        classes = {
            value.func.value for value in values if isinstance(value, cst.Call) and isinstance(value.func, cst.Name)
        }
        if not values or len(classes) != 1 or not classes & set(self.program.classes):
            return []
        if not all(isinstance(value, cst.Call) for value in values) or _is_argument(source, receiver):
            return []
        return [each for each in self.program.methods(last_name(call)) if each.of_class in classes]

    def _property(self, source: SourceFile, node: cst.Attribute, state: State) -> State:
        around = source.parent(node)
        if isinstance(around, cst.Call) and around.func is node:
            return state
        if node.attr.value == OF_BAR:
            self._note(source, node, state)
        ways: list[State] = [state]
        for function in self.program.methods(node.attr.value):
            decorators = function.node.decorators if isinstance(function.node, cst.FunctionDef) else ()
            if any("property" in name for each in decorators for name in names_of(each)):
                ways.append(self._run(function, state))
            elif not isinstance(around, cst.AssignTarget):
                self._hand(function)
        return worst(*ways)

    def _mentioned(self, source: SourceFile, node: cst.Name, state: State) -> State:
        """Return what holds behind a name that is no call: what it stands for may be called here, or at any time."""
        around = source.parent(node)
        is_called = isinstance(around, cst.Call) and around.func is node
        is_word = (isinstance(around, cst.Arg) and around.keyword is node) or isinstance(around, cst.Attribute)
        if is_called or is_word or node.value not in self.program.functions or _is_argument(source, node):
            return state
        found = [each for each in self.program.functions[node.value] if not each.of_class]
        for each in found:
            self._hand(each)
        return worst(state, *(self._run(each, state) for each in found if not yields(each.node.body)))

    def _hands_clock(self, source: SourceFile, node: cst.Name | cst.Attribute) -> bool:
        """Return whether a clock itself is given to something else: `{"now": time.time}`, `getattr(time, "time")`."""
        around = source.parent(node)
        is_given = isinstance(around, cst.Arg | cst.BaseElement | cst.BaseDictElement | cst.Return)
        return is_given and is_clock_of_python(source, node)

    def _hand(self, function: Function) -> None:
        self._handed[id(function.node)] = function

    def _shown(self, source: SourceFile, node: cst.BaseExpression, state: State) -> State:
        going = self._going(source, node, SHOWING) if isinstance(node, cst.Name | cst.Attribute) else ()
        return worst(state, *(self._run(each, state) for each in going if each.of_class))

    def _note(self, source: SourceFile, node: cst.BaseExpression, state: State) -> None:
        if state:
            self.clocks.setdefault(id(node), Clock(source, node))

    def _run(self, function: Function, state: State, resumed: State = None) -> State:
        """Return what holds behind a call of a function, its decorators with it."""
        key = id(function.node), state, resumed
        self._called.add(id(function.node))
        if key in self._done:
            return self._done[key]
        self._done[key] = worst(state, resumed)  # where it calls itself
        behind = Flow(self, function.source, resumed).through(function.node.body, worst(state))
        decorators = function.node.decorators if isinstance(function.node, cst.FunctionDef) else ()
        for each in decorators:
            behind = self._decorated(function.source, each, worst(state, behind), behind)
        self._done[key] = behind
        return behind

    def _decorated(self, source: SourceFile, decorator: cst.Decorator, state: State, behind: State) -> State:
        """Return what holds behind a decorated function: what its decorator defines runs around it."""
        of = decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator
        made = [each for name in names_of(of) for each in self.program.functions.get(name, ())]
        for function in made:
            for inner in walk(function.node):
                if isinstance(inner, cst.FunctionDef) and inner is not function.node:
                    Flow(self, function.source).through(inner.body, state)
        if not made and is_timer(names_of(of)):
            self._note(source, of, state)
        return behind


def _has_name(source: SourceFile, node: cst.Lambda) -> bool:
    """Return whether a lambda is called by a name that it is given."""
    around = source.parent(node)
    return isinstance(around, cst.Assign) and not any(isinstance(each.target, cst.Subscript) for each in around.targets)


def _is_plain(source: SourceFile, decorator: cst.BaseExpression) -> bool:
    """Return whether a decorator hands its function to no other code."""
    function = decorator.func if isinstance(decorator, cst.Call) else decorator
    named = source.qualified(function) or ""
    return named.startswith(DECORATING) or source.code(function) in {"staticmethod", "classmethod", "property"}


def _is_argument(source: SourceFile, node: cst.Name) -> bool:
    """Return whether a name is an argument of a function around it."""
    for each in source.around(node):
        if isinstance(each, cst.FunctionDef | cst.Lambda) and any(
            isinstance(param, cst.Param) and param.name.value == node.value for param in walk(each.params)
        ):
            return True
    return False
