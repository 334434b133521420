"""Write all that pinprof says of all recordings into a folder, to see what a change of the code changes: `diff -r`.

PYTHONPATH=. python scripts/outputs.py before [more traces or folders of them ...]
# change the code
PYTHONPATH=. python scripts/outputs.py after ... && diff -r before after
"""

import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

from pinprof.cli import main as pinprof
from pinprof.rules.search import RULES

LIMITS = [
    "--max-hidden-syncs=0",
    "--max-stall-ms=0.1",
    "--max-exposed-ms=0.1",
    "--min-overlap=0.9",
    "--max-pageable-bytes=0",
    "--max-step-ms=1",
    "--some-ranks",
]
OF_TRACE = {
    "report": ["report", "{0}"],
    "json": ["report", "{0}", "--json=-"],
    "page": ["report", "{0}", "--html={out}", "--force"],
    "check": ["check", "{0}", *LIMITS],
    "sarif": ["check", "{0}", *LIMITS, "--format=sarif"],
    "junit": ["check", "{0}", *LIMITS, "--format=junit"],
    "github": ["check", "{0}", *LIMITS, "--format=github"],
    "whatif": ["whatif", "{0}"],
    "whatif.json": ["whatif", "{0}", "--pin", "--non-blocking", "--json=-"],
    "export": ["export", "{0}", "-o", "{out}", "--force"],
}
OF_TWO = {
    "compare": ["compare", "{0}", "{1}"],
    "compare.json": ["compare", "{0}", "{1}", "--json=-"],
    "compare.page": ["compare", "{0}", "{1}", "--html={out}", "--force"],
    "verify": ["verify", "{0}", "{1}"],
}
OF_JOB = {
    "report": ["report", "{0}", "--jobs=1"],
    "json": ["report", "{0}", "--jobs=1", "--json=-"],
    "page": ["report", "{0}", "--jobs=1", "--html={out}", "--force"],
    "check": ["check", "{0}", *LIMITS],
    "whatif": ["whatif", "{0}"],
}
LONG = 100_000
"""A script of a page that has more characters is the plotting library: of it the hash is kept."""


class Call(NamedTuple):
    """A command line, and the file that keeps what it says."""

    kept: Path
    words: Sequence[str]
    inputs: Sequence[str]


def calls(folder: Path, places: Sequence[Path]) -> Iterator[Call]:
    """Yield all command lines: of traces, of two that are neighbours, of folders of ranks, of rules."""
    for path in places:
        files = sorted(path.rglob("*.json.gz")) if path.is_dir() else [path]
        for file in files:
            yield from _of(folder, OF_TRACE, file)
        for two in pairwise(files):
            if two[0].parent == two[1].parent:
                yield from _of(folder, OF_TWO, *two)
        for job in sorted({file.parent for file in files if "rank" in file.name}):
            yield from _of(folder, OF_JOB, job)
    yield from (Call(folder / f"explain.{rule.id}", ["explain", rule.id], ()) for rule in RULES)


def _of(folder: Path, commands: dict[str, list[str]], *inputs: Path) -> Iterator[Call]:
    name = "+".join("_".join(part for part in path.parts if part not in {"/", ".."}) for path in inputs)
    for kind, words in commands.items():
        yield Call(folder / f"{name}.{kind}", words, list(map(str, inputs)))


def keep(call: Call) -> None:
    """Run a command line and keep its exit status, what it printed, and the file that it wrote."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / ("out.json" if "export" in call.words else "out.html")
        line = [word.format(*call.inputs, out=out) for word in call.words]
        result = CliRunner().invoke(pinprof, line, env={"COLUMNS": "120", "NO_COLOR": "1"})
        text = f"{result.exit_code}\n{result.stdout}\n{result.stderr}\n{result.exception or ''}\n"
        if out.exists():
            text += _tracks(out) if "export" in call.words else _page(out.read_text())
        call.kept.write_text(text.replace(scratch, ""))


def _page(text: str) -> str:
    """Return a page with a line for each element, and hashes in the place of libraries."""
    scripts = re.sub(r"(<script[^>]*>)(.*?)(</script>)", _script, text, flags=re.DOTALL)
    return scripts.replace("><", ">\n<")


def _script(match: re.Match[str]) -> str:
    head, body, tail = match.groups()
    kept = body if len(body) < LONG else hashlib.sha256(body.encode()).hexdigest()
    return f"{head}{kept}{tail}"


def _tracks(out: Path) -> str:
    """Return the events of pinprof's own tracks, one on a line."""
    events = [event for event in json.loads(out.read_bytes())["traceEvents"] if isinstance(event, dict)]
    named = (event for event in events if event.get("name") == "process_name")
    own_ids = {event["pid"] for event in named if event.get("args", {}).get("name") == "pinprof"}
    return "".join(json.dumps(event) + "\n" for event in events if event.get("pid") in own_ids)


def main(folder: str, *more: str) -> None:
    """Keep what all command lines say."""
    kept = Path(folder)
    kept.mkdir(parents=True)
    work = list(calls(kept, [Path("traces"), *map(Path, more)]))
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for count, _ in enumerate(pool.map(keep, work, chunksize=8), start=1):
            if count % 100 == 0:
                print(f"{count} of {len(work)}", flush=True)
    print(f"{len(work)} outputs in {kept}")


if __name__ == "__main__":
    main(*sys.argv[1:])
