"""Where all ranks of a job do the same: agreed on through a store of torch.distributed, and nobody waits."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

NOT_HERE = "-"


class Rendezvous:
    """A step boundary at which all ranks do the same, once all have asked for it.

    A boundary is known by its place: how many steps the program has made. The first rank to come to a place decides for
    all: it is the meeting if all have asked, each at an earlier place. So every rank is still to come to it, and will
    look. That holds however far the hosts of the ranks are apart, and costs the program no wait and no collective.
    Raises what the store raises if it is gone.
    """

    def __init__(self, store: "Store", name: str, ranks: int) -> None:
        self._store = store
        self._name = name
        self._ranks = ranks
        self._asked = False

    def reached(self, place: int, text: str) -> str | None:
        """Return None if the meeting is not at this place, else the text of the rank that came first to it.

        The first call asks for the meeting.
        """
        self._ask(place)
        held = self.missing() <= 0 and place > self._latest(place)  # in this order: the last may ask between the two
        decided = self._store.compare_set(f"{self._name}/at/{place}", "", text if held else NOT_HERE).decode()
        return None if decided == NOT_HERE else decided

    def missing(self) -> int:
        """Return how many ranks have not asked; negative once a rank insisted."""
        return self._ranks - int(self._store.add(f"{self._name}/asked", 0))

    def insist(self) -> None:
        """Let the meeting be held without those that have not asked."""
        self._store.add(f"{self._name}/asked", self._ranks)

    def leave(self) -> None:
        """Let the others meet without this rank, if it has not asked."""
        self._ask(0)

    def _ask(self, place: int) -> None:
        """Ask for the meeting, if that is not done."""
        if self._asked:
            return
        latest = self._latest(place)
        while latest < place:
            latest = int(self._store.compare_set(f"{self._name}/latest", str(latest), str(place)))
        self._store.add(f"{self._name}/asked", 1)  # only now: who counts all has to see the latest of all
        self._asked = True

    def _latest(self, place: int) -> int:
        """Return the latest place at which a rank asked; this one, if none did."""
        return int(self._store.compare_set(f"{self._name}/latest", "", str(place)))
