"""What a replay needs of the bench of a machine."""

from pinprof.bench.order import by_size
from pinprof.bench.results import Bench, BenchError, Result
from pinprof.whatif.rates import PinnedRates, Rates


def pinned_rates(bench: Bench) -> PinnedRates:
    """Return the rates of pinned copies by direction and size (E13). Raises BenchError if there are none."""
    htod, dtoh = (_rates(bench.result("E13"), f"{way} pinned") for way in ("HtoD", "DtoH"))
    if not htod and not dtoh:
        raise BenchError("has no rates of pinned copies; measure them with: pinprof bench --only E13 --json FILE")
    return PinnedRates(bench.machine.gpu, htod, dtoh)


def _rates(result: Result | None, name: str) -> Rates:
    figures = by_size(result, name) if result else ()
    return tuple(
        (figure.size, figure.median) for figure in figures if figure.size and min(figure.size, figure.median) > 0
    )
