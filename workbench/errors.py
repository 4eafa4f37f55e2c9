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


class Cancelled(WorkbenchError, RuntimeError):
    """Somebody asked to give the work up, and it was: no fault of what was asked for."""


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
        file: Path of the user's source, or None.
        line: Line of the faulty access in it, 1-based, or None.
        block: Block id the fault happened in, or None.
        instruction: The Ascend C function, for example "Add"; "" if it was none.
        tensor: The operand and the buffer it lies in, in words; "" where there is none.
        what: What was wrong.
        mend: What would mend it; "" if that is not known.
        device: What a device prints in this case; "" where it says nothing.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "mem",
        code: str = "",
        file: str | None = None,
        line: int | None = None,
        block: int | None = None,
        instruction: str = "",
        tensor: str = "",
        what: str = "",
        mend: str = "",
        device: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.code = code
        self.file = file
        self.line = line
        self.block = block
        self.instruction = instruction
        self.tensor = tensor
        self.what = what
        self.mend = mend
        self.device = device

    @classmethod
    def of(cls, fault: dict, kernel: str = "") -> TwinFault:
        """The exception for a fault as the runtime reports it: a dict with the attributes above,
        `message` for `what`."""
        where = f"{fault['file']}:{fault['line']}: " if fault.get("file") else ""
        text = where + fault["message"]
        if fault.get("tensor"):
            text += f" [{fault['tensor']}]"
        if fault.get("mend"):
            text += f". {fault['mend']}"
        if fault.get("device"):
            text += f" (a device says: {fault['device']})"
        inside = f"kernel {kernel}, " if kernel else ""
        if fault.get("block", -1) >= 0:
            text += f" ({inside}block {fault['block']})"
        return cls(
            text,
            kind=fault["kind"],
            code=fault["code"],
            file=fault.get("file") or None,
            line=fault.get("line") or None,
            block=fault["block"] if fault.get("block", -1) >= 0 else None,
            instruction=fault.get("instruction", ""),
            tensor=fault.get("tensor", ""),
            what=fault["message"],
            mend=fault.get("mend", ""),
            device=fault.get("device", ""),
        )

    def to_dict(self) -> dict:
        """The fault as JSON: the attributes, and the whole `message`."""
        names = ("kind", "code", "file", "line", "block", "instruction", "tensor", "what")
        shown = {name: getattr(self, name) for name in (*names, "mend", "device")}
        return {**shown, "message": str(self)}
