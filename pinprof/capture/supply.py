"""Tells how many batches a DataLoader still has: a program that trains for one epoch ends with them."""

from collections import Counter
from contextlib import suppress
from typing import Any
from weakref import ReferenceType, ref


class Supply:
    """The DataLoader from which the program drew last."""

    def __init__(self) -> None:
        self.drawn = 0
        self.of_sampler: Counter[int] = Counter()
        """Draws by the identity of the sampler, which a DataLoader shares with its iterators."""
        self._last: ReferenceType[Any] | None = None
        self._ended: set[int] = set()

    def drew(self, iterator: Any) -> None:
        """Note that the program drew from this iterator of a DataLoader."""
        self.drawn += 1
        self.of_sampler[id(iterator._index_sampler)] += 1  # noqa: SLF001
        if self._last is None or self._last() is not iterator:
            self._last = ref(iterator)

    def end(self, iterator: Any) -> None:
        """Note that this iterator had no batch left: whoever goes on after it goes on for longer."""
        self._ended.add(id(iterator._index_sampler))  # noqa: SLF001  which the iterators of a DataLoader share

    @property
    def left(self) -> int | None:
        """The batches left in the first epoch; None in a later one, and where nobody knows."""
        iterator = self._last() if self._last else None
        if iterator is None or id(iterator._index_sampler) in self._ended:  # noqa: SLF001
            return None
        with suppress(TypeError, NotImplementedError):  # a data set without a length
            return int(len(iterator) - iterator._num_yielded)  # noqa: SLF001
        return None
