"""`pinprof bench --json`: what was measured on a machine, with what it says of each claim and to do."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import UNSET, UnsetType, convert

from pinprof.bench.advice import advice
from pinprof.bench.judging import Outcome
from pinprof.bench.refused import refused
from pinprof.bench.results import Bench, by_line
from pinprof.bench.verdicts import verdicts
from pinprof.documents.fields import Count, Document, Gbps, Ms, Seconds, Words, doc, one_of


class BenchFigure(Document):
    """One thing that was measured."""

    name: Annotated[str, doc("what; the same on every machine")]
    unit: Annotated[str, one_of(("ms", "GB/s", "%", "times", "wrong", "waits", "calls", "yes")), doc("its unit")]
    median: Annotated[float, doc("the median of the rounds' medians, in this unit")]
    low: Annotated[float, doc("the low end of its spread")]
    high: Annotated[float, doc("the high end of its spread")]
    runs: Annotated[Count, doc("runs of all rounds")]
    size: Annotated[Count | None, doc("bytes of a copy, or number of workers, where it was measured at several sizes")]


class Bar(Document):
    """Something that ran."""

    row: Annotated[str, doc("`host` for its calls, `stalls` for its waits, or the stream")]
    name: Annotated[str, doc("what it is: a call, the cause of a stall, `kernel`, `exposed copy` or `overlapped copy`")]
    start_ms: Annotated[Ms, doc("its begin, from that of the step")]
    end_ms: Annotated[Ms, doc("its end")]


class Picture(Document):
    """One step of a case as its trace shows it."""

    case: Annotated[str, doc("which case")]
    bars: Annotated[Sequence[Bar], doc("what ran")]
    why: Annotated[Words, doc("what the report says of its copies")]
    step_ms: Annotated[
        Ms | UnsetType | None, doc("how long the step is, where the bars are of its beginning alone")
    ] = UNSET


class Result(Document):
    """What an experiment gave."""

    number: Annotated[str, doc("`E1` to `E15`")]
    sizes: Annotated[Mapping[str, Count], doc("the options it ran with")]
    figures: Annotated[Sequence[BenchFigure], doc("what was measured")]
    seconds: Annotated[Seconds, doc("how long it took")]
    pictures: Annotated[Sequence[Picture], doc("steps of its cases")]
    problem: Annotated[Words | None, doc("why figures are absent")]


class BenchMachine(Document):
    """Where it was measured."""

    gpu: Annotated[str, doc("the GPU")]
    driver: Annotated[str | None, doc("its driver")]
    cuda: Annotated[str | None, doc("CUDA's version")]
    torch: Annotated[str, doc("torch's version")]
    python: Annotated[str, doc("Python's version")]
    cpu: Annotated[str | None, doc("the CPU")]
    cores: Annotated[Count, doc("its cores")]
    pcie_generation: Annotated[Count | None, doc("PCIe generation of the link")]
    pcie_width: Annotated[Count | None, doc("lanes of the link")]


class Link(Document):
    """The link between GPU and host."""

    name: Annotated[str, doc("what it is")]
    theoretical: Annotated[Gbps, doc("what it carries")]
    usual: Annotated[Gbps, doc("what copies usually reach")]


class BenchRefused(Document):
    """A rate that is not used, as its spread goes beyond what the link carries."""

    number: Annotated[str, doc("the experiment")]
    figure: Annotated[str, doc("the figure's name")]
    size: Annotated[Count | None, doc("at which size, where it was measured at several")]
    text: Annotated[Words, doc("why, with figures")]


class BenchVerdict(Document):
    """What the figures say of a claim."""

    number: Annotated[str, doc("the experiment")]
    claim: Annotated[Words, doc("what a text says")]
    outcome: Annotated[Outcome, doc("whether it holds here; `unjudged`: no figure of one machine decides")]
    text: Annotated[Words, doc("why, with figures")]
    sources: Annotated[Sequence[str], doc("who says it")]
    published: Annotated[Words, doc("the figures that were published")]
    measured: Annotated[Words, doc("the figures that decide")]
    differs: Annotated[Words, doc("what the outcome turns on; empty where it is confirmed")]


class Advice(Document):
    """What to do on this machine."""

    name: Annotated[str, doc("which advice; the same on every machine")]
    text: Annotated[Words, doc("the advice")]
    value: Annotated[float | None, doc("its value, for programs")]
    unit: Annotated[str, doc("the unit of the value")]


class BenchDocument(Document, kw_only=True):
    """What `pinprof bench --json` writes, and `--machine` reads."""

    machine: Annotated[BenchMachine, doc("where it was measured")]
    results: Annotated[Sequence[Result], doc("by experiment")]
    date: Annotated[str, doc("when")]
    quick: Annotated[bool, doc("whether with `--quick`")]
    pinprof_version: Annotated[str, doc("what measured it")]
    schema: Annotated[Literal["pinprof.bench/1"], doc("name and number of this schema")] = "pinprof.bench/1"
    link: Annotated[Link | None, doc("the link; null where it is not known")]
    refused: Annotated[Sequence[BenchRefused], doc("rates that are not used")]
    verdicts: Annotated[Sequence[BenchVerdict], doc("on each claim")]
    advice: Annotated[Sequence[Advice], doc("what to do")]


def to_json(bench: Bench) -> str:
    """Return the bench as JSON text that `results.from_json` reads again."""
    link = bench.machine.link
    document = BenchDocument(
        machine=convert(bench.machine, BenchMachine, from_attributes=True),
        results=convert(bench.results, Sequence[Result], from_attributes=True),
        date=bench.date,
        quick=bench.quick,
        pinprof_version=bench.pinprof_version,
        link=Link(*link) if link else None,
        refused=[BenchRefused(**vars(rate)) for rate in refused(bench)],
        verdicts=[BenchVerdict(**vars(verdict)) for verdict in verdicts(bench)],
        advice=[Advice(**vars(piece)) for piece in advice(bench)],
    )
    return by_line(document) + "\n"
