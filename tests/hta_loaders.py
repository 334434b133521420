"""What HTA's own loader does in HolisticTraceAnalysis 0.5 and in its successor, traceinsight 0.6."""

import pytest
from hta.configs import env_options

IS_TRACEINSIGHT = hasattr(env_options, "HTAEnvOptions")

ONLY_OF_TRACEINSIGHT = (
    *("python_id", "python_parent_id", "collective_name", "in_msg_nelems", "out_msg_nelems", "msg_dtype"),
    *("group_size", "process_rank", "in_split_size", "out_split_size"),
)
"""Columns that only traceinsight's loader fills."""


def round_times(monkeypatch: pytest.MonkeyPatch, *, exact: bool) -> None:
    """Set HTA's switch for nanoseconds, which traceinsight reads once in a process."""
    monkeypatch.setenv("HTA_DISABLE_NS_ROUNDING", str(int(exact)))
    if IS_TRACEINSIGHT:
        monkeypatch.setattr(env_options.HTAEnvOptions, "_instance", None)
