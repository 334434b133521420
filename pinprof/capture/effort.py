"""Tells whether a program works with torch now, from outside of the thread that does."""

import gc
import os
from types import FrameType

import torch
from torch import Tensor

from pinprof.capture.plain import NS_PER_S, uses_cuda

PREPARING = ("<frozen importlib._bootstrap>", f"_dynamo{os.sep}convert_frame.py", f"_inductor{os.sep}compile_fx.py")
"""Ends of the names of files whose functions run while a program imports modules, or torch.compile compiles."""
DEEPEST = 200
"""Frames to look at."""
FREED = 10
"""Pieces of the GPU's memory given back between two looks. Temporary tensors come and go while a model works; while one
is loaded they only come."""
QUIET_SHARE = 0.1
"""The part of a second that counts in which none of that was seen: replayed graphs need no memory, but neither does a
program that prepares its data on the host."""
LONGEST_LOOK_S = 1.0
"""The most that counts from one look to the next: a thread that was not let run has seen nothing."""


class Effort:
    """The seconds in which a program was seen to work since something last marked a step, and in all."""

    def __init__(self, now_ns: int) -> None:
        self.seconds = 0.0
        self.total_s = 0.0
        self.freed_per_s = 0.0
        self.next_question_s = 0.0
        self._now_ns = now_ns
        self._marked_ns = 0
        self._freed = 0
        self._has_gpu = torch.cuda.device_count() > 0  # unlike `is_available`, this lets a fork use the GPU
        self._tensors = set[int]() if self._has_gpu else tensors()

    def look(self, now_ns: int, frame: FrameType | None, marked_ns: int) -> None:
        """Look at the program now: the innermost frame of its main thread, and when something last marked a step."""
        passed_s = min((now_ns - self._now_ns) / NS_PER_S, LONGEST_LOOK_S)
        self._now_ns = now_ns
        worked_s = passed_s * self._share(passed_s, frame)
        self.total_s += worked_s
        if marked_ns != self._marked_ns:
            self.seconds, self.next_question_s, self._marked_ns = 0.0, 0.0, marked_ns
        else:
            self.seconds += worked_s

    def is_with_tensors(self) -> bool:
        """Return whether the program uses torch at all; call it in the program's own thread, as `tensors`."""
        return self._has_gpu or not tensors() <= self._tensors

    def _share(self, passed_s: float, frame: FrameType | None) -> float:
        """Return how much of the time since the last look counts."""
        freed = _freed_pieces()
        newly, self._freed = freed - self._freed, freed
        if is_preparing(frame):
            return 0.0
        self.freed_per_s = newly / passed_s if passed_s else 0.0
        if uses_cuda():
            return 1.0 if newly >= FREED else QUIET_SHARE
        return QUIET_SHARE if self._has_gpu else 1.0


def is_preparing(frame: FrameType | None) -> bool:
    """Return whether a thread imports or compiles, from its innermost frame."""
    for _ in range(DEEPEST):
        if frame is None:
            return False
        if frame.f_code.co_filename.endswith(PREPARING):
            return True
        frame = frame.f_back
    return False


def tensors() -> set[int]:
    """Return the ids of all tensors that exist.

    In another thread than the program's, this could hold on to a tuple that the program still builds, which breaks it.
    """
    return {id(thing) for thing in gc.get_objects() if issubclass(type(thing), Tensor)}


def _freed_pieces() -> int:
    """Return how often the program has given back memory of a GPU."""
    if not uses_cuda():
        return 0
    devices = range(torch.cuda.device_count())
    stats = [torch.cuda.memory_stats_as_nested_dict(device) for device in devices]
    return sum(int(of_device["allocation"]["all"]["freed"]) for of_device in stats if of_device)
