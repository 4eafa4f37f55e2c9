"""Every error the workbench raises on purpose.

Each message says three things: what was given, what was wanted, and what to do about it.
"""

from __future__ import annotations


class WorkbenchError(Exception):
    """Base of all errors raised on purpose by the workbench."""


class ConfigError(WorkbenchError, ValueError):
    """A configuration that cannot be built: unknown constant, tile over the UB budget, …"""


class InputError(WorkbenchError, ValueError):
    """Tensors or arguments that an operator does not take (shape, dtype, device, …)."""


class MissingError(WorkbenchError, RuntimeError):
    """Something the request needs is not on this machine: a compiler, CANN, a device."""


class CacheError(WorkbenchError, OSError):
    """The build cache cannot be used: not private, not writable, disk full."""


class BuildError(WorkbenchError, RuntimeError):
    """The compiler refused a kernel.

    Attributes:
        file: Path of the user's source the first error points to, or None.
        line: Line in that file, 1-based, or None.
        log: The full output of the compiler.
        log_path: Where that output is kept on disk, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        log: str = "",
        log_path: str | None = None,
    ) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.log = log
        self.log_path = log_path


class TwinFault(WorkbenchError, RuntimeError):
    """A kernel did something on the twin that a device forbids or would hang on.

    Attributes:
        kind: Family of the fault: "mem", "init", "race" or "sync".
        code: Finer name of it, for example "ub-budget" or "queue-deadlock".
        block: Block id the fault happened in, or None.
    """

    def __init__(
        self, message: str, *, kind: str = "mem", code: str = "", block: int | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.code = code
        self.block = block
