"""Source + constants + toolchain -> a loaded kernel in this process.

`workbench.build` is a package and a function: `wb.build("lm_head", cfg)` is
`workbench.build.builder.build`.
"""

from workbench._callable import make_callable
from workbench.build.arch import Arch
from workbench.build.builder import build
from workbench.build.config import KernelConfig, spec
from workbench.build.kernel import Kernel, KernelInfo

__all__ = ["Arch", "Kernel", "KernelConfig", "KernelInfo", "build", "spec"]

make_callable(__name__, build)
