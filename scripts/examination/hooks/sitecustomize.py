"""Imported by every Python process of an examined program as it starts: puts the asked hooks on torch, else nothing."""

import os

if os.environ.get("EXAM_UNCHECKED"):  # made-up data cannot have the real data's checksums
    import torchvision.datasets.cifar

    torchvision.datasets.cifar.check_integrity = lambda path, md5=None: os.path.exists(path)  # noqa: ARG005, PTH110

if os.environ.get("EXAM_MODE") in {"truth", "lines"}:
    import exam_hooks

    (exam_hooks.Truth if os.environ["EXAM_MODE"] == "truth" else exam_hooks.Lines)().install()
