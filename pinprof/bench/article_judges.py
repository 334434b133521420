"""Judges of the claims on training loops (E8, E9, E10, E14)."""

from pinprof.bench.figures import SAME, amount, lead, order, ratios, shown, spread
from pinprof.bench.judging import (
    BARELY,
    HIDDEN,
    MOSTLY,
    TWICE,
    ClaimJudgement,
    Judge,
    Measured,
    MissingError,
    above,
    against,
    decide,
    hidden,
    less,
)
from pinprof.bench.results import Figure
from pinprof.units import counted, percent

COPIED = tuple(f"{memory}, {how}" for memory in ("pageable", "pinned") for how in ("blocking", "non_blocking"))
"""The ways to copy a batch to the GPU."""
LONGER = "cost of a pinned copy"
"""A figure: by how many ms a step with a pinned, non_blocking copy is longer than the next step without a copy."""
SMALL = "small network, "
"""The beginning of the names of steps of a network that computes little for each byte."""
BYTES_PER_MS_AT_1_GBPS = 1e6


def make_or_break(measured: Measured) -> ClaimJudgement:
    """Judge whether the way of copying "can" double a step: in some case the worst way takes twice as long as the best.

    The claim is refuted only if a step was measured that has much to copy and little to compute.
    """
    outcome, why = _doubles(measured, "")
    if outcome == "confirmed":
        return ClaimJudgement(outcome, why)
    of_small = _doubles(measured, SMALL)
    both = f"{why}; {of_small.text}"
    if of_small.outcome == "confirmed":
        return ClaimJudgement("confirmed", both)
    return ClaimJudgement("refuted" if outcome == of_small.outcome == "refuted" else "depends", both)


def _doubles(measured: Measured, network: str) -> ClaimJudgement:
    must = measured.all(f"{network}{COPIED[0]}", f"{network}{COPIED[-1]}")
    others = (measured.maybe(f"{network}{way}") for way in COPIED[1:-1])
    ways = [*must, *(way for way in others if way is not None)]
    worst, best = (choose(ways, key=lambda figure: figure.median) for choose in (max, min))
    why = f"a step takes {against(worst, best)}"
    if (none := measured.maybe(f"{network}no copy")) is not None:
        why += f", and {shown(none)} without a copy"
    least, most = ratios(worst, best)
    return decide(why, confirmed=least >= TWICE, refuted=most < TWICE)


def shown_with(judge: Judge, *names: str) -> Judge:
    """Return a judge that also shows these figures with the verdict of another judge; they do not affect it."""

    def judge_and_show(measured: Measured) -> ClaimJudgement:
        outcome, why = judge(measured)
        shows = [f"{name}: {shown(figure)}" for name in names if (figure := measured.maybe(name)) is not None]
        return ClaimJudgement(outcome, "; ".join((why, *shows)))

    return judge_and_show


def off_the_path(measured: Measured) -> ClaimJudgement:
    """Judge by how much longer a step with a pinned copy is than the next step without one, as a share of the copy.

    The copy's time is the size of a batch, `4 * rows * features` bytes, at the rate that the trace of the case shows.
    """
    longer, rate = measured.all(LONGER, "rate, pinned, non_blocking")
    sizes = measured.sizes("rows", "features")
    if rate.low <= 0:
        raise MissingError(rate.name)
    longest, middle, shortest = (
        4 * sizes["rows"] * sizes["features"] / gbps / BYTES_PER_MS_AT_1_GBPS
        for gbps in (rate.low, rate.median, rate.high)
    )
    least = longer.low / (longest if longer.low > 0 else shortest)
    most = longer.high / (shortest if longer.high > 0 else longest)
    why = (
        f"in turn, a step with a pinned non_blocking copy is {amount('ms', abs(longer.median))} "
        f"{'shorter' if longer.median < 0 else 'longer'} than one without a copy; the copy itself takes "
        f"{amount('ms', middle)}"
    )
    if longer.median > 0:
        why += f": {percent(longer.median / middle)} of it is left in the step"
    return decide(why, confirmed=most < MOSTLY, refuted=least > MOSTLY)


