"""Keeps a plain `import torch` working where torch_npu is installed and CANN is not.

torch loads every installed device backend by itself (entry points "torch.backends"). torch_npu's
one needs CANN's `libhccl.so`; without it `import torch` raises, and a failed import of torch
cannot be repeated in the same process. So the variable that turns the loading off has to be set
before anybody imports torch, which is why `import workbench` does it first of all.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from pathlib import Path

from .errors import MissingError

VARIABLE = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_LIBRARY = "libhccl.so"

RESTART = (
    "`import torch` failed earlier in this process, and a failed import of torch cannot be "
    "repeated. Restart the kernel (or the Python process) and `import workbench` before torch. "
    f"Where torch_npu is installed without CANN, workbench then sets {VARIABLE}=0 in time; to "
    f"import torch first, set {VARIABLE}=0 in the environment. With CANN, source its set_env.sh."
)


def ensure() -> None:
    """Turn torch's loading of backends off where it could only fail.

    A value of the variable that the user has set is left alone.

    Raises:
        MissingError: An import of torch has already failed in this process.
    """
    if "torch" in sys.modules:
        return
    if "torch._C" in sys.modules:  # left over: Python takes back only the name `torch` itself
        raise MissingError(RESTART)
    if VARIABLE not in os.environ and torch_npu_installed() and not cann_loadable():
        os.environ[VARIABLE] = "0"


def torch_npu_installed() -> bool:
    """Whether `import torch_npu` would find something. Imports nothing."""
    try:
        return importlib.util.find_spec("torch_npu") is not None
    except (ImportError, ValueError):  # half-removed, or put into sys.modules by hand
        return "torch_npu" in sys.modules


def cann_loadable() -> bool:
    """Whether this process can load CANN's libraries, the way torch_npu will try to."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    if any(folder and Path(folder, _LIBRARY).is_file() for folder in folders):
        return True
    try:  # known to the system's loader only (ld.so.conf)
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return False
    return True
