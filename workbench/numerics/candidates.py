"""A candidate by its name, as the command line is given one."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.errors import InputError, WorkbenchError


class CandidateError(WorkbenchError, RuntimeError):
    """A candidate that raised, or gave what cannot be judged: it failed."""


def load_callable(name: str, known: str = "module:callable") -> Callable[..., Any]:
    """The callable that "module:callable" names; a class is made without arguments.

    The current folder is searched for the module first, as with `python -m`.

    Args:
        known: The names that the caller takes, for the message.

    Raises:
        InputError: No such form, module or callable; or the module or the class raises.

    Example:
        >>> import torch
        >>> load_callable("torch:matmul") is torch.matmul
        True
    """
    module, _, path = name.partition(":")
    if not module or not path:
        raise InputError(f"candidate {name!r} is unknown; known ones are {known}")
    if not all(part.isidentifier() for part in module.split(".")):
        raise InputError(
            f"candidate {name}: {module!r} is no name of a module; give it as Python imports it "
            "(package.module, no path and no .py), from the folder that has it"
        )
    here = str(Path.cwd())
    if here not in sys.path:  # a console script leaves it out
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may raise anything, SystemExit too
        said = str(error) if isinstance(error, ImportError) else one_line(error)
        raise InputError(f"candidate {name}: cannot import {module}: {said}") from error
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InputError(f"candidate {name}: {module} has no callable {path}")
    if not isinstance(found, type):
        return found
    try:
        made = found()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise InputError(
            f"candidate {name}: a class is made without arguments, and that raised "
            f"{one_line(error)}; give a function, or a class whose arguments have defaults"
        ) from error
    if not callable(made):
        raise InputError(f"candidate {name}: a {path} cannot be called; give it a __call__")
    return made


def one_line(error: BaseException) -> str:
    """The exception in one line, with the place it was raised at."""
    text = f"{type(error).__name__}: {error}".replace("\n", " ")
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) or not frames or frames[-1].filename == __file__:
        return text  # a SyntaxError's own text has the place
    return f"{text} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
