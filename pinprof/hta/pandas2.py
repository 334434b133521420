"""A DataFrame that behaves as in pandas 2, for methods of HTA 0.5 that pandas 3 breaks."""

from typing import Any

import pandas as pd


class Pandas2Frame(pd.DataFrame):
    """A DataFrame with two methods as before pandas 3; frames made from it are of this class too."""

    @property
    def _constructor(self) -> type["Pandas2Frame"]:
        return Pandas2Frame

    def drop(self, *args: Any, **options: Any) -> Any:
        """Drop columns even if the call also names an axis, as critical paths do."""
        if options.get("columns") is not None:
            options.pop("axis", None)
        return super().drop(*args, **options)

    def replace(self, *args: Any, **options: Any) -> Any:
        """Replace texts by numbers and make the column numeric, as call stacks need it."""
        replaced = super().replace(*args, **options)
        return None if replaced is None else replaced.infer_objects()
