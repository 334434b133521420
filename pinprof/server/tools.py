"""The tools: purpose, arguments, answer and command of each.

Files are looked up in the server's folder, and no value of an argument can act as an option.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from pinprof.document import Document
from pinprof.report.schema import to_schema
from pinprof.server import answers, inputs
from pinprof.server.answers import MOST_CHARACTERS
from pinprof.server.folder import Folder

ToolArguments = Mapping[str, Any]
"""The arguments of a call, which the schema of its tool allows."""
NOT_OPTIONS = {"traces", "of", "ids", "trace", "scripts", "topic", "command", "against", "diff", "causes", "verify"}
"""Arguments that are not options of their command under the same name."""
OPTION_NAMES = {"rules": "rule"}
"""Options whose name differs from that of their argument."""
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
    command: Callable[[Folder, ToolArguments], list[str]]
    """Returns the words of the command."""
    shorten_first: Sequence[str] = ()
    """Lists of the answer that lose items before others do."""
    measurements: int = 0
    """How often the command measures the user's program for the given minutes; 0 if it runs no program."""

    @property
    def takes_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return to_schema(self.takes)

    @property
    def answers_schema(self) -> dict[str, Any]:
        """The JSON Schema of the answer."""
        return to_schema(self.answers)


def report(folder: Folder, given: ToolArguments) -> list[str]:
    """Return the command for a brief."""
    return ["report", "--json=-", "--brief", "--", *folder.traces(given["traces"])]


def evidence(folder: Folder, given: ToolArguments) -> list[str]:
    """Return the command for the document in which ids are looked up."""
    if given.get("of") == "compare":
        return ["compare", "--json=-", "--", *folder.traces(given["traces"])]
    return ["report", "--json=-", "--", *folder.traces(given["traces"])]


def compare(folder: Folder, given: ToolArguments) -> list[str]:
    """Return the command for a comparison."""
    return ["compare", "--json=-", "--brief", "--", folder.file(given["before"]), folder.file(given["after"])]


def whatif(folder: Folder, given: ToolArguments) -> list[str]:
    """Return the command for a prediction."""
    return ["whatif", "--json=-", *options(given), "--", *folder.traces(given["traces"])]


def fix(folder: Folder, given: ToolArguments) -> list[str]:
    """Return the command for diffs; it never writes."""
    scripts = [folder.file(script) for script in given.get("scripts", ())]
    return ["fix", "--json=-", *options(given), "--", folder.file(given["trace"]), *scripts]


def ab(folder: Folder, given: ToolArguments) -> list[str]:
    """Return the command for a measurement of two versions."""
    against = [f"--against={shlex.join(folder.program(given['against']))}"] if "against" in given else []
    traces = [] if given.get("causes", True) else ["--no-trace"]
    return ["ab", "--json=-", *options(given), *against, *traces, "--", *folder.program(given["command"])]


def try_fixes(folder: Folder, given: ToolArguments) -> list[str]:
    """Return the command for a trial of fixes."""
    trace = [f"--trace={folder.file(given['trace'])}"] if "trace" in given else []
    verify = [] if given.get("verify", True) else ["--no-verify"]
    return ["try", "--json=-", *options(given), *trace, *verify, "--", *folder.program(given["command"])]


def explain(_folder: Folder, given: ToolArguments) -> list[str]:
    """Return the command for a text."""
    return ["explain", "--", *([given["topic"]] if "topic" in given else [])]


def options(given: ToolArguments) -> list[str]:
    """Return the options for the arguments of a call: each has the name of an argument, and a list is repeated."""
    words = []
    for name, value in given.items():
        if name in NOT_OPTIONS or value is False:
            continue
        option = f"--{OPTION_NAMES.get(name, name).replace('_', '-')}"
        items = value if isinstance(value, list) else [value]
        words += [option] if value is True else [f"{option}={item}" for item in items]
    return words


TOOLS = (
    Tool(
        "report",
        "Why is the step slow?",
        "Says why the training step in a PyTorch trace is slow and what to change: the verdict, findings in order with "
        "rule, line, saving by replay with its range, whether the numbers stay, what the trace cannot tell and why, "
        "and the commands to go on with. Call it first. Savings do not add up: `joint` has all together. Null is not "
        f"known, never zero. Ids are for the tool evidence. {BRIEF}",
        inputs.ReportInput,
        answers.answer_of("report-brief"),
        report,
    ),
    Tool(
        "evidence",
        "The rows behind a finding",
        "Returns what ids of report or compare name in the whole document, and any other JSON Pointer into it: "
        "/traces/0/findings/0 (the fix as code, all places), /traces/0/syncs/sites/0, /traces/0/kernels, "
        f"/traces/0/idle. {BOUND} Ask for fewer ids, an item of a list, or with `skip` to get the rest.",
        inputs.EvidenceInput,
        answers.EvidenceAnswer,
        evidence,
    ),
    Tool(
        "compare",
        "What changed between two traces?",
        "Compares the trace before a change with the one after it: the step, and the waits, copies and findings that "
        "changed beyond noise. It is not a measurement of a saving to rely on: ab is. "
        f"{BRIEF}",
        inputs.CompareInput,
        answers.answer_of("compare-brief"),
        compare,
    ),
    Tool(
        "whatif",
        "What would a change bring?",
        "Predicts the step after a change of the code by replay of the trace, with a range. Changes can be combined; "
        f"without any, the usual ones are compared in `scenarios`. {BOUND} Name one change to get all of its places.",
        inputs.WhatifInput,
        answers.answer_of("whatif"),
        whatif,
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
        answers.answer_of("fix"),
        fix,
        ("/refused",),
    ),
    Tool(
        "explain",
        "A rule or a guide in full",
        "Explains a rule (what it looks at, why that costs, the fix as code, when it is safe) or shows a guide. Read "
        f"the guide `skill` first: how to work with pinprof, and what never to claim. At most {MOST_CHARACTERS:,} "
        "characters; `more_lines` counts the rest.",
        inputs.ExplainInput,
        answers.ExplainAnswer,
        explain,
    ),
    Tool(
        "ab",
        "Is it faster? Two versions measured",
        "Measures two versions of a program of the folder against each other, without a profiler and in turns: faster, "
        "slower, no difference above the limit, or cannot tell, with an interval. It runs the program for up to "
        "`minutes` and the first runs, and only if the server was started with --allow-running. Nothing else should "
        f"use the GPU meanwhile. {BOUND} `pinprof ab --json` in a terminal has all.",
        inputs.AbInput,
        answers.answer_of("ab"),
        ab,
        ("/pairs",),
        measurements=1,
    ),
    Tool(
        "try",
        "Fix it, measure it, prove it",
        "Makes the changes of fix in a copy of the program, measures it against the original, compares the numbers of "
        "the first steps, looks for races, leaves out what brings nothing. Only the verdict take_it is proven: `git "
        "apply` each `fixes[].diff` in `root`; it writes nothing. It runs the program for minutes, and only if the "
        f"server was started with --allow-running. {BOUND}",
        inputs.TryInput,
        answers.answer_of("try"),
        try_fixes,
        ("/pairs", "/refused"),
        measurements=2,  # once more, without the fixes that bring nothing
    ),
)
