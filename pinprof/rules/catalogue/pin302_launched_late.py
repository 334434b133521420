from pinprof.rules.copies import search_exposed
from pinprof.rules.rule import Rule

RULE = Rule(
    id="PIN302",
    title="copies launched too late",
    short="copy one step ahead",
    answers=("copy",),
    what_if="--overlap-copies",
    numbers="equal",
    why="The copy has a stream of its own, but is launched only when the kernels that it could hide behind have ended.",
    fix="Start the copy of the next batch before the kernels of this step are queued.",
    before="log(train(batch).item())  # the kernels have ended\nfollowing = fetch()       # nothing is left to hide it",
    code="following = fetch()       # first: launches the copy on the side stream\n"
    "log(train(batch).item())  # then: queues the kernels that hide it",
    safe_if="As for PIN301, which defines fetch(): the kernels' stream has waited for the copy of this batch before "
    "the next copy is launched. The copy depends on nothing that train() does.",
    near_miss="following = host.to(device, non_blocking=True)  # while queued kernels run\nlog(x.sum().item())",
    search=search_exposed("launched_late"),
    exposures=(("launched_late", "HtoD"),),
)
