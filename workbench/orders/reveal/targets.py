"""What an order is asked of: kernels, library functions by name, and the user's callables.

A `Target` hides how the terms reach the sum. Where a function takes two operands, the terms go into
one of them and ones into the other, so that every product is exact and the order is that of the
sums alone.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.errors import InputError, WorkbenchError
from workbench.orders.reveal.libraries import KINDS, NAMES, function_of, new_matrix, ones_like

BATCH_BYTES = 32 << 20
_MOST_TERMS = 1 << 33  # numbers in an operand; more is surely a mistake, and no memory holds them

# Storage in numpy (bf16 has none there: its bits are kept as integers), largest exact count.
_STORED = {"fp32": np.float32, "fp64": np.float64, "fp16": np.float16, "bf16": np.int16}
COUNTS = {"fp16": 1 << 11, "bf16": 1 << 8, "fp32": 1 << 24, "fp64": 1 << 53}
# The large value and the unit of a probe, powers of two of the input dtype but for fp16: its range
# is short, so the unit is its smallest subnormal, and M = 3 * 2^14 has the same ulp on both sides.
VALUES = {
    "fp32": (2.0**127, 1.0),
    "bf16": (2.0**127, 1.0),
    "fp64": (2.0**1000, 1.0),
    "fp16": (3 * 2.0**14, 2.0**-24),
}
# Where an fp32 accumulator swallows units beside M: a count times the unit stays below half an ulp.
_SWALLOWED = {"fp16": 1 << 15}


class RevealError(WorkbenchError, RuntimeError):
    """A function whose order of summation cannot be revealed.

    Attributes:
        reason: "not a sum", "not repeatable", "rows not independent", "value-dependent",
            "accumulator too narrow", "changes its argument", "inconsistent", "raised",
            "compensated" or "unexplained".
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass
class Target:
    """A function that sums n terms, in a form that can be probed. Made by `target_of`.

    Attributes:
        name: As given: "torch.mv", "lm_head", the callable's name.
        n: Number of terms.
        dtype: Of the terms: "fp32", "fp64", "fp16" or "bf16".
        array: "torch" or "numpy": what the function is given.
        run: `run(terms [S, n], fixed [n] or None) -> [S]`, arrays of that kind; `fixed` is the
            other operand of every product (ones if None).
        slots: Sums in one call where the shape is part of the question; None: any number.
        slot: The one of them that is asked for.
        shape: The shape in words, e.g. {"rows": 257, "row": 256}; empty where it is free.
        operands: 2 if the terms are multiplied with another operand, else 1.
        backend, arch, config, fn: For the evidence.
        positions: Slots that are known to share the order of `slot`; a call probes them all.
        watched: Whether each call is checked for having changed its argument.
        calls: Calls so far.
    """

    name: str
    n: int
    dtype: str
    array: str
    run: Callable[[Any, Any], Any]
    slots: int | None = None
    slot: int = 0
    shape: dict[str, int] = field(default_factory=dict)
    operands: int = 1
    backend: str | None = None
    arch: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    fn: Any = None
    positions: tuple[int, ...] = ()
    calls: int = 0
    batch_bytes: int = BATCH_BYTES
    out_dtype: str = ""
    watched: bool = True
    _room: np.ndarray | None = field(default=None, repr=False)
    _held: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.positions:
            self.positions = (self.slot,)

    @property
    def big(self) -> float:
        """The large value M that swallows units."""
        return VALUES[self.dtype][0]

    @property
    def unit(self) -> float:
        """The unit that is counted."""
        return VALUES[self.dtype][1]

    @property
    def rows_per_call(self) -> int:
        """Sums in one call: what `batch_bytes` allows, or the positions of a fixed shape."""
        if self.slots is not None:
            return len(self.positions)
        return max(1, self.batch_bytes // max(1, self.n * self.stored.itemsize))

    @property
    def stored(self) -> np.dtype:
        """numpy dtype in which terms are kept; int16 for the bits of bf16."""
        return np.dtype(_STORED[self.dtype])

    def encode(self, values: Any) -> np.ndarray:
        """`values` rounded to the dtype of the terms, as they are stored."""
        values = np.asarray(values)
        if self.dtype != "bf16":
            with np.errstate(over="ignore"):
                return values.astype(self.stored, copy=False)
        import torch

        return torch.from_numpy(values.astype(np.float32)).bfloat16().view(torch.int16).numpy()

    def decode(self, stored: np.ndarray) -> np.ndarray:
        """The values of stored terms: fp64 of fp64, else fp32."""
        if self.dtype == "bf16":
            return (stored.astype(np.int32) << 16).view(np.float32)
        return stored if self.dtype == "fp64" else stored.astype(np.float32, copy=False)

    def sums(self, terms: Any, fixed: Any = None) -> np.ndarray:
        """The function's sums of `terms`.

        Args:
            terms: [R, n] numbers; rounded to the dtype of the terms.
            fixed: [n], the other operand of each product, rounded likewise; None: ones.

        Returns:
            [R]; fp64 where the function returns fp64, else fp32 (16-bit results are widened).
        """
        stored = np.array(self.encode(np.atleast_2d(terms)), order="C")  # never the caller's own
        other = None if fixed is None else self._given(self.encode(fixed))
        if self.slots is None:
            parts = [
                self.call(stored[at : at + self.rows_per_call], other)
                for at in range(0, len(stored), self.rows_per_call)
            ]
            return np.concatenate(parts) if parts else np.zeros(0, np.float32)
        at, step = list(self.positions), len(self.positions)
        matrix = np.empty((self.slots, self.n), self.stored)
        matrix[:] = self.encode(1.0)
        out = []
        for low in range(0, len(stored), step):
            part = stored[low : low + step]
            matrix[at[: len(part)]] = part
            out.append(self.call(matrix, other)[at[: len(part)]])
        return np.concatenate(out) if out else np.zeros(0, np.float32)

    def call(self, stored: np.ndarray, other: Any = None) -> np.ndarray:
        """One call on stored terms [S, n]; the results [S]."""
        self.calls += 1
        held = self._copy(stored) if self.watched else stored
        try:
            with np.errstate(all="ignore"):  # M is close to the end of the range
                found = self.run(self._given(stored), other)
        except WorkbenchError:
            raise
        except Exception as error:
            raise RevealError(
                f"{self.name} raised {type(error).__name__}: {error} on terms {list(stored.shape)} "
                f"of {self.dtype} ({self.array}). Wanted: a function of terms [R, n] that returns "
                "R sums",
                "raised",
            ) from error
        if held is not stored and not np.array_equal(_as_ints(held), _as_ints(stored)):
            raise RevealError(
                f"{self.name} changes the terms it is given (seen in call {self.calls}, of "
                f"{len(stored)} rows); wanted a function that leaves its argument as it is (let it "
                "work on a copy)",
                "changes its argument",
            )
        found = self._numbers(found)
        if found.size != len(stored):
            raise RevealError(
                f"{self.name} returned {list(found.shape)} for terms {list(stored.shape)}; wanted "
                f"one sum a row: [{len(stored)}]. Sum over the last dimension, e.g. "
                "lambda terms: terms.sum(-1)",
                "not a sum",
            )
        return found.reshape(-1)

    def _given(self, stored: np.ndarray) -> Any:
        if self.array == "numpy":
            return stored
        import torch

        tensor = torch.from_numpy(stored)
        return tensor.view(torch.bfloat16) if self.dtype == "bf16" else tensor

    def _numbers(self, found: Any) -> np.ndarray:
        """The results as fp32 or fp64, and their own dtype noted."""
        name = str(getattr(found, "dtype", "")).removeprefix("torch.")
        short = {"float32": "fp32", "float64": "fp64", "float16": "fp16", "bfloat16": "bf16"}
        if hasattr(found, "detach"):
            found = found.detach().cpu()
            found = found.float() if name in ("bfloat16", "float16") else found
        numbers = np.asarray(found)
        if numbers.dtype.kind != "f":
            raise RevealError(
                f"{self.name} returned {type(found).__name__} of {numbers.dtype}; wanted floating "
                "point sums",
                "not a sum",
            )
        self.out_dtype = short.get(name, "fp64" if numbers.dtype == np.float64 else "fp32")
        return numbers if numbers.dtype == np.float64 else numbers.astype(np.float32, copy=False)

    def room(self, rows: int) -> np.ndarray:
        """Memory for a call's terms, [rows, n], kept for the next: fresh pages are slow."""
        if self._room is None or len(self._room) < rows:
            self._room = np.empty((rows, self.n), self.stored)
        return self._room[:rows]

    def _copy(self, stored: np.ndarray) -> np.ndarray:
        """A copy of a call's terms, in memory that is kept for the next."""
        if self._held is None or len(self._held) < len(stored):
            self._held = np.empty((len(stored), self.n), self.stored)
        held = self._held[: len(stored)]
        held[:] = stored
        return held

    def forget(self) -> None:
        """Give the memory of earlier calls back."""
        self._room = self._held = None

    def at(self, positions: Sequence[int]) -> Target:
        """The same target asked at these slots, which are known to share one order."""
        positions = tuple(int(p) for p in positions)
        return dataclasses.replace(
            self, slot=positions[0], positions=positions, calls=0, _room=None, _held=None
        )


def _as_ints(terms: np.ndarray) -> np.ndarray:
    """The bits of stored terms, as integers that are quickly compared (a NaN equals itself)."""
    flat = terms.reshape(-1)
    return flat.view("u8" if flat.nbytes % 8 == 0 else f"u{flat.itemsize}")


# ---- who is asked --------------------------------------------------------------------------------


def target_of(
    target: Any,
    n: int,
    *,
    dtype: str = "fp32",
    rows: int | None = None,
    row: int = 0,
    columns: int | None = None,
    column: int = 0,
    array: str = "auto",
    batch_bytes: int = BATCH_BYTES,
) -> Target:
    """`target` in the form that is probed.

    Args:
        target: A `Target` of n terms (returned as it is), a kernel of `wb.build` or an operator
            (lm_head, det_gemm), the name of one, a name of NAMES, or a callable of terms
            [R, n] -> [R].
        n: Number of terms.
        dtype: Of the terms: "fp32", "fp64", "fp16" or "bf16".
        rows, columns: Shape of the call where that is part of the question: library functions
            (1 where left out), and others where given. None: as many rows as are asked for.
        row, column: The output that is asked for.
        array: What a callable is given: "torch", "numpy", or "auto" (torch, and numpy where that
            raises or returns no tensor).
        batch_bytes: Terms in one call, in bytes.

    Raises:
        InputError: No such name, dtype or output; n < 0, or another than that of a `Target`.
        RevealError: A callable that takes neither kind of array, or returns no sums.

    Example:
        >>> target_of("numpy.sum", 3).sums([[1, 2, 3]])
        array([6.], dtype=float32)
    """
    if isinstance(target, Target):
        if target.n != n:
            raise InputError(f"{target.name} is a Target of {target.n} terms; got n={n}")
        return target
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
        raise InputError(f"n={n!r}; wanted a whole number of terms")
    n = int(n)
    if n < 0:
        raise InputError(f"n={n}: a sum has 0 or more terms")
    if dtype not in _STORED:
        raise InputError(f"dtype={dtype!r}; wanted one of {', '.join(_STORED)}")
    if array not in ("auto", "torch", "numpy"):
        raise InputError(f"array={array!r}; wanted 'auto', 'torch' or 'numpy'")
    if isinstance(target, str) and target not in KINDS:
        target = _shipped(target)
    named = isinstance(target, str)
    if named or columns is not None:
        rows = 1 if rows is None else rows
        columns = 1 if columns is None else columns
    for what, number in (("rows", rows), ("columns", columns), ("row", row), ("column", column)):
        whole = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
        if not whole and (number is not None or what in ("row", "column")):
            raise InputError(f"{what}={number!r}; wanted a whole number")
    if n * max(rows or 1, columns or 1) > _MOST_TERMS:
        raise InputError(
            f"n={n:,} with rows={rows}, columns={columns} makes operands of more than "
            f"{_MOST_TERMS:,} numbers; give smaller sizes"
        )
    for what, size, at in (("row", rows, row), ("column", columns, column)):
        if size is not None and size < 1:
            raise InputError(f"{what}s={size}; wanted 1 or more")
        if not 0 <= at < (size or at + 1):
            more = f". {what}s={at + 1} would be a call that has it" if at > 0 else ""
            raise InputError(
                f"{what}={at} of {size or 1} {what}s; wanted 0 to {(size or 1) - 1}{more}"
            )
    common: dict[str, Any] = {"n": n, "dtype": dtype, "batch_bytes": batch_bytes}
    if named:
        kind, of = KINDS[target]
        if of == "numpy" and dtype == "bf16":
            raise InputError(f"{target} has no bf16; wanted fp32, fp64 or fp16")
        fn = function_of(target)
        if kind in ("rows", "mv", "dot"):
            if columns != 1 or (kind == "dot" and rows != 1):
                raise InputError(
                    f"{target} has {'one output' if kind == 'dot' else 'no columns'}; got "
                    f"rows={rows}, columns={columns}"
                )
            run = _one(fn) if kind == "rows" else _mv(fn)
            return Target(
                target,
                array=of,
                run=run,
                slots=rows,
                slot=row,
                shape={"rows": rows or 1, "row": row},
                operands=1 if kind == "rows" else 2,
                fn=fn,
                watched=False,
                **common,
            )
        about = {"fn": fn, "watched": False}
        return _product(target, fn, kind, of, rows, row, columns, column, common, about)
    return _object(target, rows, row, columns, column, array, common)


_POSITIVE = "its sum has positive terms only: see orders.reveal.positive"


def _shipped(name: str) -> Any:
    if name == "batch_invariant_logp":
        raise InputError(f"{name}: {_POSITIVE}")
    if name not in ("lm_head", "det_gemm"):
        raise InputError(
            f"target {name!r} is unknown; known ones are lm_head, det_gemm, batch_invariant_logp, "
            f"{', '.join(NAMES)}, a kernel of workbench.build, or a callable of terms [R, n] that "
            "returns R sums"
        )
    from workbench.build import builder

    return builder.build(name)


def _one(fn: Callable) -> Callable[[Any, Any], Any]:
    return lambda terms, fixed: fn(terms)


def _mv(fn: Callable) -> Callable[[Any, Any], Any]:
    return lambda terms, fixed: fn(terms, ones_like(terms[0]) if fixed is None else fixed)


def _product(
    name: str,
    fn: Callable,
    kind: str,
    array: str,
    rows: Any,
    row: int,
    columns: Any,
    column: int,
    common: dict[str, Any],
    about: dict[str, Any],
) -> Target:
    """A product of matrices of a fixed shape; the terms lie in the operand with more sums."""
    left = rows >= columns

    def run(terms: Any, fixed: Any) -> Any:
        vector = ones_like(terms[0]) if fixed is None else fixed
        other = vector.reshape(1, -1).repeat(*_times(array, columns if left else rows))
        a, b = (terms, other) if left else (other, terms)
        # b is kept as [columns, n]; a view would be another call than the one people make
        found = fn(a, b if kind == "linear" else new_matrix(b.T))
        return found[:, column] if left else found[row]

    shape = {"rows": rows, "row": row, "columns": columns, "column": column}
    return Target(
        name,
        array=array,
        run=run,
        slots=rows if left else columns,
        slot=row if left else column,
        shape=shape,
        operands=2,
        **about,
        **common,
    )


def _times(array: str, count: int) -> tuple[int, ...]:
    return (count, 0) if array == "numpy" else (count, 1)


def _object(
    target: Any,
    rows: Any,
    row: int,
    columns: Any,
    column: int,
    array: str,
    common: dict[str, Any],
) -> Target:
    """A kernel, an operator or a callable."""
    from workbench.build.kernel import Kernel

    found = _linear(target)
    if found is None and isinstance(target, Kernel):
        what = target.info.name
        raise InputError(
            f"{what}: how its terms are passed is not known"
            + (
                f"; {_POSITIVE}"
                if "logp" in what
                else ". Give a callable of terms [R, n] that launches it and returns R sums"
            )
        )
    if found is not None:
        name, kind, fn = found
        info, config = getattr(target, "info", None), getattr(target, "config", None)
        about = {
            "backend": getattr(info, "backend", getattr(target, "backend", None)),
            "arch": getattr(info, "arch", getattr(config, "arch", None)),
            "config": config.to_dict() if config is not None else {},
            "fn": target,
        }
        if rows is not None:
            return _product(name, fn, kind, "torch", rows, row, columns or 1, column, common, about)

        def free(terms: Any, fixed: Any) -> Any:
            one = ones_like(terms[:1]) if fixed is None else fixed.reshape(1, -1)
            return fn(terms, one if kind == "linear" else new_matrix(one.T))[:, 0]

        return Target(name, array="torch", run=free, operands=2, **common, **about)
    if not callable(target):
        raise InputError(
            f"target is a {type(target).__name__}; wanted a kernel, a name or a callable of terms "
            "[R, n] that returns R sums"
        )
    if columns not in (None, 1):
        raise InputError(f"columns={columns}: a callable of terms [R, n] has rows only")
    name = getattr(target, "__name__", None) or type(target).__name__
    made = Target(
        name,
        array="torch" if array == "auto" else array,
        run=_one(target),
        slots=rows,
        slot=row,
        shape={} if rows is None else {"rows": rows, "row": row},
        fn=target,
        **common,
    )
    if array == "auto" and common["dtype"] != "bf16":
        made.array = _array_for(made)
    return made


def _array_for(target: Target) -> str:
    """torch where the callable takes tensors and returns one; else numpy."""
    import torch

    terms = np.ones((target.slots or 1, target.n), target.stored)
    try:
        with warnings.catch_warnings():
            # numpy's own functions wrap a tensor's data, for now: they are numpy's all the same
            warnings.filterwarnings("error", message=".*__array_wrap__")
            if isinstance(target.run(torch.from_numpy(terms), None), torch.Tensor):
                return "torch"
    except Exception:
        return "numpy"  # if that raises too, the first call says so
    return "numpy"


def _linear(target: Any) -> tuple[str, str, Callable] | None:
    """(name, kind, fn with fp32 results) of a kernel or operator that multiplies two operands."""
    from workbench.ops import det_gemm, lm_head, native

    if isinstance(target, lm_head.LMHeadKernel):
        import torch

        return target.info.name, "linear", lambda a, b: target(a, b, out_dtype=torch.float32)
    if isinstance(target, det_gemm.DetGemmKernel):
        import torch

        return target.info.name, "mm", lambda a, b: target(a, b, out_dtype=torch.float32)
    if isinstance(target, (lm_head.AscendLMHeadOp, native.NativeLMHeadOp)):
        return type(target).__name__, "linear", target.forward_fp32
    if isinstance(target, (det_gemm.AscendDetGemmOp, native.NativeDetGemmOp)):
        return type(target).__name__, "mm", target.forward_fp32
    return None


def counts_exactly(target: Target) -> int:
    """The largest number of units that the results can hold, and M can swallow."""
    return min(COUNTS[target.out_dtype or "fp32"], _SWALLOWED.get(target.dtype, math.inf))  # type: ignore[return-value]
