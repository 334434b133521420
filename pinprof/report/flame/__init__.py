"""Flame graphs: time by call path, the root on top, which `flame.js` draws and lets people zoom and search."""

from pinprof.report.flame.fragment import fragment
from pinprof.report.flame.graph import FlameGraph
from pinprof.report.flame.host import host_flame
from pinprof.report.flame.waits import waits_flame

__all__ = ["FlameGraph", "fragment", "host_flame", "waits_flame"]
