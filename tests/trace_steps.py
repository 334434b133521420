"""Reads the steps of a recorded trace, and what happened in each."""

import json
from pathlib import Path


def steps_of(path: Path, mark: str) -> dict[str, int]:
    """Return how often the annotation `mark` began in each ProfilerStep, by the step's name, in order.

    The last step of a recording that ended early is one, too, however short.
    """
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event.get("ph") == "X"]
    steps = sorted((event for event in events if event["name"].startswith("ProfilerStep#")), key=lambda e: e["ts"])
    marks = [event["ts"] for event in events if event["name"] == mark and event["cat"] == "user_annotation"]
    return {step["name"]: sum(step["ts"] <= ts < step["ts"] + step["dur"] for ts in marks) for step in steps}
