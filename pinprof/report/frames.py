"""Pages in a notebook, each in a frame of its own; the first of them has plotly for all."""

import sys
from typing import Any

from markupsafe import escape

from pinprof.report.elements import Markup
from pinprof.report.page import packed_plotly, without_plotly

FRAME_HEIGHT = "800px"
"""Of a report in a notebook: a usual screen shows the numbers, the findings and the top of the timeline."""

ANSWER = Markup("""<script>
if (!window.pinprofAnswers) {
  window.pinprofAnswers = true;
  addEventListener("message", ({ source, data }) => {
    if (data?.pinprof !== "plotly" || !window.pinprofPlotly) return;
    source.postMessage({ pinprofPlotly: window.pinprofPlotly }, "*");
  });
}
</script>""")
"""Lets the notebook hand plotly to the frames that ask for it: they cannot look into it."""


class _Notebook:
    """Which cell of the running notebook has plotly."""

    cell: str | None = None


def framed(page: str, title: str) -> Markup:
    """Return a page in its own frame, so that neither its styles nor its scripts affect what is around it.

    In a notebook only one cell has plotly, which is three quarters of a page; the frames of the others ask for it.
    """
    cell = _running_cell()
    if cell is None:
        return _frame(page, title)
    if _Notebook.cell is None or _Notebook.cell == cell:
        _Notebook.cell = cell
        keep = Markup('<script>window.pinprofPlotly = "{}";</script>').format(packed_plotly())
    else:
        keep = Markup()
    return keep + ANSWER + _frame(without_plotly(page), title)


def _frame(page: str, title: str) -> Markup:
    return Markup(
        '<iframe srcdoc="{0}" title="{1}" width="100%" height="{2}" sandbox="allow-scripts allow-downloads" '
        'style="width: 100%; height: {2}; border: 0"></iframe>'
    ).format(escape(str(page)), title, FRAME_HEIGHT)


def _running_cell() -> str | None:
    """Return what identifies the running cell of a notebook; None elsewhere, and where cells cannot see each other."""
    shell = _shell()
    if shell is None or "google.colab" in sys.modules:  # there each output has a page of its own
        return None
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    of_notebook = parent.get("metadata", {}).get("cellId")
    if of_notebook:
        return str(of_notebook)
    typed = shell.history_manager.input_hist_raw
    return str(typed[-1]) if typed else ""


def _shell() -> Any | None:
    """Return IPython's shell of a notebook; None without one."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell if getattr(shell, "kernel", None) is not None else None
