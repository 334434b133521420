"""The trace that most commands are called with."""

from pathlib import Path

import pytest
from command_line import copying_trace


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return copying_trace(tmp_path)
