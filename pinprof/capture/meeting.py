"""Lets the ranks of a job agree on a common step boundary through a store of torch.distributed, without waiting."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

NOT_HERE = "-"


class Rendezvous:
    """A step boundary at which all ranks do the same thing, after all have asked for it.

    The place of a boundary is the number of steps that the program has made. The first rank at a place decides for all:
    the meeting is there if all ranks have asked, each at an earlier place. Then every rank still has to reach that
    place, and looks for the decision. This works however far apart the hosts of the ranks are, and costs the program
    neither a wait nor a collective. Raises the store's error if the store is gone.
    """

    def __init__(self, store: "Store", name: str, ranks: int) -> None:
        self._store = store
        self._name = name
        self._ranks = ranks
        self._asked = False

    def reached(self, place: int, text: str) -> str | None:
        """Return None if the meeting is not at this place, else the text of the first rank there.

        The first call asks for the meeting.
        """
        self._ask(place)
        held = self.missing() <= 0 and place > self._latest(
            place
        )  # in this order, because the last rank may ask between the two
        decided = self._store.compare_set(f"{self._name}/at/{place}", "", text if held else NOT_HERE).decode()
        return None if decided == NOT_HERE else decided

    def missing(self) -> int:
        """Return how many ranks have not asked; negative after a rank has insisted."""
        return self._ranks - int(self._store.add(f"{self._name}/asked", 0))

    def insist(self) -> None:
        """Hold the meeting without the ranks that have not asked."""
        self._store.add(f"{self._name}/asked", self._ranks)

    def leave(self) -> None:
        """Let the others meet without this rank if it has not asked."""
        self._ask(0)

    def _ask(self, place: int) -> None:
        """Ask for the meeting, once."""
        if self._asked:
            return
        latest = self._latest(place)
        while latest < place:
            latest = int(self._store.compare_set(f"{self._name}/latest", str(latest), str(place)))
        self._store.add(f"{self._name}/asked", 1)  # last, so that a rank that counts all also sees the latest place
        self._asked = True

    def _latest(self, place: int) -> int:
        """Return the latest place where a rank has asked, or this place."""
        return int(self._store.compare_set(f"{self._name}/latest", "", str(place)))
