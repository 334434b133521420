"""The ranks of a distributed job: which one this process is, and how they agree when to begin and to stop."""

import json
import os
import platform
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from pinprof.capture.options import WARM_UP_S, Progress
from pinprof.ground.host_time import HOST_TIME

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store


class Rank(NamedTuple):
    """One process of a job of `world_size`."""

    rank: int
    world_size: int


RANK_VARIABLES = ("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")
"""The environment variables of torchrun, and of mpirun in Open MPI and MPICH."""


def rank_of_process() -> Rank | None:
    """Return the rank of this process: in its process group, else from the variables of its launcher; None without."""
    return rank_in_group() or rank_in(os.environ)


def rank_in(environment: Mapping[str, str]) -> Rank | None:
    """Return the rank that the variables of a launcher give; None without them."""
    for rank, size in RANK_VARIABLES:
        with suppress(KeyError, ValueError):
            return Rank(int(environment[rank]), int(environment[size]))
    return None


def rank_in_group() -> Rank | None:
    """Return the rank in the default process group; None as long as there is none. It does not import torch."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return Rank(distributed.get_rank(), distributed.get_world_size())


def path_of_rank(path: Path, rank: int | str) -> Path:
    """Return the path of a rank's own trace: out.json.gz becomes out.rank3.json.gz; "*" stands for all ranks."""
    return _with_name(path, f"rank{rank}")


def path_of_child(path: Path, number: int) -> Path:
    """Return the path of the trace of a child without a rank: out.json.gz becomes out.child3.json.gz."""
    return _with_name(path, f"child{number}")


def _with_name(path: Path, name: str) -> Path:
    stem, dot, suffixes = path.name.partition(".json")
    return path.with_name(f"{stem}.{name}{dot}{suffixes}")


def leave_job() -> None:
    """Leave the process group that a stopped script left open, which can hang the interpreter's exit."""
    from torch import distributed  # noqa: PLC0415

    if distributed.is_available() and distributed.is_initialized():
        with suppress(RuntimeError, ValueError):
            distributed.destroy_process_group()


NO_MEETING_HERE = "-"
"""Stands in the store for the decision that the meeting is not at this step boundary."""


class Rendezvous:
    """A meeting of all ranks: a step boundary at which they do the same thing, after all have asked for it.

    A boundary is known by the number of steps that the program has made. The first rank at a boundary decides for all:
    the meeting is there if all ranks have asked at earlier ones. Every other rank finds the decision when it comes
    there. The ranks may be at different steps, and the program neither waits nor makes a collective.
    Raises the store's error if the store is gone.
    """

    def __init__(self, store: "Store", name: str, ranks: int) -> None:
        self._store = store
        self._name = name
        self._ranks = ranks
        self._asked = False

    def reached(self, step: int, text: str) -> str | None:
        """Return None if the meeting is not after this step, otherwise the text of the first rank there.

        The first call asks for the meeting.
        """
        self._ask(step)
        have_all_asked = self.missing() <= 0  # before `_latest`, because the last rank may ask in between
        is_here = have_all_asked and step > self._latest(step)
        decided = self._store.compare_set(f"{self._name}/at/{step}", "", text if is_here else NO_MEETING_HERE).decode()
        return None if decided == NO_MEETING_HERE else decided

    def missing(self) -> int:
        """Return how many ranks have not asked; negative once a rank has insisted."""
        return self._ranks - int(self._store.add(f"{self._name}/asked", 0))

    def insist(self) -> None:
        """Hold the meeting without the ranks that have not asked."""
        self._store.add(f"{self._name}/asked", self._ranks)

    def leave(self) -> None:
        """Let the others meet without this rank if it has not asked."""
        self._ask(0)

    def _ask(self, step: int) -> None:
        """Ask for the meeting, once."""
        if self._asked:
            return
        latest = self._latest(step)
        while latest < step:
            latest = int(self._store.compare_set(f"{self._name}/latest", str(latest), str(step)))
        self._store.add(f"{self._name}/asked", 1)  # last: whoever counts all ranks must also see the latest step
        self._asked = True

    def _latest(self, step: int) -> int:
        """Return the latest step at which a rank has asked, or this step."""
        return int(self._store.compare_set(f"{self._name}/latest", "", str(step)))


STORE_ERRORS = RuntimeError, ValueError
"""The errors of a store of torch.distributed that does not answer."""
STORE_CONNECT_S = 10.0
"""How long to try to connect to the store."""
TRACE_POLL_S = 0.05
"""How often to look whether the other ranks have written their traces."""
NO_STORE = "the ranks share no store of torch.distributed, so only their step counts align them"
MAX_STEPS_FOR_RANKS = 100
"""How many steps to wait for the other ranks at most: as many as a warm-up takes."""
BEGIN_MEETING, END_MEETING = "begin", "end"
"""The meetings of the ranks: where their windows begin, and where they stop."""
Connect = Callable[[], "Store | None"]
Answer = TypeVar("Answer")


class WrittenTrace(NamedTuple):
    """Where a rank has written its trace: the machine, the path (empty without a trace), and the bytes."""

    machine: str
    path: str
    size: int

    @property
    def is_here(self) -> bool:
        """Whether this machine can read the file; a file of another size is of an earlier run."""
        with suppress(OSError):
            return bool(self.path) and Path(self.path).stat().st_size == self.size
        return False


