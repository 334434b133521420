"""How figures judge what the article on pinned memory in data loading says (E8, E9, E14)."""

from pinprof.bench.judging import (
    MOSTLY,
    TWICE,
    Judge,
    Judgement,
    Measured,
    MissingError,
    above,
    against,
    decide,
    lead,
    less,
)
from pinprof.bench.order import SAME, amount, ratios, shown, spread
from pinprof.units import percent

COPIED = tuple(f"{memory}, {how}" for memory in ("pageable", "pinned") for how in ("blocking", "non_blocking"))
"""The ways of a batch to the GPU."""
LONGER = "cost of a pinned copy"
"""By how many milliseconds a step with a pinned, non_blocking copy is longer than the next one without a copy."""
SMALL = "small network, "
"""What begins the names of the steps of a network that computes little for each byte."""
BYTES_PER_MS_AT_1_GBPS = 1e6


def make_or_break(of: Measured) -> Judgement:
    """Judge whether "can": a step takes twice as long the worst way of copying as the best way, somewhere.

    Nowhere is said only if a step was measured that has much to copy and little to compute.
    """
    outcome, said = _doubles(of, "")
    if outcome == "confirmed":
        return Judgement(outcome, said)
    of_small = _doubles(of, SMALL)
    both = f"{said}; {of_small.text}"
    if of_small.outcome == "confirmed":
        return Judgement("confirmed", both)
    return Judgement("refuted" if outcome == of_small.outcome == "refuted" else "depends", both)


def _doubles(of: Measured, network: str) -> Judgement:
    must = of.all(f"{network}{COPIED[0]}", f"{network}{COPIED[-1]}")
    others = (of.maybe(f"{network}{way}") for way in COPIED[1:-1])
    ways = [*must, *(each for each in others if each is not None)]
    worst, best = (choose(ways, key=lambda figure: figure.median) for choose in (max, min))
    said = f"a step takes {against(worst, best)}"
    if (none := of.maybe(f"{network}no copy")) is not None:
        said += f", and {shown(none)} without a copy"
    least, most = ratios(worst, best)
    return decide(said, confirmed=least >= TWICE, refuted=most < TWICE)


def beside(judge: Judge, *names: str) -> Judge:
    """Return what judges as another does, and shows figures that decide nothing with its verdict."""

    def judge_and_show(of: Measured) -> Judgement:
        outcome, said = judge(of)
        shows = [f"{name}: {shown(figure)}" for name in names if (figure := of.maybe(name)) is not None]
        return Judgement(outcome, "; ".join((said, *shows)))

    return judge_and_show


def off_the_path(of: Measured) -> Judgement:
    """Judge by the share of a pinned copy's time by which a step is longer than the next one without a copy.

    The copy's time is the size of a batch, `4 * rows * features` bytes, at the rate that the trace of the case shows.
    """
    longer, rate = of.all(LONGER, "rate, pinned, non_blocking")
    sizes = of.sizes("rows", "features")
    if rate.low <= 0:
        raise MissingError(rate.name)
    longest, middle, shortest = (
        4 * sizes["rows"] * sizes["features"] / each / BYTES_PER_MS_AT_1_GBPS
        for each in (rate.low, rate.median, rate.high)
    )
    least = longer.low / (longest if longer.low > 0 else shortest)
    most = longer.high / (shortest if longer.high > 0 else longest)
    said = (
        f"in turn, a step with a pinned non_blocking copy is {amount('ms', abs(longer.median))} "
        f"{'shorter' if longer.median < 0 else 'longer'} than one without a copy; the copy itself takes "
        f"{amount('ms', middle)}"
    )
    if longer.median > 0:
        said += f": {percent(longer.median / middle)} of it is left in the step"
    return decide(said, confirmed=most < MOSTLY, refuted=least > MOSTLY)


def cost_time(size: str) -> Judge:
    """Judge whether the two .item() make a step longer: by steps in turn, which a noisy host slows alike.

    They do if in every round they cost more than two runs of a program differ by, and do not if in none.
    """
    fast, slow = f"without .item(){size}", f"as written{size}"

    def judge(of: Measured) -> Judgement:
        outcome, said = less(fast, slow)(of)
        cost = of.maybe(f"cost of .item(){size}")
        if cost is None:
            return Judgement(outcome, said)
        said = (
            f"timed apart, a step takes {shown(of(slow))}, without them {shown(of(fast))}; in turn, so that both meet "
            f"the same noise, {amount('%', abs(cost.median))} {'less' if cost.median < 0 else 'more'} with them"
        )
        return above(cost, 100 * SAME, f"{said} ({spread(cost) or 'one run'})")

    return judge


def undo_the_lead(of: Measured) -> Judgement:
    """Judge for both sizes whether the host is ahead of the GPU without the two .item(), and no more with them."""
    pairs = [of.all(f"ahead, as written{size}", f"ahead, without .item(){size}") for size in ("", ", larger")]
    leads = (f"{lead(each)} ({each.name.removeprefix('ahead, ')})" for pair in pairs for each in pair)
    said = f"the next copy is queued {', '.join(leads)} the GPU has finished the work queued so far"
    return decide(
        said,
        confirmed=all(read.high <= 0 < kept.low for read, kept in pairs),
        refuted=all(read.low > 0 or kept.high <= 0 for read, kept in pairs),
    )
