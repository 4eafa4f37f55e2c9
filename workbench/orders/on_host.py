"""A kernel's stand-in on the host: the same bits at real sizes, proven on a part of every call."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from workbench._result import Result
from workbench.errors import InputError, WorkbenchError
from workbench.evidence import hex_bits, raw_bits
from workbench.orders.linear import config_of, linear

HOW = "host kernel, order-exact"
BACKEND = "host"  # in evidence: neither the twin nor a device computed these outputs


@dataclass(frozen=True)
class Compared(Result):
    """What of a call was also computed by the kernel itself, and had the same raw bits.

    Attributes:
        backend: Of the kernel.
        part: Rows and columns (vocabulary ids) that were compared.
        outputs: Rows and columns of the call.
    """

    backend: str
    part: tuple[int, int]
    outputs: tuple[int, int]


class OnHost:
    """An LM head on the twin, computed by `linear` in its order.

    It is called as the kernel is, for example by `drift`, and every call is checked: rows and
    columns spread over the outputs are computed by the kernel too, and their raw bits must be
    equal. Evidence names it "lm_head: host kernel, order-exact" with backend "host". It says
    nothing about schedules and counters: for those ask the kernel.

    Args:
        kernel: An LM head built for the twin.
        rows, columns: How many outputs of a call the kernel computes too: rows x columns.

    Attributes:
        kernel, config, spec: The kernel and what it is built from.
        info: Name, backend and architecture, for evidence.
        last: `Compared` of the last call; None before one, or if it had no outputs.

    Raises:
        InputError: Not an LM head on the twin.

    Example:
        >>> import torch, workbench as wb
        >>> kernel = wb.build("lm_head", wb.KernelConfig(tile_length=64), backend="twin")
        >>> stand_in = OnHost(kernel)
        >>> stand_in(torch.ones(2, 8), torch.ones(3, 8)).tolist()
        [[8.0, 8.0, 8.0], [8.0, 8.0, 8.0]]
        >>> stand_in.last.part
        (2, 3)
    """

    def __init__(self, kernel: Any, rows: int = 4, columns: int = 64) -> None:
        self.kernel, self.spec = kernel, getattr(kernel, "spec", None)
        op, backend = getattr(self.spec, "op", None), getattr(kernel, "info", None)
        if op != "lm_head" or getattr(backend, "backend", None) != "twin":
            raise InputError(
                f"{kernel!r:.80} is not an LM head on the twin, whose bits these are; give "
                'wb.build("lm_head", config, backend="twin")'
            )
        if min(rows, columns) < 1:
            raise InputError(f"rows={rows}, columns={columns}; at least one output is compared")
        self.rows, self.columns = rows, columns
        self.config = config_of(kernel, "lm_head")
        self.info = SimpleNamespace(
            name=f"{op}: {HOW}", backend=BACKEND, arch=self.config.arch, fidelity=HOW
        )
        self.last: Compared | None = None

    def __call__(
        self,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        out_dtype: torch.dtype | None = None,
        *,
        threads: int | None = None,
    ) -> torch.Tensor:
        """Logits [..., V], as `linear` gives them.

        Raises:
            InputError: What `linear` refuses.
            WorkbenchError: The kernel gave other bits for an output.
        """
        self.last = None
        out = linear(hidden, weight, self.config, bias, out_dtype, threads=threads)
        if not out.numel():
            return out
        logits = out.view(-1, len(weight))
        flat = hidden.reshape(len(logits), hidden.shape[-1])
        some = _spread(len(logits), self.rows), _spread(len(weight), self.columns)
        added = None if bias is None else bias[some[1]]
        want = self.kernel(flat[some[0]], weight[some[1]], added, out_dtype)
        got = logits[some[0]][:, some[1]]
        other = (raw_bits(got) != raw_bits(want)).nonzero()
        if len(other):
            n, v = other[0].tolist()
            raise WorkbenchError(
                f"logit [{int(some[0][n])}, {int(some[1][v])}] is {hex_bits(got[n, v])} by the "
                f"host kernel and {hex_bits(want[n, v])} by the kernel; {len(other)} of "
                f"{got.numel()} that were compared differ. Use the kernel, and report this"
            )
        part = len(some[0]), len(some[1])
        self.last = Compared(self.kernel.info.backend, part, (len(logits), len(weight)))
        return out

    def __repr__(self) -> str:
        return f"OnHost({self.config!r})"


def _spread(count: int, most: int) -> torch.Tensor:
    """Up to `most` indices below `count`, the first and the last among them."""
    return (
        torch.linspace(0, count - 1, min(count, most), dtype=torch.float64, device="cpu")
        .round()
        .long()
    )
