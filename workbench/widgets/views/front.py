"""What both views share: their files, the messages between page and kernel, the still picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget

from workbench.errors import InputError, WorkbenchError
from workbench.plots import style

STATIC = Path(__file__).resolve().parents[1] / "static"
STILL = "The picture as it was when its cell ended. Run the cell to move about in it."


def script(name: str) -> str:
    """The front end of a view: what all views share, and then its own module.

    A widget's module is loaded from memory and so cannot import another file.
    """
    return "\n".join((STATIC / file).read_text("utf-8") for file in ("view_parts.js", name))


class View(anywidget.AnyWidget):
    """A widget that answers questions of its page: `answer` is given each and returns a reply."""

    # As text: of a path anywidget watches the file, and the watch keeps every widget for good.
    _css = (STATIC / "views.css").read_text("utf-8")

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.on_msg(self._asked)

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def still(self) -> str:
        """HTML of the first view, for a page without a kernel."""
        raise NotImplementedError

    def close(self) -> None:
        """Take the view away, and the layout that it alone has."""
        if self.comm is not None:  # not closed before, nor given up while it was made
            super().close()
            self.layout.close()

    def _asked(self, _: Any, content: Any, buffers: Any) -> None:
        if not isinstance(content, dict) or "ask" not in content:
            return
        try:
            reply = self.answer(content)
        except WorkbenchError as error:
            reply = {"error": str(error)}
        except (TypeError, ValueError, KeyError) as error:  # a page of another version
            reply = {
                "error": f"the page asked for {str(content)[:80]}, which is no request: {error}"
            }
        buffers = reply.pop("buffers", None)
        self.send({"answer": content["ask"], "id": content.get("id"), **reply}, buffers)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        found = super()._repr_mimebundle_(**kwargs)
        if found is None:
            return None
        data, metadata = found
        return {**data, "text/plain": repr(self), "text/html": self.still()}, metadata


def close_parts(widget: Any) -> None:
    """Close what a widget is made of: its children and theirs, each with its layout and style.

    ipywidgets closes none of them with it, and keeps each in kernel and page for good.
    """
    for part in getattr(widget, "children", ()):
        close_parts(part)
        part.close()
    for name in ("layout", "style"):
        own = getattr(widget, name, None)
        if own is not None:
            own.close()


def evidence_line(evidence: Any) -> str:
    """The line below a picture: a text as it is, else made of results or their evidence."""
    if isinstance(evidence, str):
        return evidence or style.evidence_text()
    return style.evidence_text(evidence)


def whole_number(value: Any, name: str) -> int:
    """A whole number that a page sent or a person gave."""
    if isinstance(value, bool) or not isinstance(value, int):
        try:
            if isinstance(value, (bool, float, str)):
                raise TypeError
            value = value.__index__()
        except (TypeError, AttributeError):
            raise InputError(f"{name}={value!r}; wanted a whole number") from None
    return int(value)
