"""The part of the dashboard that lives in the browser; its files are in `widgets/static`."""

from __future__ import annotations

from pathlib import Path

import anywidget
import traitlets

STATIC = Path(__file__).resolve().parents[1] / "static"


class Front(anywidget.AnyWidget):
    """Names the sliders' handles for screen readers, tells them of verdicts, and copies the code.

    Attributes:
        announcement: Text for a live region that stays in the page: one that is replaced with its
            text is not read out.
    """

    _esm = STATIC / "explore.js"
    _css = STATIC / "explore.css"
    announcement = traitlets.Unicode("").tag(sync=True)
