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

    # As text: of a path anywidget watches the file, and the watch keeps every widget for good.
    _esm = (STATIC / "explore.js").read_text("utf-8")
    _css = (STATIC / "explore.css").read_text("utf-8")
    announcement = traitlets.Unicode("").tag(sync=True)
