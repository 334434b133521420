"""Where the host's time goes: sums, by line and by function, of the stacks that were sampled without the profiler."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from pinprof.trace.frames import is_user_file, package_of
from pinprof.trace.lines import Place, Placed
from pinprof.trace.metadata.sampled_stacks import CodeOrigin, HostFrame, HostProfile
from pinprof.trace.sources import ANONYMOUS_SCOPES

CodeKind: TypeAlias = Literal["user", "torch", "library", "input"]
"""Whose code a sample is in: the innermost Python code is the program's, torch's, or another package's; `input` if it
is under a DataLoader, which loads or waits. A call in C counts to the code that makes it: `x.relu()` in the program to
the program."""
CODE_KINDS: tuple[CodeKind, ...] = ("user", "torch", "library", "input")

LOADER_FILE = "torch/utils/data/dataloader.py"  # all that is called from this file is input

BACKWARD_IN = ("torch/autograd/__init__.py", "torch/_tensor.py")
MODULE_FILE = "torch/nn/modules/module.py"
OPTIMIZERS = "torch/optim/"
"""Files whose frames show the phase of a step: those of the backward pass, of a call of a module, and of optimizers."""
FUNCTIONS_WITHOUT_LAUNCH = frozenset({"_init_group", "is_available"})
"""Functions of torch, whatever phase they are in, that only collect or ask: they launch nothing."""
ONE_WAY = 0.9  # if one function has this share of the samples, the stacks have not parted yet: look at what it calls

LOCALS_MARK = "<locals>"
"""In the names of functions within functions: mostly wrappers, which are not what somebody calls."""
IMPORT_FRAME = "<frozen importlib"  # the files of the machinery of imports begin like this

FOR_WORKERS = ("multiprocessing/connection.py", "wait")
"""The function in which a DataLoader waits until a worker has a batch; unpacking a batch calls others."""
MIN_SAMPLES_IN_LOADER = 20  # fewer samples in a DataLoader do not divide its time

NORMAL_QUANTILE = 1.96  # standard deviations of a normal distribution that hold 95 % of it


class _Line(NamedTuple):
    """The key of a line, or of a function, which has no line."""

    place: Place
    origin: CodeOrigin


@dataclass(frozen=True)
class HostPlace(Placed):
    """A line or a function, and how many samples it is in."""

    file: str
    line: int | None  # None for a function, and where only that is certain
    function: str
    origin: CodeOrigin
    own: int  # samples in which it is the innermost Python code; calls in C that it makes count to it
    total: int  # samples in which it is in the stack


class LibraryCall(NamedTuple):
    """A function of a library that a line of the program calls, and the innermost function of the stack."""

    package: str
    called: str
    innermost: str

    @property
    def names(self) -> tuple[str, ...]:
        """Both functions; only one if they are the same."""
        return tuple(dict.fromkeys((self.called, self.innermost)))


@dataclass(frozen=True)
class CalledLine(Placed):
    """A line of the program, and the kinds of the samples in which it was the program's innermost line."""

    file: str | None  # None for samples without any line of the program
    line: int | None
    function: str | None
    kinds: tuple[tuple[CodeKind, int], ...]  # samples by kind, most first
    libraries: tuple[tuple[LibraryCall, int], ...] = ()
    """Its samples of kind `library`, and those in torch's bookkeeping, by what it calls, most first."""
    imports: int = 0  # its samples in imports, which a program does once
    parts: tuple[tuple[str, int], ...] = ()
    """Its samples by what it calls, most first: a phase of the step, otherwise the function in which the stacks
    part."""
    bookkeeping: int = 0
    """Its samples of kind `torch` in code that launches nothing, as listing the parameters of a module."""
    library_lines: tuple[tuple[Place, int], ...] = ()
    """Its samples of kind `library` by their innermost line, most first, without those in networks."""
    in_networks: int = 0  # its samples of kind `library` in networks that libraries define: their code launches ops

    @property
    def count(self) -> int:
        """Its samples; each sample belongs to one such line, so the counts add up to all."""
        return sum(count for _, count in self.kinds)


