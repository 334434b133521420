"""The Python frames from which a wait was called: those of its thread, and of the thread that waits for that one."""

import os
import sys
import threading
from collections.abc import Iterator
from types import CodeType, FrameType

from pinprof.capture.program import OWN_FOLDERS

REPLICAS = "/torch/nn/parallel/parallel_apply.py".replace("/", os.sep)
"""How the file ends in which DataParallel runs each replica in a thread, and waits for all of them."""


def frames_of_wait(frame: FrameType | None, main: int) -> Iterator[FrameType]:
    """Yield a frame and its callers, innermost first, without pinprof's own.

    A replica of DataParallel runs in a thread of its own, which the thread `main` has started and waits for: behind its
    frames come those of that thread.
    """
    replica = threading.get_ident() != main and in_replica(frame)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(OWN_FOLDERS):
            yield frame
        frame = frame.f_back
        if frame is None and replica:
            frame, replica = _waiting_for_replicas(main), False


def in_replica(frame: FrameType | None) -> bool:
    """Return whether a frame is in a thread of DataParallel."""
    return any(code.co_filename.endswith(REPLICAS) for code in codes(frame))


def _waiting_for_replicas(main: int) -> FrameType | None:
    """Return the frame in which the main thread waits for the threads of DataParallel; None if it does not."""
    frame = frame_of_thread(main)
    while frame is not None and not frame.f_code.co_filename.endswith(REPLICAS):
        frame = frame.f_back
    return frame


def frame_of_thread(thread: int) -> FrameType | None:
    """Return the innermost frame of a thread at this moment."""
    return sys._current_frames().get(thread)  # noqa: SLF001  the only way to another thread's frames


def instructions(frame: FrameType | None) -> tuple[int, ...]:
    """Return what tells a stack from others, quickly: the addresses of its functions' code, and where each stands.

    It holds as long as `codes` of the stack are kept.
    """
    key: list[int] = []
    while frame is not None:
        key += (id(frame.f_code), frame.f_lasti)
        frame = frame.f_back
    return tuple(key)


def codes(frame: FrameType | None) -> Iterator[CodeType]:
    """Yield the code of a frame and of its callers."""
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back
