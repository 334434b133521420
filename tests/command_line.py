"""Calls pinprof's commands within a test, and writes what they read."""

from pathlib import Path

from click.testing import CliRunner, Result
from trace_builder import TraceBuilder

from pinprof.cli import main


def invoke(*words: object, given: bytes | None = None) -> Result:
    """Call pinprof with these words, and this at standard input."""
    return CliRunner().invoke(main, [str(word) for word in words], input=given)


def is_one_line_error(result: Result) -> bool:
    """Return whether a command ended as one does that was given what it cannot use."""
    return result.exit_code == 2 and result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1


def copying_trace(folder: Path) -> Path:
    """Write a trace of four steps, each with a kernel and a copy of pageable memory that nothing hides."""
    builder = TraceBuilder()
    for start in builder.steps(4):
        builder.kernel(start + 100, 300, launch=start + 50)
        builder.copy("HtoD (Pageable -> Device)", start + 500, 400, launch=start + 450, call=430)
    return builder.write(folder / "trace.json.gz")
