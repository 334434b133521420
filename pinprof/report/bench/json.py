"""`pinprof bench --json`: the results of a machine, the verdicts on claims, and advice."""

from collections.abc import Sequence
from typing import Annotated

from pinprof.bench.advice import Advice, advice
from pinprof.bench.catalogue import ClaimVerdict, verdicts
from pinprof.bench.figures import Refused, refused
from pinprof.bench.results import Bench, by_line
from pinprof.document import doc, filled
from pinprof.pci_express import Link


class BenchDocument(Bench, frozen=True, kw_only=True, tag_field="schema", tag="pinprof.bench/1"):
    """What `pinprof bench --json` writes, and `--machine` reads."""

    link: Annotated[Link | None, doc("the link; null where it is not known")]
    refused: Annotated[Sequence[Refused], doc("rates that are not used")]
    verdicts: Annotated[Sequence[ClaimVerdict], doc("on each claim")]
    advice: Annotated[Sequence[Advice], doc("what to do")]


def bench_to_json(bench: Bench) -> str:
    """Return the bench as JSON text that `results.from_json` reads again."""
    of_bench = {"refused": refused(bench), "verdicts": verdicts(bench), "advice": advice(bench)}
    return by_line(filled(BenchDocument, bench, link=bench.machine.link, **of_bench)) + "\n"
