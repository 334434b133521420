from pinprof.rules.copies import search_exposed
from pinprof.rules.rule import Rule

RULE = Rule(
    id="PIN301",
    title="copies on the stream of the kernels",
    short="copy on a stream",
    answers=("copy",),
    what_if="--overlap-copies",
    numbers="equal",
    why="Work on one stream runs one after the other: a copy on the stream of the kernels never overlaps them.",
    fix="Copy the next batch on a side stream while this step computes.",
    before="for batch in batches:\n"
    "    batch = batch.to(device, non_blocking=True)  # on the stream of the kernels\n"
    "    train(batch)",
    code="side = torch.cuda.Stream()  # once\n"
    "coming = iter(batches)\n\n"
    "def fetch():\n"
    "    batch = next(coming, None)  # pinned\n"
    "    with torch.cuda.stream(side):\n"
    "        return None if batch is None else batch.to(device, non_blocking=True)\n\n"
    "following = fetch()\n"
    "while following is not None:\n"
    "    torch.cuda.current_stream().wait_stream(side)\n"
    "    batch = following\n"
    "    batch.record_stream(torch.cuda.current_stream())\n"
    "    following = fetch()  # overlaps the kernels of this step\n"
    "    train(batch)",
    safe_if="The batch is pinned; the compute stream waits for the side stream before it uses the batch; "
    "record_stream keeps its memory until the kernels are done. Nothing writes to a batch on the host afterwards. GPU "
    "memory suffices for one more batch, and one for each step that the host is ahead.",
    near_miss="with torch.cuda.stream(side):\n    batch = host.to(device, non_blocking=True)  # on a stream of its own",
    search=search_exposed("same_stream"),
    exposures=(("same_stream", "HtoD"),),
)
