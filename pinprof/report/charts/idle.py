"""The idle time of each GPU as a bar of its causes."""

from pinprof.measurement.known import given
from pinprof.measurement.profile import Profile
from pinprof.phrases import IDLE as IDLE_NAMES
from pinprof.report.charts.chart import Chart, Key, bars, layout
from pinprof.report.timeline import hues
from pinprof.report.words import IDLE
from pinprof.units import duration, ms, percent

LOOKS = {
    "sync_bubble": (hues.WAIT, "/"),
    "host_wait": (hues.OP, ""),
    "input_wait": (hues.INPUT, "\\"),
    "communication_wait": (hues.COLLECTIVE, "|"),
    "kernel_wait": (hues.KERNEL, ""),
    "other": (hues.CALL, "-"),
}
"""Colour and pattern of each cause: those of what the GPU waits for."""


def idle_chart(profile: Profile) -> Chart | None:
    """Return a chart of the idle time by cause, a bar for each GPU; None if none was idle."""
    devices = [time for gpu in profile.gpus if (time := given(gpu.time)) and time.span_ns]
    idle, span = sum(device.idle_ns for device in devices), sum(device.span_ns for device in devices)
    if not idle:
        return None
    by_device = [
        dict(given(gpu.idle_by_cause) or ()) for gpu in profile.gpus if (time := given(gpu.time)) and time.span_ns
    ]
    sums = {cause: sum(causes.get(cause, 0) for causes in by_device) for cause in LOOKS}
    present = sorted((cause for cause in LOOKS if sums[cause]), key=lambda cause: -sums[cause])
    keys, data = [], []
    for cause in present:
        colour, pattern = LOOKS[cause]
        name = IDLE_NAMES[cause]
        keys.append(Key(f"{name}: {duration(sums[cause])} ({percent(sums[cause] / span)})", colour, pattern=pattern))
        times = [causes.get(cause, 0) for causes in by_device]
        hover = [
            f"GPU {device.device}, {name}: {duration(time)} ({percent(time / device.span_ns)} of its time)"
            for device, time in zip(devices, times, strict=True)
        ]
        x = [ms(time) for time in times]
        y = [f"GPU {device.device} " for device in devices]
        data.append(bars(name, keys[-1], x=x, y=y, orientation="h", hovertext=hover, hoverinfo="text"))
    caption = (
        f"Idle for {duration(idle)} of {duration(span)} ({percent(idle / span)}). The largest part: {IDLE[present[0]]}."
    )
    shape = layout(70 + 44 * len(devices), "ms in the trace", "", barmode="stack", yaxis={"autorange": "reversed"})
    return Chart(caption, data, shape, tuple(keys))
