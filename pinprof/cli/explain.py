"""`pinprof explain`: the rules in words."""

import click

from pinprof.cli.terminal import fail, page_options, say, show

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415


@click.command()
@click.argument("rule", required=False)
def explain(rule: str | None) -> None:
    """Explain a RULE in full: what it looks at, why it costs, what to write, and when that is safe.

    Without a RULE, print the catalogue of all rules.

    \b
    Examples:
      pinprof explain
      pinprof explain PIN201
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.report.explain import to_catalogue, to_page
    from pinprof.rules import RULES

    width, color = page_options()
    if rule is None:
        show(to_catalogue(RULES, width=width, color=color))
        say("Next: pinprof explain PIN201")
        return
    found = {each.id: each for each in RULES}.get(rule.upper())
    if found is None:
        fail(f"{rule}: there is no such rule; pinprof explain lists them all")
    show(to_page(found, width=width, color=color))
