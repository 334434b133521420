"""What more workers of a DataLoader bring: how many there are, and how many there should be."""

from dataclasses import replace
from math import inf
from typing import NamedTuple

from pinprof.details import Details
from pinprof.ground.units import counted
from pinprof.prediction.edits import Edits
from pinprof.replay.bound import Feed
from pinprof.rules.rule import Evidence

MAX_WORKERS_ADVISED = 8
READY_SHARE_OF_STEP = 0.7
"""If workers make a batch in this share of a step, they have batches ready, and the thread that pins is late."""
USUAL_WORKERS = 4
SAFE_WORKERS = (
    "The dataset can be used from several processes, and uses no CUDA in them; an IterableDataset gives each worker "
    "its own part (torch.utils.data.get_worker_info); otherwise every worker delivers all batches. Random numbers "
    "change: each worker has its own. Workers that persist do not see what the main process changes in the dataset "
    "later. If workers are spawned, not forked, the script starts its work under if __name__ == '__main__'."
)


class Workers(NamedTuple):
    """The workers of the only DataLoader from which the steps drew; 0: the process makes the batches itself."""

    now: int
    then: int  # how many the cores have room for; not more than now if the workers already share all cores
    cpus: int


def workers_of(details: Details) -> Workers | None:
    """Return how many there are, and how many there should be; None where the trace does not tell."""
    info = details.trace.info
    if not info.made or not info.made.cpus or len(info.made.drawn) != 1:
        return None
    now, cpus = info.made.drawn[0].num_workers, info.made.cpus
    room = max(1, cpus // max(1, info.world_size or 1)) - 1  # processes share the cores
    wanted = min(room, max(2 * now, USUAL_WORKERS), max(MAX_WORKERS_ADVISED, now))
    return Workers(now, wanted, cpus)


def ready_before_pinning_ns(details: Details, step_ns: float) -> float | None:
    """Return the time between batches of workers alone, by samples of one; None where no thread that pins is late."""
    worker, made = details.trace.info.worker, details.trace.info.made
    if not details.loader.pins or worker is None or not worker.steps or not made or len(made.drawn) != 1:
        return None
    ready_ns = worker.step_ns / (made.drawn[0].num_workers or inf)
    return ready_ns if 0 < ready_ns <= READY_SHARE_OF_STEP * step_ns else None


def how_to_load_faster(details: Details) -> str:
    """Return what a DataLoader with workers lacks, by its recorded settings; nothing where they are not recorded."""
    made, workers = details.trace.info.made, workers_of(details)
    if not made or not made.drawn:
        return ""
    more = "" if workers and workers.then <= workers.now else "more workers (num_workers), "
    persistent = "" if all(loader.persistent_workers for loader in made.drawn) else "persistent_workers=True, "
    advice = f"{more}{persistent}cheaper or earlier preprocessing, larger reads."
    return advice[0].upper() + advice[1:]


def with_workers(evidence: Evidence, details: Details, feed: Feed | None, step_ns: float, why: str = "") -> Evidence:
    """Return evidence with what more workers change: as many as the cores have room for, where that is known."""
    workers, without_input = workers_of(details), Edits(most_input_ns=0.0)
    if workers is None:
        return replace(evidence, text=evidence.text + why, edits=without_input)
    if workers.then <= workers.now:
        shared = counted(workers.now, "worker already shares", "workers already share")
        full = f"its {shared} {counted(workers.cpus, 'core')} with the program"
        if not workers.now:
            full = f"{counted(workers.cpus, 'core leaves', 'cores leave')} no room for a worker"
        return replace(evidence, text=f"{evidence.text}; {full}: make batches cheaper{why}", at_most=without_input)
    if feed is None:
        return replace(evidence, edits=without_input)
    edits = Edits(most_input_ns=feed.received_ns, batch_ns=feed.batch_ns(step_ns, workers.now, workers.then))
    text = f"{evidence.text}; the saving assumes {counted(workers.then, 'worker')} instead of {workers.now or 0}{why}"
    return replace(evidence, text=text, edits=edits)
