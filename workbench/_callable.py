"""Packages that are also functions: `wb.build(...)` beside `workbench.build.cache`.

The import system binds a sub-package to its parent whatever `workbench/__init__.py` says, so the
one way for both spellings to work, in every import order, is that the package itself can be called.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable


def make_callable(name: str, function: Callable) -> None:
    """Let the loaded module `name` be called as `function`, with its docstring and signature."""

    class CallableModule(types.ModuleType):
        __call__ = staticmethod(function)
        __signature__ = None  # set below: inspect.signature asks the instance first

    import inspect

    module = sys.modules[name]
    module.__class__ = CallableModule
    module.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
