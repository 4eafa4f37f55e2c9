"""`synthesise`: a kernel that adds in a given order, generated."""

from __future__ import annotations

import os
from typing import Any

from workbench.errors import InputError
from workbench.orders.synthesise.asc import AscendKernel, SynthesisError, ascend_kernel
from workbench.orders.synthesise.host import HostKernel, host_kernel
from workbench.orders.tree import ReductionTree

__all__ = ["AscendKernel", "HostKernel", "SynthesisError", "synthesise"]


def synthesise(
    tree: ReductionTree,
    *,
    kind: str = "host",
    fused: Any = None,
    zero_start: bool = False,
    name: str = "dot_in_order",
    arch: str = "dav-2201",
    path: str | os.PathLike[str] | None = None,
    backend: str = "auto",
) -> HostKernel | AscendKernel:
    """A dot product whose additions are those of `tree`, as a compiled kernel.

    The kernel is called with (weight [R, n], x [n]) for [R], or with (hidden [N, n], weight [V, n])
    for [N, V]; fp32. Its bits are those of `dot(tree, …)`.

    Args:
        tree: An order of pairs over n >= 1 products.
        kind: "host": C++ for the CPU, any order of pairs. "ascend": Ascend C, for orders that are
            regular: lanes that step through the terms (as BLAS kernels add), one term after
            another, or tiles that `ReduceSum` adds.
        fused, zero_start: As in `dot`. No Ascend C is made for fused products. A kernel of
            `ReduceSum` starts at +0 whatever `zero_start` says, as the instruction is assumed to.
        name: Of the kernel.
        arch, path, backend: Of Ascend C: the architecture, where the source is written (a name
            in .asc; None: in the cache; a file that is there is replaced only if it was generated,
            too), and the backend it is built for.

    Raises:
        SynthesisError: The order is not regular enough, with the reason.
        InputError: An order or option that no kernel can have.
        BuildError, MissingError, CacheError: As `build` raises them.

    Example:
        >>> import numpy as np
        >>> tree = ReductionTree.from_nested([[0, 2], [1, 3]])
        >>> kernel = synthesise(tree)
        >>> kernel(np.float32([[1e8, 1, -1e8, 1]]), np.ones(4, np.float32))
        array([2.], dtype=float32)
    """
    if not isinstance(tree, ReductionTree):
        raise InputError(
            f"tree is a {type(tree).__name__}; wanted a ReductionTree, for example "
            "ReductionTree.from_nested([[0, 1], 2])"
        )
    if not isinstance(name, str):
        raise InputError(f"name={name!r}; wanted a text")
    if kind == "host":
        return host_kernel(tree, fused, zero_start, name)
    if kind == "ascend":
        return ascend_kernel(tree, fused, zero_start, name, arch, path, backend)
    raise InputError(f'kind={kind!r}; wanted "host" (C++) or "ascend" (Ascend C)')