class Agreement:
    """The agreement of this rank with the others, through the job's own store.

    The rank uses the store in the warm-up and after the windows, never within them. `why_apart` says why the windows of
    the ranks may be on different steps, or is None.
    """

    def __init__(self, rank: Rank, connect: Connect) -> None:
        self.rank, self.ranks = rank
        self.why_apart: str | None = None
        self._connect = connect
        self._lost = False

    @property
    def in_contact(self) -> bool:
        """Whether the other ranks can be reached; the first question connects to the store."""
        return self._store is not None and not self._lost

    def begin(
        self,
        steps_made: Callable[[], int],
        text: str,
        fewest_steps: int,
        max_steps: int = MAX_STEPS_FOR_RANKS,
        max_seconds: float = WARM_UP_S,
    ) -> Generator[Progress, None, str]:
        """Wait at every step boundary until all ranks begin; return the text of the rank that decided.

        `steps_made` counts the steps of the program. The wait for other ranks may take `max_steps`, or `max_seconds`
        and the `fewest_steps`.
        """
        steps, start = 0, HOST_TIME.monotonic()
        while (decided := self._reached(BEGIN_MEETING, steps_made(), text)) is None:
            is_late = steps >= fewest_steps and HOST_TIME.monotonic() - start >= max_seconds
            if is_late or steps >= max_steps:
                self._ask(BEGIN_MEETING, Rendezvous.insist, alone=None)
            steps += 1
            yield Progress("ranks", steps, max_steps)
        if self._ask(BEGIN_MEETING, Rendezvous.missing, alone=0) < 0:
            self.why_apart = "not all ranks were ready for the windows in time"
        return decided

    def ends(self, step: int) -> bool:
        """Return whether all ranks stop after this step of the program."""
        return self._reached(END_MEETING, step, "stop") is not None

    def leave(self, path: Path | None) -> None:
        """Tell the other ranks where this one has written its trace, if any, and let them go on without it."""
        for name in (BEGIN_MEETING, END_MEETING):
            self._ask(name, Rendezvous.leave, alone=None)
        written = WrittenTrace(platform.node(), str(path or ""), path.stat().st_size if path else 0)
        with suppress(*STORE_ERRORS):
            if self._store is not None and not self._lost:
                self._store.set(_trace_of(self.rank), json.dumps(written))

    def traces(self, seconds: float, show: Callable[[str], None]) -> dict[int, WrittenTrace]:
        """Return where each rank has written its trace, for all that do so within `seconds`."""
        written: dict[int, WrittenTrace] = {}
        end = HOST_TIME.monotonic() + seconds
        with suppress(*STORE_ERRORS):
            while self._store is not None and not self._lost:
                for rank in range(self.ranks):
                    if rank not in written and self._store.check([_trace_of(rank)]):
                        written[rank] = WrittenTrace(*json.loads(self._store.get(_trace_of(rank))))
                if len(written) == self.ranks or HOST_TIME.monotonic() >= end:
                    break
                show(f"waiting for the traces of all ranks ({len(written)} of {self.ranks} written)")
                HOST_TIME.sleep(TRACE_POLL_S)
        return written

    @cached_property
    def _store(self) -> "Store | None":
        store = self._connect()
        if store is None:
            self.why_apart = NO_STORE
        return store

    @cached_property
    def _meetings(self) -> dict[str, Rendezvous]:
        store = self._store
        return (
            {name: Rendezvous(store, name, self.ranks) for name in (BEGIN_MEETING, END_MEETING)}
            if store is not None
            else {}
        )

    def _reached(self, name: str, step: int, text: str) -> str | None:
        """Return the decision after this step, if any; a rank without contact decides alone."""
        alone: str | None = text
        return self._ask(name, lambda meeting: meeting.reached(step, text), alone=alone)

    def _ask(self, name: str, question: Callable[[Rendezvous], Answer], *, alone: Answer) -> Answer:
        """Return the answer to a question about a meeting, or that of a rank without contact."""
        meeting = self._meetings.get(name)
        if meeting is None or self._lost:
            return alone
        try:
            return question(meeting)
        except STORE_ERRORS as exc:
            self._lost = True
            self.why_apart = f"the store of the job does not answer ({(str(exc).splitlines() or [''])[0]})"
            return alone


def agreement_of_process(inherited: Rank | None = None) -> Agreement | None:
    """Return the agreement of this rank with the others; None in a job of one process.

    A process that helps a rank has the variables of that rank, `inherited`, which do not make it one.
    """
    of_group, of_environment = rank_in_group(), rank_in(os.environ)
    rank = of_group or (of_environment if of_environment != inherited else None)
    if rank is None or rank.world_size == 1:
        return None
    return Agreement(rank, store_of_group if of_group else partial(store_of_job, dict(os.environ)))


def store_of_job(environment: Mapping[str, str]) -> "Store | None":
    """Return the store that all ranks share, with a prefix of pinprof's own; None without one.

    It is a separate connection to the store of torchrun's agent, or else the store of the default process group.
    """
    distributed: Any = import_module("torch.distributed")  # untyped: it defines its classes only on some platforms
    if not distributed.is_available():
        return None
    if environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        with suppress(*STORE_ERRORS, KeyError):
            host, port = environment["MASTER_ADDR"], int(environment["MASTER_PORT"])
            store = distributed.TCPStore(host, port, is_master=False, timeout=timedelta(seconds=STORE_CONNECT_S))
            restarts = environment.get("TORCHELASTIC_RESTART_COUNT", "0")
            return cast("Store", distributed.PrefixStore(f"pinprof/{restarts}", store))
    return store_of_group()


def store_of_group() -> "Store | None":
    """Return the store of the default process group, with a prefix of pinprof's own; None without a group."""
    distributed: Any = import_module("torch.distributed")
    if distributed.is_available() and distributed.is_initialized():
        with suppress(*STORE_ERRORS, AttributeError):  # it has no public name
            default = distributed.distributed_c10d._get_default_store()  # noqa: SLF001
            return cast("Store", distributed.PrefixStore("pinprof", default))
    return None


def _trace_of(rank: int) -> str:
    return f"trace/{rank}"
