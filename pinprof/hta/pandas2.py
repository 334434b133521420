"""A DataFrame with what pandas 2 did, for methods of HTA 0.5 that pandas 3 breaks."""

from typing import Any

import pandas as pd


class Pandas2Frame(pd.DataFrame):
    """A DataFrame in which two calls do what they did before pandas 3; all that is made of one is one."""

    @property
    def _constructor(self) -> type["Pandas2Frame"]:
        return Pandas2Frame

    def drop(self, *args: Any, **options: Any) -> Any:
        """Drop columns also if an axis is named with them, as critical paths do."""
        if options.get("columns") is not None:
            options.pop("axis", None)
        return super().drop(*args, **options)

    def replace(self, *args: Any, **options: Any) -> Any:
        """Replace texts by numbers so that the column is one of numbers, as call stacks need it."""
        replaced = super().replace(*args, **options)
        return None if replaced is None else replaced.infer_objects()
