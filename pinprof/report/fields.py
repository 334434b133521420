"""Fields of JSON documents, with times in milliseconds."""

from typing import Any

from pinprof.units import ms


def with_ms(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields with the times in milliseconds."""
    return {
        f"{key[:-3]}_ms" if key.endswith("_ns") else key: maybe_ms(value) if key.endswith("_ns") else value
        for key, value in fields.items()
    }


def maybe_ms(ns: float | None) -> float | None:
    """Return a time in milliseconds, if there is one."""
    return None if ns is None else ms(ns)
