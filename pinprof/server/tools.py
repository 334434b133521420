"""The tools: what each is for, what it takes and answers, and the command behind it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from pinprof.document import Document
from pinprof.report.schema import to_schema
from pinprof.server import commands, inputs, outputs
from pinprof.server.bounds import MOST_CHARACTERS
from pinprof.server.folder import Folder

BOUND = f"At most {MOST_CHARACTERS:,} characters; `left_out` counts what had no room."

BRIEF = "At most 7,000 characters; `more_...` counts what had no room, and evidence has all."


@dataclass(frozen=True)
class Tool:
    """A tool."""

    name: str
    title: str
    about: str
    takes: type[Document]
    answers: type[Struct]
    command: Callable[[Folder, commands.Arguments], list[str]] | None = None
    """Returns the words of the command; None for those which run the user's program."""
    shorten_first: tuple[str, ...] = ()
    """Lists of the answer that lose items before others do."""

    @property
    def takes_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return to_schema(self.takes)

    @property
    def answers_schema(self) -> dict[str, Any]:
        """The JSON Schema of the answer."""
        return to_schema(self.answers)


TOOLS = (
    Tool(
        "report",
        "Why is the step slow?",
        "Says why the training step in a PyTorch trace is slow and what to change: the verdict, findings in order with "
        "rule, line, saving by replay with its range, whether the numbers stay, what the trace cannot tell and why, "
        "and the commands to go on with. Call it first. Savings do not add up: `joint` has all together. Null is not "
        f"known, never zero. Ids are for the tool evidence. {BRIEF}",
        inputs.ReportInput,
        outputs.answer_of("report-brief"),
        commands.report,
    ),
    Tool(
        "evidence",
        "The rows behind a finding",
        "Returns what ids of report or compare name in the whole document, and any other JSON Pointer into it: "
        "/traces/0/findings/0 (the fix as code, all places), /traces/0/syncs/sites/0, /traces/0/kernels, "
        f"/traces/0/idle. {BOUND} Ask for fewer ids, an item of a list, or with `skip` to get the rest.",
        inputs.EvidenceInput,
        outputs.EvidenceAnswer,
        commands.evidence,
    ),
    Tool(
        "compare",
        "What changed between two traces?",
        "Compares the trace before a change with the one after it: the step, and the waits, copies and findings that "
        "changed beyond noise. It is no measurement of a saving to rely on: ab is. "
        f"{BRIEF}",
        inputs.CompareInput,
        outputs.answer_of("compare-brief"),
        commands.compare,
    ),
    Tool(
        "whatif",
        "What would a change bring?",
        "Predicts the step after a change of the code by replay of the trace, with a range. Changes can be combined; "
        f"without any, the usual ones are compared in `scenarios`. {BOUND} Name one change to get all of its places.",
        inputs.WhatifInput,
        outputs.answer_of("whatif"),
        commands.whatif,
        ("/changes",),
    ),
    Tool(
        "fix",
        "Diffs that are mechanical and certain",
        "Returns unified diffs for findings whose change is mechanical and certain, each with rule, predicted saving, "
        "whether the numbers stay and when it is safe, and in `refused` why all else is not changed. It writes "
        "nothing: apply the diffs with `git apply` in `root`, in their order. The trace must be a recording of "
        "pinprof run. "
        f"{BOUND} Name `rules` or places (`only`) to get the rest.",
        inputs.FixInput,
        outputs.answer_of("fix"),
        commands.fix,
        ("/refused",),
    ),
    Tool(
        "explain",
        "A rule or a guide in full",
        "Explains a rule (what it looks at, why that costs, the fix as code, when it is safe) or shows a guide. Read "
        f"the guide `skill` first: how to work with pinprof, and what never to claim. At most {MOST_CHARACTERS:,} "
        "characters; `more_lines` counts the rest.",
        inputs.ExplainInput,
        outputs.ExplainAnswer,
        commands.explain,
    ),
    Tool(
        "ab",
        "Is it faster? Two versions measured",
        "Measures two versions of a program of the folder against each other, without a profiler and in turns: faster, "
        "slower, no difference above the limit, or cannot tell, with an interval. It runs the program for up to "
        "`minutes` and the first runs, and only if the server was started with --allow-running. Nothing else should "
        f"use the GPU meanwhile. {BOUND} `pinprof ab --json` in a terminal has all.",
        inputs.AbInput,
        outputs.answer_of("ab"),
        None,
        ("/pairs",),
    ),
    Tool(
        "try",
        "Fix it, measure it, prove it",
        "Makes the changes of fix in a copy of the program, measures it against the original, compares the numbers of "
        "the first steps, looks for races, leaves out what brings nothing. Only the verdict take_it is proven: `git "
        "apply` each `fixes[].diff` in `root`; it writes nothing. It runs the program for minutes, and only if the "
        f"server was started with --allow-running. {BOUND}",
        inputs.TryInput,
        outputs.answer_of("try"),
        None,
        ("/pairs", "/refused"),
    ),
)
