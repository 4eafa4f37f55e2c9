"""The dashboard's work: requests, and the steps in which they are answered. No widget here."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.build.cancelling import Cancel, cancellable
from workbench.widgets import markup
from workbench.widgets.explore import panes
from workbench.widgets.explore.result import ExploreResult
from workbench.widgets.explore.state import ExploreState
from workbench.widgets.explore.study import PANES, Study
from workbench.widgets.words import explain

PINS = "pins"
TABS = (*PANES, PINS)
KEPT = 8  # configurations that are shown again at once
STEPS = 5  # of a request, as its bar shows them
DONE = "done"


@dataclass
class Look:
    """A study, and the pictures that were drawn of it."""

    study: Study
    pictures: dict[str, list[str]] = field(default_factory=dict)

    @property
    def result(self) -> ExploreResult:
        return self.study.result


@dataclass(frozen=True)
class Request:
    """What is asked for: a look, the pane that is open, and what was shown before.

    Attributes:
        pinned: Looks that stand beside it in the pane of pins.
        wish: To give it up.
        started: When it was made, on `time.perf_counter`.
        hung: {pane: key of the widget in it}, as it is by now.
        output: (row, column) that was chosen to be looked at; None: none was.
    """

    look: Look
    pane: str
    previous: ExploreResult | None
    pinned: tuple[Look, ...]
    wish: Cancel
    started: float
    hung: Mapping[str, Any]
    output: panes.Output | None


@dataclass(frozen=True)
class Step:
    """What was found: a result, the widget or the pictures of a pane, and how far the work is.

    Attributes:
        view: (key, widget) to put into the pane; the widget may be None.
    """

    request: Request
    done: int
    text: str
    result: ExploreResult | None = None
    pictures: list[str] | None = None
    view: tuple[Any, Any] | None = None


class Looks:
    """The looks of late, by state: going back to one costs nothing."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, Look] = OrderedDict()

    def of(self, study: Study) -> Look:
        """The look of a study's state: an earlier one, unless its source was edited since."""
        key = study.state.resolved(), _source_mark(study.state)
        look = self._kept.setdefault(key, Look(study))
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return look

    def forget(self) -> None:
        """Let everything be built and judged again."""
        self._kept.clear()


class Work:
    """Answers requests step by step: what is cheap first, and only what the open pane shows."""

    def __init__(self) -> None:
        self._drawn: OrderedDict[Any, str] = OrderedDict()  # pictures that looks share

    def __call__(self, request: Request) -> Iterator[Step]:
        """The steps of a request.

        Raises:
            Cancelled: It is not wanted any more.
        """
        look, pane = request.look, request.pane
        panes_wanted = () if pane == PINS else (pane,)
        with cancellable(request.wish):
            for count, found in enumerate(look.study.stages(request.previous, panes_wanted)):
                text = "judging …" if found.info else f"building {found.title()} …"
                yield Step(request, min(count, STEPS - 2), text, found)
                if found.error:
                    return
                if pane == "order" and found.outputs is not None and found.revealed is None:
                    # What is declared is shown before the binary is asked, which takes longer.
                    yield from self._hang(request)
            if pane == PINS:
                yield from self._pins(request)
            else:
                yield from self._hang(request)
                yield from self._draw(request)
        yield Step(request, STEPS, DONE)

    def _pins(self, request: Request) -> Iterator[Step]:
        """The drift of everything that stands in the table of pins."""
        for look in (*request.pinned, request.look) if request.pinned else ():
            for found in look.study.stages(look.result, ("drift",)):
                mine = found if look is request.look else None
                yield Step(request, STEPS - 2, "measuring …", mine)

    def _hang(self, request: Request) -> Iterator[Step]:
        """The pane's widget, unless it is there."""
        pane, found = request.pane, request.look.result
        key = panes.view_key(pane, found, request.output)
        if key == request.hung.get(pane):
            return
        view = panes.view(pane, found, request.output)
        try:
            yield Step(request, STEPS - 1, "drawing …", view=(key, view))
        except GeneratorExit:  # a newer request came: nobody took it
            if view is not None:
                view.close()
            raise

    def _draw(self, request: Request) -> Iterator[Step]:
        look, pane = request.look, request.pane
        if pane not in look.pictures:
            drawn: list[str] = []
            for picture in panes.pictures(pane, look.result):
                if picture.in_view:
                    continue
                try:
                    drawn.append(self._image(picture))
                except Exception as error:  # the numbers stand, and the other figures
                    drawn.append(markup.error(explain(error), f"{picture.name}: not drawn."))
                yield Step(request, STEPS - 1, "drawing …", pictures=[*drawn])
            if pane not in look.result.done:
                return
            look.pictures[pane] = drawn
        yield Step(request, STEPS - 1, "drawing …", pictures=look.pictures[pane])

    def _image(self, picture: panes.Picture) -> str:
        if picture.key is None:
            return markup.image(picture.draw(), picture.alt)
        key = picture.name, picture.key
        if key not in self._drawn:
            self._drawn[key] = markup.image(picture.draw(), picture.alt)
            while len(self._drawn) > 2 * KEPT:
                self._drawn.popitem(last=False)
        return self._drawn[key]


def _source_mark(state: ExploreState) -> Any:
    """What changes when somebody edits the kernel's source."""
    path = state.shipped.source if state.shipped is not None else Path(state.op)
    try:
        info = path.stat()
    except OSError:
        return None
    # Headers of an own file may change as well, and nothing here would tell: each time is new.
    return (info.st_mtime_ns, info.st_size, None if state.shipped else object())
