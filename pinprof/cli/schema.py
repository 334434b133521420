"""`pinprof schema`: what is in the JSON that pinprof writes."""

import click
from click.shell_completion import CompletionItem

from pinprof.cli.names import chosen
from pinprof.cli.terminal import show

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415


def _complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the schemas that begin so."""
    from pinprof.report.schema import DOCUMENTS, to_schema

    return [
        CompletionItem(name, help=to_schema(document)["description"])
        for name, document in DOCUMENTS.items()
        if name.startswith(incomplete)
    ]


@click.command()
@click.argument("name", required=False, shell_complete=_complete)
def schema(name: str | None) -> None:
    """Print the JSON Schema of what a command writes with --json.

    NAME is a command: report, compare, whatif, verify, fix, try, ab, bisect or bench; report-brief and compare-brief
    are what --brief writes. Without a NAME, list them. The schema is of draft 2020-12, and of this version of pinprof:
    it names all fields, with their units and what they mean. The guide `pinprof explain json` has the same as tables,
    and says what stays as it is.

    \b
    Examples:
      pinprof schema
      pinprof schema report
      pinprof schema report > report.schema.json
    """  # noqa: D301  click looks for the backspace itself
    import json

    from pinprof.report.schema import DOCUMENTS, to_schema

    if name is None:
        for known, document in DOCUMENTS.items():
            show(f"{known:13} {to_schema(document)['description']}\n")
        return
    found = chosen(name, DOCUMENTS, f"schema; there are {', '.join(DOCUMENTS)}")
    show(json.dumps(to_schema(DOCUMENTS[found]), indent=2, ensure_ascii=False) + "\n")
