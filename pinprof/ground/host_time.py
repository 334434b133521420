"""The clocks of `time` as they are before a program runs: it may replace them, as tests do that freeze the time.

They are not attributes of a module, where freezegun would find and replace them as well.
"""

import time
from collections.abc import Callable
from typing import Final, NamedTuple


class _HostTime(NamedTuple):
    perf_counter: Callable[[], float] = time.perf_counter
    perf_counter_ns: Callable[[], int] = time.perf_counter_ns
    monotonic: Callable[[], float] = time.monotonic
    process_time: Callable[[], float] = time.process_time
    sleep: Callable[[float], None] = time.sleep


HOST_TIME: Final = _HostTime()
