"""The DataLoaders from which a program draws, and what they have left."""

import os
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any
from weakref import ReferenceType, ref

import torch

from pinprof.trace.metadata.info import Made, MadeLoader

# ruff: noqa: SLF001  torch's iterators have all this only under private names

MAX_BATCH_PARTS, MAX_BATCH_DEPTH = 32, 4  # the most parts of a batch that are looked at, and their depth


class BatchSource:
    """The batches that the program draws; its properties are of the last DataLoader, each known by its sampler."""

    def __init__(self) -> None:
        self.of_sampler: Counter[int] = Counter()  # draws by the identity of the sampler
        self._loaders: dict[int, tuple[ReferenceType[Any], MadeLoader]] = {}  # each sampler with its DataLoader
        self._last: ReferenceType[Any] | None = None
        self._yielded_before = 0  # what the iterator had yielded when its workers could last fill their queues
        self._ended: set[int] = set()

    @property
    def drawn(self) -> int:
        """How many batches the program has drawn."""
        return self.of_sampler.total()

    def drew(self, iterator: Any) -> None:
        """Note that the program drew from this iterator of a DataLoader, whether or not it had a batch left."""
        self.of_sampler[id(iterator._index_sampler)] += 1
        if self._last is None or self._last() is not iterator:
            self._last, self._yielded_before = ref(iterator), 0

    def got(self, iterator: Any, batch: object) -> None:
        """Describe a DataLoader at its first batch."""
        sampler = iterator._index_sampler
        if id(sampler) not in self._loaders or self._loaders[id(sampler)][0]() is None:
            loader = MadeLoader(
                num_workers=iterator._num_workers,
                persistent_workers=iterator._persistent_workers,
                prefetch_factor=getattr(iterator, "_prefetch_factor", None),
                yields_tensors=has_tensor(batch),
            )
            self._loaders = {key: known for key, known in self._loaders.items() if known[0]() is not None}
            with suppress(TypeError):  # a list of batches can have no weak reference
                self._loaders[id(sampler)] = ref(sampler), loader

    def described(self, before: Counter[int]) -> Made:
        """Return the DataLoaders that still exist, with their draws since `before`."""
        loaders = ((key, loader) for key, (sampler, loader) in self._loaders.items() if sampler() is not None)
        since = self.of_sampler - before
        return Made(tuple(replace(loader, drawn=since[key]) for key, loader in loaders), len(os.sched_getaffinity(0)))

    def end(self, iterator: Any) -> None:
        """Note that this iterator had no batch left: a program that goes on has several epochs."""
        self._ended.add(id(iterator._index_sampler))

    @property
    def _iterator(self) -> Any:
        return self._last() if self._last else None

    def stand_still(self) -> None:
        """Note a pause in which the program draws nothing, so that its workers fill their queues."""
        iterator = self._iterator
        if iterator is not None:
            self._yielded_before = iterator._num_yielded

    @property
    def is_filling(self) -> bool:
        """Whether workers may have made the last batch in advance, at the start or in a long pause."""
        iterator = self._iterator
        if iterator is None or not iterator._num_workers:
            return False
        yielded = iterator._num_yielded
        before = self._yielded_before if self._yielded_before <= yielded else 0  # a kept iterator begins at 0 again
        return bool(yielded - before <= iterator._num_workers * iterator._prefetch_factor)

    @property
    def left(self) -> int | None:
        """The batches left in the first epoch; None in later epochs, and where that is unknown."""
        iterator = self._iterator
        if iterator is None or id(iterator._index_sampler) in self._ended:
            return None
        with suppress(TypeError, NotImplementedError):  # a data set without a length
            return int(len(iterator) - iterator._num_yielded)
        return None


def has_tensor(batch: Any, depth: int = 0) -> bool:
    """Return whether a batch has a dense tensor in host memory; it looks only into Python's lists, tuples, dicts."""
    kind = type(batch)
    if isinstance(batch, torch.Tensor):
        return kind is torch.Tensor and batch.device.type == "cpu" and batch.layout == torch.strided
    if kind not in (list, tuple, dict) or depth == MAX_BATCH_DEPTH or len(batch) > MAX_BATCH_PARTS:
        return False
    return any(has_tensor(part, depth + 1) for part in (batch.values() if kind is dict else batch))
