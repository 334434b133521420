"""A folder of traces, and an agent whose server sees it: one for all tests."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent import Agent, connected
from recordings import TRACES

COPIED = {
    "item": "loss_item_host_work.stack",
    "pageable": "pageable_blocking.stack",
    "prefetch": "prefetch.stack",
    "images": "runs/images.before",
    "run/rank0": "ranks/averaged_loss.rank0.before",
    "run/rank1": "ranks/averaged_loss.rank1.before",
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with traces and the source of one."""
    made = tmp_path_factory.mktemp("outer") / "project"
    (made / "run").mkdir(parents=True)
    for name, recording in COPIED.items():
        shutil.copy(TRACES / f"{recording}.json.gz", made / f"{name}.json.gz")
    shutil.copy(TRACES / "runs" / "slow.py", made)
    return made


@pytest.fixture(scope="session")
def agent(folder: Path) -> Iterator[Agent]:
    with connected(folder) as made:
        yield made