def cost_time(size: str) -> Judge:
    """Judge the claim that the two .item() make a step longer, by steps in turn, which meet the same noise.

    It is confirmed if in every round they cost more than two runs of a program differ by, and refuted if in none.
    """
    fast, slow = f"without .item(){size}", f"as written{size}"

    def judge(measured: Measured) -> ClaimJudgement:
        outcome, why = less(fast, slow)(measured)
        cost = measured.maybe(f"cost of .item(){size}")
        if cost is None:
            return ClaimJudgement(outcome, why)
        longer = f"{amount('%', abs(cost.median))} {'less' if cost.median < 0 else 'more'}"
        why = (
            f"timed apart, a step takes {shown(measured(slow))}, without them {shown(measured(fast))}; in turn, so "
            f"that both meet the same noise, {longer} with them"
        )
        return above(cost, 100 * SAME, f"{why} ({spread(cost) or 'one run'})")

    return judge


def undo_the_lead(measured: Measured) -> ClaimJudgement:
    """Judge for both sizes whether the host is ahead of the GPU without the two .item(), and is not with them."""
    pairs = [measured.all(f"ahead, as written{size}", f"ahead, without .item(){size}") for size in ("", ", larger")]
    leads = (f"{lead(ahead)} ({ahead.name.removeprefix('ahead, ')})" for pair in pairs for ahead in pair)
    why = f"the next copy is queued {', '.join(leads)} the GPU has finished the work queued so far"
    return decide(
        why,
        confirmed=all(read.high <= 0 < kept.low for read, kept in pairs),
        refuted=all(read.low > 0 or kept.high <= 0 for read, kept in pairs),
    )


def waits_for_the_output(measured: Measured) -> ClaimJudgement:
    """Judge whether the host queues the next copy only when the output is computed: by the lead over the GPU."""
    ahead = measured("ahead, plain loop")
    why = f"the next copy is queued {lead(ahead)} the GPU has finished the work queued so far"
    return decide(why, confirmed=ahead.high <= 0, refuted=ahead.low > 0)


PAGEABLE = ("overlapped, prefetcher, pageable", "overlapped, prefetcher, pageable, kernels first")
"""The shares of pageable copies that are asked for before the kernels of a step are launched, and after."""


def needs_pinned(measured: Measured) -> ClaimJudgement:
    """Judge by pageable copies on a side stream, asked for before the kernels of a step and after them."""
    pinned, before, after = measured.all("overlapped, prefetcher", *PAGEABLE)
    why = (
        f"of copies on a side stream are under kernels: {shown(pinned)} of pinned ones; of pageable ones "
        f"{shown(before)} if the copy is asked for before the kernels are launched, {shown(after)} if after"
    )
    return _needed(why, pinned, before, after)


def needs_non_blocking(measured: Measured) -> ClaimJudgement:
    """Judge by blocking copies on a side stream, from pinned memory, asked for after the kernels of a step."""
    asynchronous, blocking = measured.all("overlapped, prefetcher", "overlapped, prefetcher, blocking")
    waits = measured.maybe("waits, prefetcher, blocking")
    why = (
        f"of pinned copies on a side stream are under kernels: {shown(asynchronous)} of non_blocking ones, "
        f"{shown(blocking)} of blocking ones"
    )
    why += f", for which the host waits {counted(waits.median, 'time')} in a step" if waits else ""
    return _needed(why, asynchronous, blocking)


def _needed(why: str, whole: Figure, *lacking: Figure) -> ClaimJudgement:
    """Judge a requirement by the share under kernels: with all that the text requires, and with one thing missing."""
    return decide(
        why,
        confirmed=whole.low >= HIDDEN and all(share.high <= BARELY for share in lacking),
        refuted=any(share.low >= HIDDEN for share in lacking),
    )


def prefetched(measured: Measured) -> ClaimJudgement:
    """Judge whether a prefetcher hides the copies and makes the step shorter."""
    outcome, why = hidden("overlapped, prefetcher")(measured)
    plain, ahead = measured("plain loop"), measured("prefetcher")
    if outcome == "confirmed" and order(ahead, plain) != "less":
        outcome = "depends"
    return ClaimJudgement(outcome, f"{why}; {against(ahead, plain)}")
