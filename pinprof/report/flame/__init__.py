"""Flame graphs: time by call path, the root on top, which `flame.js` draws and lets people zoom and search."""

from pinprof.report.flame.graph import FlameGraph, fragment, host_flame, icicle, waits_flame

__all__ = ["FlameGraph", "fragment", "host_flame", "icicle", "waits_flame"]
