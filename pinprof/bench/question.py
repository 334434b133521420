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
    never_waits,
    waits,
)
from pinprof.bench.order import order, shown

STREAM_ORDER = "what is on one stream runs in turn, whether the host waits or not"


def _waits_for_the_output(of: Measured) -> Judgement:
    """Judge whether the host queues the next copy only when the output is computed: by how far it is ahead of it."""
    ahead = of("ahead, plain loop")
    said = f"the next copy is queued {shown(ahead)} before the GPU ends the step"
    if ahead.low > 0:
        return Judgement("refuted", said)
    return Judgement("confirmed" if ahead.high <= 0 else "depends", said)


def _needs_both(of: Measured) -> Judgement:
    """Judge by copies on a side stream, each of which lacks one of both: it must not be beside kernels."""
    both, pageable, blocking = of.all(
        "overlapped, prefetcher", "overlapped, prefetcher, pageable", "overlapped, prefetcher, blocking"
    )
    waits = of.maybe("waits, prefetcher, blocking")
    said = (
        f"of copies on a side stream are under kernels: {shown(both)} of pinned ones, {shown(pageable)} of pageable "
        f"ones, {shown(blocking)} of pinned blocking ones"
    )
    said += f", for which the host waits {waits.median:g} times in a step" if waits else ""
    needless = [what for what, one in (("pinned memory", pageable), ("non_blocking", blocking)) if one.low >= HIDDEN]
    said += f": {' and '.join(needless)} is not needed" if needless else ""
    return decide(
        said,
        confirmed=both.low >= HIDDEN and max(pageable.high, blocking.high) <= BARELY,
        refuted=bool(needless) or both.high <= BARELY,
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
                "To overlap, copies must be non_blocking and from pinned memory",
                (QUESTION, ANSWER),
                _needs_both,
                differs="a blocking copy holds the host, but runs beside kernels that were launched before it; and "
                "both are not enough: the copy needs a side stream, which the plain loop lacks",
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
                "So in that loop non_blocking copies overlap with computation",
                (ANSWER,),
                hidden("overlapped, plain loop"),
                differs=STREAM_ORDER,
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
        cases=("plain loop", "prefetcher", "prefetcher, pageable", "prefetcher, blocking", "no copy"),
        changed="the question shows the loop of PyTorch's ImageNet example; here it trains a small network, on batches "
        "that are made beforehand. The prefetchers are ours",
    ),
)
