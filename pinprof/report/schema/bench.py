"""`pinprof bench --json`: fields."""

from typing import get_args

from pinprof.bench.judging import Outcome
from pinprof.bench.results import SCHEMA
from pinprof.report.schema.field import (
    GBPS,
    Record,
    always,
    by_name,
    count,
    flag,
    many,
    maybe,
    ms,
    number,
    one,
    one_of,
    optional,
    text,
    words,
)

FIGURE = Record(
    "bench_figure",
    "One thing that was measured",
    {
        "name": text("what; the same on every machine"),
        "unit": one_of("its unit", ("ms", "GB/s", "%", "times", "wrong", "waits", "calls", "yes")),
        "median": number("the median of the rounds' medians, in this unit"),
        "low": number("the low end of its spread"),
        "high": number("the high end of its spread"),
        "runs": count("runs of all rounds"),
        "size": maybe(count("bytes of a copy, or number of workers, where it was measured at several sizes")),
    },
)
BAR = Record(
    "bar",
    "Something that ran",
    {
        "row": text("`host` for its calls, `stalls` for its waits, or the stream"),
        "name": text("what it is: a call, the cause of a stall, `kernel`, `exposed copy` or `overlapped copy`"),
        "start_ms": ms("its begin, from that of the step"),
        "end_ms": ms("its end"),
    },
)
PICTURE = Record(
    "picture",
    "One step of a case as its trace shows it",
    {
        "case": text("which case"),
        "bars": many("what ran", BAR),
        "why": words("what the report says of its copies"),
        "step_ms": optional(maybe(ms("how long the step is, where the bars are of its beginning alone"))),
    },
)
RESULT = Record(
    "result",
    "What an experiment gave",
    {
        "number": text("`E1` to `E15`"),
        "sizes": by_name("the options it ran with", count("")),
        "figures": many("what was measured", FIGURE),
        "seconds": number("how long it took", "s"),
        "pictures": many("steps of its cases", PICTURE),
        "problem": maybe(words("why figures are absent")),
    },
)
MACHINE = Record(
    "bench_machine",
    "Where it was measured",
    {
        "gpu": text("the GPU"),
        "driver": maybe(text("its driver")),
        "cuda": maybe(text("CUDA's version")),
        "torch": text("torch's version"),
        "python": text("Python's version"),
        "cpu": maybe(text("the CPU")),
        "cores": count("its cores"),
        "pcie_generation": maybe(count("PCIe generation of the link")),
        "pcie_width": maybe(count("lanes of the link")),
    },
)
LINK = Record(
    "link",
    "The link between GPU and host",
    {
        "name": text("what it is"),
        "theoretical": number("what it carries", GBPS),
        "usual": number("what copies usually reach", GBPS),
    },
)
REFUSED = Record(
    "bench_refused",
    "A rate that is not used, as its spread goes beyond what the link carries",
    {
        "number": text("the experiment"),
        "figure": text("the figure's name"),
        "size": maybe(count("at which size, where it was measured at several")),
        "text": words("why, with figures"),
    },
)
VERDICT = Record(
    "bench_verdict",
    "What the figures say of a claim",
    {
        "number": text("the experiment"),
        "claim": words("what a text says"),
        "outcome": one_of("whether it holds here; `unjudged`: no figure of one machine decides", get_args(Outcome)),
        "text": words("why, with figures"),
        "sources": many("who says it", text("")),
        "published": words("the figures that were published"),
        "measured": words("the figures that decide"),
        "differs": words("what the outcome turns on; empty where it is confirmed"),
    },
)
ADVICE = Record(
    "advice",
    "What to do on this machine",
    {
        "name": text("which advice; the same on every machine"),
        "text": words("the advice"),
        "value": maybe(number("its value, for programs")),
        "unit": text("the unit of the value"),
    },
)
BENCH = Record(
    "pinprof.bench",
    "What `pinprof bench --json` writes, and `--machine` reads",
    {
        "machine": one("where it was measured", MACHINE),
        "results": many("by experiment", RESULT),
        "date": text("when"),
        "quick": flag("whether with `--quick`"),
        "pinprof_version": text("what measured it"),
        "schema": always("name and number of this schema", SCHEMA),
        "link": maybe(one("the link; null where it is not known", LINK)),
        "refused": many("rates that are not used", REFUSED),
        "verdicts": many("on each claim", VERDICT),
        "advice": many("what to do", ADVICE),
    },
)
