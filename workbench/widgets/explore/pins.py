"""Configurations that were kept, compared with each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench._result import Result
from workbench.numerics import BitComparison, compare_bits
from workbench.widgets import markup, words
from workbench.widgets.explore.panes import largest_errors
from workbench.widgets.explore.result import ExploreResult


@dataclass(frozen=True)
class PinComparison(Result):
    """Two configurations beside each other.

    Attributes:
        left, right: Their titles.
        left_inputs, right_inputs: What they were run on.
        bits: Their outputs bit by bit; None where they are not of the same inputs.
        why: Why bits were not compared; "" if they were.
        order_equal: Whether both add in one order; None where one is not known.
        drift: Largest |error| of the left and of the right, in words; "" where not measured.
    """

    left: str
    right: str
    bits: BitComparison | None
    why: str
    order_equal: bool | None
    drift: tuple[str, str]
    left_inputs: str
    right_inputs: str

    @property
    def bits_text(self) -> str:
        """The verdict on bits in words."""
        if self.bits is None:
            return f"not compared: {self.why}"
        return words.bits_text(self.bits, "every bit equal", "outputs differ")

    @property
    def order_text(self) -> str:
        """The verdict on the orders in words."""
        if self.order_equal is None:
            return "not known"
        return "= the same order" if self.order_equal else "≠ another order"

    @property
    def first_text(self) -> str:
        """The first output that differs, with both bit patterns."""
        at = self.bits.first_mismatch if self.bits is not None else None
        if at is None:
            return ""
        row, *column = at["index"]
        where = f"row {row}" + (f", column {column[0]}" if column else "")
        return (
            f"{where}: {at['expected_bits']} ({at['expected']:.9g}) and "
            f"{at['got_bits']} ({at['got']:.9g})"
        )

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "left": self.left,
                "right": self.right,
                "left_inputs": self.left_inputs,
                "right_inputs": self.right_inputs,
                "bits": self.bits_text,
                "order": self.order_text,
                "first": self.first_text,
                "left_errors": self.drift[0],
                "right_errors": self.drift[1],
            }
        ]


def compare(left: ExploreResult, right: ExploreResult) -> PinComparison:
    """Compare two results: bits, order, drift.

    Example:
        >>> from workbench.widgets.explore.inputs import Inputs
        >>> from workbench.widgets.explore.study import ExploreState, Study
        >>> state = ExploreState(rows=2, vocab=8)
        >>> states = state, state.replace(max_blocks=3)
        >>> found = [Study(s, Inputs()).judge("build") for s in states]
        >>> compare(*found).bits_text, compare(*found).order_equal
        ('= every bit equal', True)
    """
    bits, why = None, ""
    if left.outputs is None or right.outputs is None:
        why = "one of them has no outputs"
    elif left.fixture != right.fixture or not left.state.same_inputs(right.state):
        why = "their inputs or kernels are not the same"
    else:
        bits = compare_bits(left.outputs, right.outputs)
    known = left.tree is not None and right.tree is not None
    return PinComparison(
        left=left.title(),
        right=right.title(),
        left_inputs=left.state.inputs_text(),
        right_inputs=right.state.inputs_text(),
        bits=bits,
        why=why,
        order_equal=left.tree == right.tree if known else None,
        drift=(largest_errors(left.drift), largest_errors(right.drift)),
    )


def overview(pins: Mapping[str, ExploreResult], current: ExploreResult) -> str:
    """Every pin beside what is shown now, as HTML."""
    if not pins:
        return markup.note(
            "Nothing is pinned. “Pin this configuration” keeps what is shown; move the controls, "
            "and both stand here side by side."
        )
    rows = [_row("now", current, None)]
    rows += [_row(name, found, compare(found, current)) for name, found in pins.items()]
    heads = {
        "pin": "pin",
        "configuration": "configuration",
        "inputs": "inputs",
        "order": "order",
        "bits": "bits, against what is shown now",
        "first": "first output that differs: pin and now",
        "own": "kernel's largest |error|",
        "reference": "the reference's own",
        "order_is": "order, against what is shown now",
    }
    if len({row["inputs"] for row in rows}) == 1:
        for row in rows:
            del row["inputs"]  # the controls show them
    made = markup.table(rows, "Pinned configurations beside what is shown now", heads)
    return made + markup.evidence(*[f.drift for f in (*pins.values(), current) if f.drift])


def _row(name: str, found: ExploreResult, against: PinComparison | None) -> dict[str, str]:
    own, _, reference = largest_errors(found.drift).removeprefix("kernel ").partition(", ")
    return {
        "pin": name,
        "configuration": found.title(),
        "inputs": found.state.inputs_text(),
        "order": found.tree.hash[:6] if found.tree is not None else "not known",
        "order_is": against.order_text if against else "",
        "bits": against.bits_text if against else "",
        "first": against.first_text if against else "",
        "own": own or "not measured",
        "reference": reference,
    }