@dataclass(frozen=True)
class HostSums:
    """What the samples add up to; all figures count samples."""

    samples: int  # all samples whose stacks are kept; the sums below divide them
    folded: int  # further samples, of stacks that are not kept
    steps: int
    interval_ms: float
    kinds: tuple[tuple[CodeKind, int], ...]  # they add up to all samples, most first
    called: tuple[CalledLine, ...]  # by the program's innermost line, most first; they add up to all samples
    lines: tuple[HostPlace, ...]  # by line of any code, most of its own first
    functions: tuple[HostPlace, ...]  # the same by function

    def share(self, count: float) -> float:
        """Return a number of samples as a share of the time."""
        return count / self.samples

    def error(self, count: int) -> float:
        """Return by how much this share may be off, as half of the interval that holds it in 95 of 100 recordings.

        Agresti and Coull, "Approximate is better than 'exact' for interval estimation of binomial proportions" (1998).
        Sampling times are random, whatever the program does, so the samples are independent.
        """
        drawn = self.samples + NORMAL_QUANTILE**2
        share = (count + NORMAL_QUANTILE**2 / 2) / drawn
        return NORMAL_QUANTILE * sqrt(share * (1 - share) / drawn)


def measure_host(profile: HostProfile | None) -> HostSums | None:
    """Return the sums of the samples of a trace; None without any."""
    if profile is None or not profile.stacks:
        return None
    kinds: Counter[CodeKind] = Counter()
    called: defaultdict[Place, _LineSamples] = defaultdict(_LineSamples)
    lines: list[tuple[list[_Line], int]] = []
    for stack in profile.stacks:
        frames = [_with_origin(profile.frames[index]) for index in stack.frames]
        kind: CodeKind = "input" if any(frame.is_of(LOADER_FILE) for frame in frames) else frames[-1].origin
        kinds[kind] += stack.count
        users = max((place for place, frame in enumerate(frames) if frame.origin == "user"), default=-1)
        of_line = called[_users_place(frames[: users + 1])]
        below = frames[users + 1 :]
        keeps_books = kind == "torch" and _keeps_books(below)
        of_line.kinds[kind] += stack.count
        of_line.below[tuple(below)] += stack.count
        if any(frame.file.startswith(IMPORT_FRAME) for frame in frames):
            of_line.imports += stack.count
        elif kind == "library" or keeps_books:
            if any(frame.is_of(MODULE_FILE) for frame in below):
                of_line.in_networks += stack.count * (kind == "library")
            elif kind == "library":
                of_line.library_lines[frames[-1].place] += stack.count
            of_line.libraries[_library_call(below)] += stack.count
            of_line.bookkeeping += stack.count * keeps_books
        lines.append(([_Line(frame.place, frame.origin) for frame in frames], stack.count))
    return HostSums(
        samples=sum(kinds.values()),
        folded=profile.folded,
        steps=profile.steps,
        interval_ms=profile.interval_ms,
        kinds=tuple(kinds.most_common()),
        called=tuple(sorted((_called(*item) for item in called.items()), key=lambda line: -line.count)),
        lines=_places(lines),
        functions=_places(([at._replace(place=at.place._replace(line=None)) for at in stack], n) for stack, n in lines),
    )


@dataclass
class _LineSamples:
    """The samples whose innermost line of the program is one line; `below` are the frames that it calls."""

    kinds: Counter[CodeKind] = field(default_factory=Counter)
    libraries: Counter[LibraryCall] = field(default_factory=Counter)
    below: Counter[tuple[HostFrame, ...]] = field(default_factory=Counter)
    library_lines: Counter[Place] = field(default_factory=Counter)
    in_networks: int = 0
    bookkeeping: int = 0
    imports: int = 0


def _users_place(frames: list[HostFrame]) -> Place:
    """Return the line of the last of these frames; a comprehension or a lambda is a part of the function around it."""
    if not frames:
        return Place()
    place = frames[-1].place
    in_file = (frame.function for frame in reversed(frames) if frame.file == place.file)
    named = next((name for name in in_file if name.rpartition(".")[2] not in ANONYMOUS_SCOPES), place.function)
    return place._replace(function=named)


def _called(place: Place, samples: _LineSamples) -> CalledLine:
    return CalledLine(
        *place,
        kinds=tuple(samples.kinds.most_common()),
        libraries=tuple(samples.libraries.most_common()),
        bookkeeping=samples.bookkeeping,
        parts=_phase_samples(samples.below),
        imports=samples.imports,
        library_lines=tuple(samples.library_lines.most_common()),
        in_networks=samples.in_networks,
    )


