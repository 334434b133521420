"""The gate for CI: compares figures of a trace with limits, or with an earlier report."""

from pinprof.check.baseline import Baseline, BaselineTrace, match_traces, read_baseline, remarks_on
from pinprof.check.config import find_config, read_config
from pinprof.check.figures import Bounded, HiddenWait, TraceFigures, measure_figures
from pinprof.check.job import absent_ranks, judge_all
from pinprof.check.judge import DEFAULT_TOLERANCE, KEPT, NOT_JUDGED, NOT_KEPT, Checked, LimitVerdict, judge, outcome
from pinprof.check.limits import QUANTITIES, Limits, Quantity
from pinprof.check.places import CodePlace
from pinprof.check.remarks import Remark, remarks

__all__ = [
    "DEFAULT_TOLERANCE",
    "KEPT",
    "NOT_JUDGED",
    "NOT_KEPT",
    "QUANTITIES",
    "Baseline",
    "BaselineTrace",
    "Bounded",
    "Checked",
    "CodePlace",
    "HiddenWait",
    "LimitVerdict",
    "Limits",
    "Quantity",
    "Remark",
    "TraceFigures",
    "absent_ranks",
    "find_config",
    "judge",
    "judge_all",
    "match_traces",
    "measure_figures",
    "outcome",
    "read_baseline",
    "read_config",
    "remarks",
    "remarks_on",
]
