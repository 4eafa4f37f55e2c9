"""A library function as it is asked for parity: one shape, alignment and number of threads."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from workbench.errors import InputError, WorkbenchError
from workbench.orders.dot import fp32_array

_LINE = 64  # bytes; a tensor of its own starts on such a line

# name -> (kind, array): "mm" takes b as [n, columns], "linear" as [columns, n]. With one vector all
# but F.linear take b as [n].
_NAMES: dict[str, tuple[str, str, Callable[..., Any]]] = {
    "torch.mv": ("mv", "torch", torch.mv),
    "torch.matmul": ("mm", "torch", torch.matmul),
    "F.linear": ("linear", "torch", torch.nn.functional.linear),
    "numpy.dot": ("mm", "numpy", np.dot),
    "numpy.matmul": ("mm", "numpy", np.matmul),
}
NAMES = tuple(_NAMES)


class Asked:
    """A function of two operands, called again and again in one shape.

    Attributes:
        name, fn, kind, array: What is called, and how its operands lie.
        rows, columns, n: a is [rows, n]; b is [columns, n], or a vector where columns is None.
        threads: Of torch, during a call.
        offset: Elements by which the two operands lie behind a 64-byte line.
        calls: Calls so far.
    """

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any],
        kind: str,
        array: str,
        rows: int,
        columns: int | None,
        n: int,
        threads: int,
        offset: tuple[int, int] = (0, 0),
    ) -> None:
        self.name, self.fn, self.kind, self.array = name, fn, kind, array
        self.rows, self.columns, self.n, self.threads = rows, columns, n, threads
        self.offset = offset
        self.calls = 0
        self._a = aligned((rows, n), offset[0])
        self._b = aligned(self._b_shape(), offset[1])

    def _b_shape(self) -> tuple[int, ...]:
        if self.columns is None:
            return (self.n,)
        return (self.columns, self.n) if self.kind == "linear" else (self.n, self.columns)

    def one_row(self) -> Asked:
        """The same function for one row and one vector."""
        columns = None if self.columns is None else 1
        how = (self.n, self.threads, self.offset)
        return Asked(self.name, self.fn, self.kind, self.array, 1, columns, *how)

    # ---- operands ----------------------------------------------------------------------------

    def read(self, a: Any, b: Any) -> tuple[np.ndarray, np.ndarray, Any]:
        """(a [rows, n], b [columns, n], a as given) of operands as the function takes them."""
        left, right = fp32_array("the first operand", a), fp32_array("the second operand", b)
        if left.shape != (self.rows, self.n) or right.shape != self._b_shape():
            raise InputError(
                f"got operands {list(left.shape)} and {list(right.shape)}; this parity was found "
                f"for [{self.rows}, {self.n}] and {list(self._b_shape())}, and another shape may "
                "have another order. Call parity(…) for that shape"
            )
        if self.columns is None:
            right = right[None]
        elif self.kind != "linear":
            right = right.T
        return left, right, a

    def lies_otherwise(self, a: Any, b: Any, alignment: str) -> str | None:
        """How operands that were given lie otherwise than those that were asked, in words.

        None where they do not, or where moving that operand showed no change (`alignment`, as in a
        `ParityReport`).
        """
        moved = ["other bits" in words for words in alignment.split("; ")]
        for which, name, given in ((0, "first", a), (1, "second", b)):
            behind = self.offset[which]
            tensor = hasattr(given, "data_ptr")
            whole = given.is_contiguous() if tensor else given.flags.c_contiguous
            if not whole:
                return f"the {name} operand is not contiguous"
            at = given.data_ptr() if tensor else given.ctypes.data
            if moved[which] and at % _LINE != 4 * behind:
                return (
                    f"the {name} operand starts {at % _LINE} bytes behind a {_LINE}-byte line, "
                    f"not {4 * behind}"
                )
        return None

    def shaped(self, out: np.ndarray, given: Any) -> Any:
        """[rows, columns] as the function returns it, of the kind that was given."""
        out = out[:, 0] if self.columns is None else out
        return torch.from_numpy(np.ascontiguousarray(out)) if hasattr(given, "detach") else out

    # ---- calls -------------------------------------------------------------------------------

    def outputs(
        self,
        a: np.ndarray,
        b: np.ndarray,
        offset: tuple[int, int] | None = None,
        threads: int | None = None,
    ) -> np.ndarray:
        """fp32 [rows, columns] of a [rows, n] and b [columns, n].

        Args:
            offset, threads: Instead of `self.offset` and `self.threads`.
        """
        left, right = self._a, self._b
        if offset is not None:
            left = aligned((self.rows, self.n), offset[0])
            right = aligned(self._b_shape(), offset[1])
        left.numpy()[:] = a
        self._put_b(right, b)
        return self._call(left, right, threads)

    def _put_b(self, to: torch.Tensor, b: np.ndarray) -> None:
        if self.columns is None:
            to.numpy()[:] = b[0]
        elif self.kind == "linear":
            to.numpy()[:] = b
        else:
            to.numpy()[:] = b.T

    def _call(self, a: torch.Tensor, b: torch.Tensor, threads: int | None = None) -> np.ndarray:
        self.calls += 1
        try:
            with _threads(self.threads if threads is None else threads), np.errstate(all="ignore"):
                if self.array == "numpy":
                    found = self.fn(a.numpy(), b.numpy())
                else:
                    found = self.fn(a, b)
        except WorkbenchError:
            raise
        except Exception as error:
            raise InputError(
                f"{self.name} raised {type(error).__name__}: {error} on operands {list(a.shape)} "
                f"and {list(b.shape)}, fp32. Wanted a function of (weight [rows, n], x [n])"
            ) from error
        if hasattr(found, "detach"):
            found = found.detach().numpy()
        found = np.asarray(found)
        wanted = (self.rows,) if self.columns is None else (self.rows, self.columns)
        if found.dtype != np.float32 or found.shape != wanted:
            raise InputError(
                f"{self.name} returned {found.dtype} {list(found.shape)}; wanted fp32 "
                f"{list(wanted)}: one sum of {self.n} products for each row"
            )
        return np.array(found).reshape(self.rows, self.columns or 1)

    def sums(self, chosen: np.ndarray) -> Sums:
        """The chosen outputs (bool [rows, columns]) as sums that can be asked many at a time."""
        return Sums(self, chosen)


class Sums:
    """sums(terms [K, n], fixed [n]): K sums of products, each at one of the chosen outputs.

    The terms lie in the operand that has more of these outputs, `fixed` (ones where left out) in
    the other. The rows that are not asked keep what they had.

    Attributes:
        width: Sums of one call.
    """

    __name__ = "sums"

    def __init__(self, asked: Asked, chosen: np.ndarray) -> None:
        self._asked = asked
        by_row, by_column = chosen.sum(1), chosen.sum(0)
        self._left = by_column.max() >= by_row.max()
        self._other = int(by_column.argmax() if self._left else by_row.argmax())
        lines = chosen[:, self._other] if self._left else chosen[self._other]
        self._at = np.flatnonzero(lines)
        self.width = len(self._at)

    def __call__(self, terms: Any, fixed: Any = None) -> np.ndarray:
        asked = self._asked
        terms = np.asarray(terms, np.float32)
        other = np.ones(asked.n, np.float32) if fixed is None else np.asarray(fixed, np.float32)
        a, b = asked._a, asked._b
        # Views in which each vector of an operand is a row.
        left = a.numpy()
        right = b.numpy()
        right = right[None] if asked.columns is None else right
        right = right.T if asked.columns is not None and asked.kind != "linear" else right
        many, few = (left, right) if self._left else (right, left)
        few[:] = other
        out = np.empty(len(terms), np.float32)
        for start in range(0, len(terms), self.width):
            part = terms[start : start + self.width]
            at = self._at[: len(part)]
            if len(at) == 1:
                many[at[0]] = part[0]
            else:
                many[at] = part
            found = asked._call(a, b)
            out[start : start + len(part)] = (
                found[at, self._other] if self._left else found[self._other, at]
            )
        return out


def asked_of(
    target: Any,
    rows: int,
    n: int,
    columns: int | None = None,
    threads: int | None = None,
    offset: tuple[int, int] = (0, 0),
) -> Asked:
    """The function in the form that is asked; see `parity`."""
    for what, value in (("rows", rows), ("n", n), ("columns", columns), ("threads", threads)):
        optional = value is None and what in ("columns", "threads")
        if not optional and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise InputError(f"{what}={value!r}; wanted a whole number of at least 1")
    if isinstance(target, str):
        if target not in _NAMES:
            raise InputError(
                f"target {target!r} is unknown; known ones are {', '.join(NAMES)}, or give a "
                "callable of (weight [rows, n], x [n])"
            )
        kind, array, fn = _NAMES[target]
        name = target
    elif callable(target):
        kind, array, fn = "mv", "torch", target
        name = getattr(target, "__name__", None) or type(target).__name__
    else:
        raise InputError(
            f"target is a {type(target).__name__}; wanted a name among {', '.join(NAMES)} or a "
            "callable of (weight [rows, n], x [n])"
        )
    if kind == "linear" and columns is None:
        raise InputError(f"{name} takes weight [columns, n]; give columns=1 or more")
    if kind == "mv" and columns is not None:
        raise InputError(f"{name} takes one vector; leave out columns={columns}")
    if (
        not isinstance(offset, (tuple, list))
        or len(offset) != 2
        or not all(
            isinstance(o, int) and not isinstance(o, bool) and 0 <= o < _LINE // 4 for o in offset
        )
    ):
        raise InputError(f"offset={offset!r}; wanted two numbers of elements from 0 to 15")
    threads = threads or torch.get_num_threads()
    return Asked(name, fn, kind, array, rows, columns, n, threads, (offset[0], offset[1]))


def aligned(shape: tuple[int, ...], behind: int = 0) -> torch.Tensor:
    """An fp32 tensor of zeros that starts `behind` elements behind a 64-byte line."""
    count = int(np.prod(shape))
    per_line = _LINE // 4
    flat = torch.zeros(count + 2 * per_line, dtype=torch.float32)
    start = (-(flat.data_ptr() // 4) % per_line) + behind
    return flat[start : start + count].view(shape)


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    if before != count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        if torch.get_num_threads() != before:  # also where the function itself set it
            torch.set_num_threads(before)
