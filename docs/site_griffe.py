"""Our docstrings for the reference: griffe knows a section "Examples:", we write "Example:"."""

from __future__ import annotations

import re
from typing import Any

import griffe


class OurDocstrings(griffe.Extension):
    """Without it a `>>>` of an example is taken for Markdown: a quotation with links in it."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = re.sub(
                r"^Example:$", "Examples:", obj.docstring.value, flags=re.M
            )