def _keeps_books(frames: list[HostFrame]) -> bool:
    """Return whether torch launches nothing here: it lists a module's parameters, or sets its mode, or the like."""
    if any(frame.function.rpartition(".")[2] in FUNCTIONS_WITHOUT_LAUNCH for frame in frames):
        return True
    return not phase_of_stack(frames) and any(frame.is_of(MODULE_FILE) for frame in frames)


def _phase_samples(stacks: Mapping[tuple[HostFrame, ...], int]) -> tuple[tuple[str, int], ...]:
    """Return the samples of stacks by phase of the step, or by the function in which the stacks of no phase part."""
    parts: Counter[str] = Counter()
    others: Counter[tuple[str, ...]] = Counter()
    for frames, count in stacks.items():
        phase = phase_of_stack(frames)
        if phase:
            parts[phase] += count
        elif frames:
            others[tuple(frame.function for frame in frames)] += count
    for functions, count in _parted(others).items():
        parts[functions] += count
    return tuple(parts.most_common())


def phase_of_stack(frames: Sequence[HostFrame]) -> str:
    """Return the phase of the step that a stack is in; empty if none is certain.

    An optimizer may call a closure that runs the model, so backward and forward are looked for first.
    """
    calls = [(frame.file.replace("\\", "/"), frame.function) for frame in frames]
    if any(file.endswith(BACKWARD_IN) and function == "backward" for file, function in calls):
        return "backward"
    if any(file.endswith(MODULE_FILE) and "call_impl" in function for file, function in calls):
        return "forward"
    return "optimizer" if any(OPTIMIZERS in file for file, _ in calls) else ""


def _parted(stacks: Mapping[tuple[str, ...], int]) -> Counter[str]:
    """Return the samples by the function in which the stacks part, from the outermost on."""
    depth, whole = 0, sum(stacks.values())
    while True:
        outside_callees: Counter[str] = Counter()
        for functions, count in stacks.items():
            outside_callees[functions[min(depth, len(functions) - 1)]] += count
        goes_on = any(len(functions) > depth + 1 for functions in stacks)
        if not goes_on or not outside_callees or max(outside_callees.values()) < ONE_WAY * whole:
            return outside_callees
        depth += 1


def _library_call(below: list[HostFrame]) -> LibraryCall:
    inner = [frame for frame in below if not frame.file.startswith("<") and LOCALS_MARK not in frame.function] or below[
        -1:
    ]
    return LibraryCall(package_of(inner[0].file), inner[0].function, inner[-1].function)


def _with_origin(frame: HostFrame) -> HostFrame:
    """Return a frame of origin `library` if its file is one that people install, in whatever folder."""
    if frame.origin == "user" and not is_user_file(frame.file):
        return replace(frame, origin="library")
    return frame


def _places(stacks: Iterable[tuple[Sequence[_Line], int]]) -> tuple[HostPlace, ...]:
    """Return the places in some stacks, the innermost line last, with their samples: most of their own first.

    A line that is in a stack twice counts once. Equal ones are sorted by name and file: functions of several files may
    share a name.
    """
    own, total = Counter[_Line](), Counter[_Line]()
    for stack, count in stacks:
        own[stack[-1]] += count
        total.update(dict.fromkeys(stack, count))
    order = sorted(total, key=lambda at: (-own[at], -total[at], str(at.place), at.place.file or "", at.origin))
    return tuple(
        HostPlace(at.place.file or "", at.place.line, at.place.function or "", at.origin, own[at], total[at])
        for at in order
    )


def receiving_share(profile: HostProfile | None) -> float:
    """Return the largest share of a DataLoader's time in which it receives batches, and does not wait for a worker.

    It counts one sample more than it finds, because none may be chance. It is 1 if there are too few samples.
    """
    if profile is None:
        return 1.0
    all_count = waiting_count = 0
    for stack in profile.stacks:
        frames = [profile.frames[index] for index in stack.frames]
        if any(frame.is_of(LOADER_FILE) for frame in frames):
            all_count += stack.count
            waiting_count += stack.count * any(frame.is_of(*FOR_WORKERS) for frame in frames)
    return (all_count - waiting_count + 1) / all_count if all_count >= MIN_SAMPLES_IN_LOADER else 1.0
