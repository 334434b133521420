"""The gate for CI: figures of a trace held against limits, or against an earlier report."""

from pinprof.check.baseline import BaselineTrace, match_traces, read_baseline
from pinprof.check.config import read_config
from pinprof.check.figures import Figure, Measured, Wait, measure_figures
from pinprof.check.judge import DEFAULT_TOLERANCE, Checked, Verdict, judge
from pinprof.check.limits import QUANTITIES, Limits, Quantity
from pinprof.check.places import Place
from pinprof.check.remarks import Remark, remarks

__all__ = [
    "DEFAULT_TOLERANCE",
    "QUANTITIES",
    "BaselineTrace",
    "Checked",
    "Figure",
    "Limits",
    "Measured",
    "Place",
    "Quantity",
    "Remark",
    "Verdict",
    "Wait",
    "judge",
    "match_traces",
    "measure_figures",
    "read_baseline",
    "read_config",
    "remarks",
]
