"""Python stacks: taken quickly in a sample, named and counted afterwards."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from opcode import opmap
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple, TypeAlias, cast

import torch

from pinprof.ground.units import shortened
from pinprof.program.frames import is_users, shown_file
from pinprof.trace.metadata import sampled_stacks
from pinprof.trace.metadata.sampled_stacks import CodeOrigin, HostFrame, HostProfile, HostStack

RawStack: TypeAlias = tuple[CodeType | int, ...]
"""Code and instruction of each frame in turn, innermost first, in one flat tuple: one object to collect."""
MAX_SAMPLED_FRAMES = 200  # frames that are walked in a sample, innermost first: deep recursion must not make it slow
OUTERMOST_FRAMES = 16
"""Frames that are kept at the outer end of a stack that is too deep; the other kept frames are at its inner end."""
OWN_PACKAGE = str(Path(__file__).parents[2]) + os.sep
OWN_COMMANDS, OWN_WORKLOADS = str(Path(OWN_PACKAGE) / "cli") + os.sep, str(Path(OWN_PACKAGE) / "workloads") + os.sep
"""pinprof's own code around a recorded program, and its code that is one."""
TORCH_FOLDER = str(Path(torch.__file__).parent) + os.sep
OWN_WINDOWS = str(Path(OWN_PACKAGE) / "capture" / "window") + os.sep
"""Files whose functions run between two steps, and call no code of the program."""
COMPILED_FILE_PREFIX = "<eval_with_key>"  # the file name of code that torch.fx generates begins like this
LONGEST_NAME_CHARS = 500  # characters of a file's or function's name that are kept


class Sample(NamedTuple):
    """Where the program was at `ticks` successive sampling times."""

    step: int
    ticks: int
    stack: RawStack


def raw_stack(frame: FrameType | None) -> RawStack:
    """Return a frame and its callers, as fast as Python can."""
    stack: list[CodeType | int] = []
    frames_left = MAX_SAMPLED_FRAMES
    while frame is not None and frames_left:
        stack += (frame.f_code, frame.f_lasti)
        frame = frame.f_back
        frames_left -= 1
    return tuple(stack)


def host_profile_of(
    samples: Iterable[Sample], interval_s: float, steps: int, length_s: float, why_not: str | None
) -> HostProfile:
    """Return samples as a profile, in which frames have names and each stack is counted."""
    naming = _Naming()
    counts: Counter[tuple[int, ...]] = Counter()
    for sample in samples:
        codes = cast(Sequence[CodeType], sample.stack[::2])
        if any(
            code.co_filename.startswith(OWN_WINDOWS) for code in codes
        ):  # pinprof worked: that time belongs to no step
            continue
        counts[naming.indices(sample.stack)] += sample.ticks
    total, empty = sum(counts.values()), counts.pop((), 0)
    kept = counts.most_common(sampled_stacks.MAX_KEPT_STACKS)
    return HostProfile(
        interval_ms=interval_s * 1e3,
        samples=total,
        steps=steps,
        window_ms=length_s * 1e3,
        frames=tuple(naming.frames),
        stacks=tuple(HostStack(frames, count) for frames, count in kept),
        folded=sum(counts.values()) - sum(count for _, count in kept) + empty,
        why_not=why_not,
    )


@dataclass
class _Naming:
    frames: list[HostFrame] = field(default_factory=list)
    _index: dict[HostFrame, int] = field(default_factory=dict)
    _numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    """By the identity of the code, which the samples keep alive: to hash its contents is slow."""
    _files: dict[str, tuple[str, CodeOrigin]] = field(default_factory=dict)

    def indices(self, stack: RawStack) -> tuple[int, ...]:
        """Return the frames of a stack outermost first, without pinprof's own and those outside of the program."""
        kept = list(_of_the_program(list(_entered(stack))))
        if len(kept) > sampled_stacks.MAX_KEPT_FRAMES:
            kept = kept[:OUTERMOST_FRAMES] + kept[OUTERMOST_FRAMES - sampled_stacks.MAX_KEPT_FRAMES :]
        return tuple(self._frame(code, instruction) for code, instruction in kept)

    def _frame(self, code: CodeType, instruction: int) -> int:
        key = id(code), instruction
        if key not in self._numbers:
            file, origin = self._file(code.co_filename)
            name = _storable(getattr(code, "co_qualname", code.co_name))
            line = next((line for start, end, line in code.co_lines() if start <= instruction < end), None)
            frame = HostFrame(file, line, name, origin)
            self._numbers[key] = self._index.setdefault(frame, len(self.frames))
            if self._numbers[key] == len(self.frames):
                self.frames.append(frame)
        return self._numbers[key]

    def _file(self, file: str) -> tuple[str, CodeOrigin]:
        if file not in self._files:
            is_torch = file.startswith((TORCH_FOLDER, COMPILED_FILE_PREFIX))
            origin: CodeOrigin = "torch" if is_torch else "user" if is_users(file) else "library"
            self._files[file] = _storable(shown_file(file)), origin
        return self._files[file]


def _storable(name: str) -> str:
    """Return a name that can be stored: the name of a file may hold bytes that are not text."""
    return shortened(name.encode(errors="replace").decode(), LONGEST_NAME_CHARS)


def _entered(stack: RawStack) -> Iterator[tuple[CodeType, int]]:
    """Yield the frames without an innermost one that has run nothing: Python handles signals before it does."""
    codes, instructions = cast(Sequence[CodeType], stack[::2]), cast(Sequence[int], stack[1::2])
    for depth, (code, instruction) in enumerate(zip(codes, instructions, strict=True)):
        if depth or not (instruction < 0 or code.co_code[instruction] == opmap.get("RESUME")):
            yield code, instruction


def _of_the_program(frames: Sequence[tuple[CodeType, int]]) -> Iterator[tuple[CodeType, int]]:
    """Yield the frames outermost first, without those of pinprof and those around a command of pinprof."""
    command_depths = [depth for depth, (code, _) in enumerate(frames) if code.co_filename.startswith(OWN_COMMANDS)]
    for code, instruction in reversed(frames[: command_depths[0]] if command_depths else frames):
        if not code.co_filename.startswith(OWN_PACKAGE) or code.co_filename.startswith(OWN_WORKLOADS):
            yield code, instruction
