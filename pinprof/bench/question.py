"""E10: what a question on prefetching believes, and what is answered."""

from pinprof.bench.experiment import ANSWER, ARTICLE, OURS, QUESTION, Claim, Experiment, Size
from pinprof.bench.judging import (
    BARELY,
    HIDDEN,
    Judgement,
    Measured,
    against,
    answers,
    decide,
    exposed,
    hidden,
    lead,
    never_waits,
    waits,
)
from pinprof.bench.order import order, shown
from pinprof.bench.results import Figure
from pinprof.units import counted

STREAM_ORDER = "what is on one stream runs in turn, whether the host waits or not"


def _waits_for_the_output(of: Measured) -> Judgement:
    """Judge whether the host queues the next copy only when the output is computed: by how far it is ahead of it."""
    ahead = of("ahead, plain loop")
    said = f"the next copy is queued {lead(ahead)} the GPU has finished the work queued so far"
    return decide(said, confirmed=ahead.high <= 0, refuted=ahead.low > 0)


PAGEABLE = ("overlapped, prefetcher, pageable", "overlapped, prefetcher, pageable, kernels first")
"""The shares of pageable copies that are asked for before the kernels of a step are launched, and after."""


def _needs_pinned(of: Measured) -> Judgement:
    """Judge by pageable copies on a side stream, asked for before the kernels of a step and after them."""
    pinned, before, after = of.all("overlapped, prefetcher", *PAGEABLE)
    said = (
        f"of copies on a side stream are under kernels: {shown(pinned)} of pinned ones; of pageable ones "
        f"{shown(before)} if the copy is asked for before the kernels are launched, {shown(after)} if after"
    )
    return _needed(said, pinned, before, after)


def _needs_non_blocking(of: Measured) -> Judgement:
    """Judge by blocking copies on a side stream, from pinned memory, asked for after the kernels of a step."""
    asynchronous, blocking = of.all("overlapped, prefetcher", "overlapped, prefetcher, blocking")
    waits = of.maybe("waits, prefetcher, blocking")
    said = (
        f"of pinned copies on a side stream are under kernels: {shown(asynchronous)} of non_blocking ones, "
        f"{shown(blocking)} of blocking ones"
    )
    said += f", for which the host waits {counted(waits.median, 'time')} in a step" if waits else ""
    return _needed(said, asynchronous, blocking)


def _needed(said: str, whole: Figure, *lacking: Figure) -> Judgement:
    """Judge a need by the share that kernels hide, with all that is said to be needed and where one thing lacks."""
    return decide(
        said,
        confirmed=whole.low >= HIDDEN and all(share.high <= BARELY for share in lacking),
        refuted=any(share.low >= HIDDEN for share in lacking),
    )


def _prefetched(of: Measured) -> Judgement:
    outcome, said = hidden("overlapped, prefetcher")(of)
    plain, ahead = of("plain loop"), of("prefetcher")
    if outcome == "confirmed" and order(ahead, plain) != "less":
        outcome = "depends"
    return Judgement(outcome, f"{said}; {against(ahead, plain)}")


QUESTIONS = (
    Experiment(
        "E10",
        "prefetching",
        "the plain loop with non_blocking=True against a prefetcher that copies the next batch on a side stream",
        (
            Claim(
                "To overlap, copies must be from pinned memory",
                (QUESTION, ANSWER),
                _needs_pinned,
                differs="the call of a pageable copy holds the host: only kernels that were launched before it can run "
                "beside the copy",
            ),
            Claim(
                "To overlap, copies must be non_blocking",
                (QUESTION, ANSWER),
                _needs_non_blocking,
                differs="a blocking copy holds the host, but runs beside kernels that were launched before it; what "
                "the copy does need is a side stream, which the plain loop lacks",
            ),
            Claim(
                "The images are fully transferred before the kernels of model(images) run",
                (QUESTION,),
                answers({"ended before the next kernel, plain loop": True}),
                differs="a kernel that is on another stream than the copy may begin before it has ended",
            ),
            Claim(
                "model(images) is a synchronization point: the host waits until the batch is on the GPU",
                (QUESTION,),
                waits("waits, plain loop"),
                differs="the kernels wait on the stream behind the copy; the host does not",
            ),
            Claim(
                "The next batch's copy is not requested before the output is computed",
                (QUESTION,),
                _waits_for_the_output,
                differs="the host launches and goes on: it runs ahead of the GPU",
            ),
            Claim(
                "So the plain loop does not prefetch: no copy runs beside the kernels of the batch before",
                (QUESTION,),
                exposed("overlapped, plain loop"),
                differs=STREAM_ORDER,
            ),
            Claim("model(images) is no synchronization point", (ANSWER,), never_waits("waits, plain loop")),
            Claim(
                "Copies and computation are handled by different parts of the GPU",
                (ANSWER,),
                hidden("overlapped, prefetcher"),
                differs="both run at once only on streams of their own",
            ),
            Claim(
                "Pinned memory and non_blocking can be used to overlap transfers with computation",
                (ARTICLE, ANSWER),
                hidden("overlapped, prefetcher"),
                differs="they can, from a side stream: it depends on what else the GPU has to do",
            ),
            Claim(
                "A prefetcher on a side stream hides the copy and makes the step shorter",
                (OURS,),
                _prefetched,
                differs="it depends on how long the copy is beside the step",
            ),
        ),
        sizes=(
            Size("rows", 4096, "samples in a batch", of_text=False),
            Size("features", 3072, "numbers of 4 bytes in a sample", of_text=False),
        ),
        cases=(
            "plain loop",
            "prefetcher",
            "prefetcher, pageable",
            "prefetcher, pageable, kernels first",
            "prefetcher, blocking",
            "no copy",
        ),
        changed="the question shows the loop of PyTorch's ImageNet example; here it trains a small network, on batches "
        "that are made beforehand. The prefetchers are ours",
    ),
)
