"""The words that tables, figures and sentences have for a run and its constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.orders.classes import value_text
from workbench.sweep.run import Run


def value(run: Run, name: str) -> Any:
    """A constant by the name of its value; or "arch", "dtype", "shape", "inputs"."""
    if name == "shape":
        return " x ".join(map(str, run.shape))
    if name == "inputs":
        return run.inputs.name or run.inputs.fixture_id
    if name in ("arch", "dtype"):
        return getattr(run, name)
    given = run.config.get(name)
    return given if given is None or isinstance(given, dict) else value_text(run.op, name, given)


def in_words(op: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Constants as texts have them: by the words of their values where there are any."""
    return {name: word(op, name, value) for name, value in config.items()}


def word(op: str, name: str, value: Any) -> Any:
    """The word that a constant's value has ("output" for schedule 0), or the value."""
    text = value_text(op, name, value) if isinstance(value, int) else str(value)
    return value if text == str(value) else text


def label(run: Run, varied: Sequence[str] | None = None) -> str:
    """A configuration in words: all of it, or the names that vary."""
    names = ["arch", "dtype", *run.config] if varied is None else varied
    return ", ".join(f"{name} {value(run, name)}" for name in names) or run.op


def varied_names(runs: Sequence[Run]) -> list[str]:
    names = list(dict.fromkeys(name for run in runs for name in run.config))
    return [n for n in names if len({str(value(run, n)) for run in runs}) > 1]
