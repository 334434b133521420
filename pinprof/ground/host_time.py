"""The clocks of `time` from before a program runs: programs replace them, for example to freeze the time in tests.

They are not attributes of a module, because freezegun would replace those as well.
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
