"""`pinprof bench`: the seed experiments on this machine."""

import click

from pinprof.bench.catalogue import EXPERIMENTS, experiment
from pinprof.cli.experiments import measured, need_gpu, print_bench
from pinprof.cli.terminal import check_outputs, fail, force_option, json_option, progress, say, write

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415


@click.command(short_help="Check published claims about copies to the GPU on this machine.")
@click.option("--only", metavar="LIST", help="Run only these, by number or name: E1,E4 or copy_overlap.")
@click.option(
    "--quick",
    is_flag=True,
    help="Run smaller sizes in one round: in a quarter of the time, but with a less reliable spread.",
)
@json_option("the results")
@click.option("--html", "html_file", metavar="FILE", help="Also write a page with charts.")
@force_option
def bench(only: str | None, json_file: str | None, html_file: str | None, *, quick: bool, force: bool) -> None:
    """Check published claims about copies with fifteen experiments on this machine's GPU.

    pinprof times each experiment repeatedly after a warm-up, in up to seven rounds, each in a new process; then it
    records some as traces. If one fails, the others still run. On an H100 all take about five minutes, or 70 to 85
    seconds with --quick. They need torch with CUDA and a GPU that nothing else uses. Without one, pinprof shows the
    recorded result of an H100, writes no file, and exits with 2.

    \b
    Examples:
      pinprof bench
      pinprof bench --quick --only E1,E4
      pinprof bench --json bench.json --html bench.html
      pinprof bench --only copy_overlap --json | jq '.results[0].figures'
      pinprof workload --list                # what the experiments are
    """  # noqa: D301  click looks for the backspace itself
    chosen = [experiment(name) for name in only.split(",")] if only is not None else list(EXPERIMENTS)
    if len(set(chosen)) < len(chosen):
        fail(f"--only {only}: names an experiment twice")
    check_outputs((json_file, html_file), force=force)
    need_gpu(chosen, on_paper="-" not in (json_file, html_file))
    found = measured(chosen, quick=quick)
    if "-" not in (json_file, html_file):
        print_bench(found)
    if json_file:
        from pinprof.report.bench.json import to_json

        write(json_file, to_json(found))
    if html_file:
        from pinprof.report.bench.page import to_html

        with progress("drawing the page"):
            page = to_html(found)
        write(html_file, page)
    if not json_file and not html_file:
        say("Next: pinprof bench --json bench.json --html bench.html")
    if not any(result.figures for result in found.results):
        fail("none of the experiments gave a figure")
