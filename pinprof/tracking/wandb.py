"""Weights & Biases: a report in the summary of a run, and as an artifact."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from pinprof.errors import PinprofError
from pinprof.tracking.logged import FOLDER, PAGE, Destination, Logged, library, reason

NAME = "W&B"
INSTALL = "pip install wandb"
KIND = "pinprof-report"
"""The type of the artifact."""


@dataclass(frozen=True)
class WandbOptions:
    """Where to log to; None leaves the choice to W&B and its environment variables."""

    project: str | None = None
    entity: str | None = None
    run_id: str | None = None
    """A run to continue, instead of a new one."""
    run_name: str | None = None
    offline: bool = False


def wandb() -> Any:
    """Return W&B's library. Raises PinprofError if it is not installed."""
    return library("wandb", NAME, INSTALL)


def run_of(run: Any) -> Destination | None:
    """Return a run as a destination; None if it is disabled."""
    if getattr(run, "disabled", False):
        return None
    see = f"wandb sync {shlex.quote(str(Path(run.dir).parent))}" if run.offline else run.url
    return Destination(NAME, run.id, lambda logged: _write(run, logged), see or "")


def _write(run: Any, logged: Logged) -> None:
    """Write to the summary, since a row of the history would end the step that the program is logging."""
    library = wandb()
    panel = {}
    if PAGE in logged.files:
        panel = {f"{FOLDER}/page": library.Html(StringIO(logged.files[PAGE]), inject=False)}
    run.summary.update({**logged.numbers, **logged.words, **panel})
    artifact = library.Artifact(f"{FOLDER}-{run.id}", KIND)
    for name, text in logged.files.items():
        with artifact.new_file(name, mode="w", encoding="utf-8") as file:
            file.write(text)
    run.log_artifact(artifact)


@contextmanager
def opened(options: WandbOptions) -> Iterator[Destination]:
    """Give the run to continue, or a new one, which ends with the block. Raises PinprofError if W&B fails."""
    library = wandb()
    settings = library.Settings(silent=True, console="off", x_disable_stats=True, disable_job_creation=True)
    mode = {"mode": "offline"} if options.offline else {}
    continued = {"id": options.run_id, "resume": "must"} if options.run_id else {}
    if options.offline:
        continued.pop("resume", None)
    try:
        run = library.init(
            project=options.project,
            entity=options.entity,
            name=options.run_name,
            settings=settings,
            **mode,
            **continued,
        )
    except Exception as error:
        raise PinprofError(f"{NAME}: {reason(error)}") from error
    destination = run_of(run)
    if destination is None:
        raise PinprofError(f"{NAME} is disabled (WANDB_MODE=disabled); --offline logs without a network")
    with run:
        yield destination
