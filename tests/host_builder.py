"""Builds a `HostProfile` of stacks written as texts, so that its sums can be checked by eye."""

from pinprof.trace.metadata.sampled_stacks import CodeOrigin, HostFrame, HostProfile, HostStack


def host_profile(*stacks: tuple[int, str], steps: int = 10, folded: int = 0) -> HostProfile:
    """Return the samples of stacks: (count, "train.py:7:main > torch/nn/linear.py:5:forward"), outermost first."""
    frames: list[HostFrame] = []
    kept = []
    for count, text in stacks:
        indices = []
        for entry in text.split(" > "):
            frame = _frame(*entry.split(":", 2))
            if frame not in frames:
                frames.append(frame)
            indices.append(frames.index(frame))
        kept.append(HostStack(tuple(indices), count))
    samples = sum(count for count, _ in stacks) + folded
    return HostProfile(10.0, samples, steps, 10.0 * samples, tuple(frames), tuple(kept), folded)


def _frame(file: str, line: str, function: str) -> HostFrame:
    origin: CodeOrigin = "torch" if file.startswith("torch/") else "library" if file.startswith("lib/") else "user"
    return HostFrame(file, int(line) if line else None, function, origin)
