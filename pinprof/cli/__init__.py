"""The command line: parse, call, print or write; the only room that knows the terminal."""

import click

from pinprof.cli.bench import bench
from pinprof.cli.check import check
from pinprof.cli.compare import compare
from pinprof.cli.explain import explain
from pinprof.cli.export import export
from pinprof.cli.report import report, timeline
from pinprof.cli.run import run
from pinprof.cli.terminal import Commands
from pinprof.cli.whatif import verify, whatif
from pinprof.cli.workload import workload
from pinprof.version import VERSION


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name="pinprof")
def main() -> None:
    """Show why host-GPU copies do not hide behind kernels, and what makes the host wait.

    \b
    Record a training script and report on it (on a machine with a GPU):
      pinprof run train.py --epochs 1
    Report on a trace that torch.profiler's export_chrome_trace wrote:
      pinprof report trace.json.gz
      pinprof report trace.json.gz --html report.html
    Predict what a change of the code would bring, and hold it against what it did bring:
      pinprof whatif trace.json.gz --pin --non-blocking
      pinprof verify before.json.gz after.json.gz
    See what changed between two traces, and what of that is noise:
      pinprof compare before.json.gz after.json.gz
    Read what a finding means and what to write instead:
      pinprof explain PIN201
    Fail a CI job if the host waits where it should not:
      pinprof check trace.json.gz --max-hidden-syncs 0
    Look at it in Perfetto, with pinprof's own tracks:
      pinprof export trace.json.gz -o annotated.json.gz
    Measure what copies to the GPU cost on this machine, and what of the usual advice holds here:
      pinprof bench
      pinprof workload --list
    """  # noqa: D301  click looks for the backspace itself


for _command in (run, report, timeline, whatif, verify, compare, explain, check, export, bench, workload):
    main.add_command(_command)
