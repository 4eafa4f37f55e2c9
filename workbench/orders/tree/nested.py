"""Trees written as nested lists: read, written, and composed. No recursion, any depth."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np

from workbench.errors import InputError

if TYPE_CHECKING:
    from workbench.orders.tree.reduction import ReductionTree

# A leaf number, a finished tree, or a list of such things: one list is one node.
Nested: TypeAlias = Union[int, "ReductionTree", Sequence["Nested"]]

_TOKEN = re.compile(r"\s*(\[|\]|,|[0-9]+)")
_END = object()
_DIGITS = 40  # of a term number; a longer one is surely none


# -------------------------------------------------------------------- in and out


def parse(nested: Nested) -> tuple[int, np.ndarray, np.ndarray]:
    """(leaves, children, offsets) of nested lists, as `ReductionTree` stores them.

    Raises:
        InputError: A term number is missing, repeated or negative, or a part is no list.
    """
    leaf_nodes: list[int] = []  # term numbers in the order met
    inner: list[list[int]] = []  # children; ~k is the k-th leaf met, k the k-th inner node
    # A frame is an iterator over a list and the children collected from it so far.
    frames: list[tuple] = [(iter((nested,)), [])]
    while True:
        iterator, collected = frames[-1]
        item = next(iterator, _END)
        if hasattr(item, "to_nested"):
            item = item.to_nested()
        if item is _END:
            frames.pop()
            if not frames:
                break
            if not collected:
                if len(frames) == 1:  # the outermost list is empty: the empty sum
                    break
                raise InputError(
                    "the nested lists hold an empty list inside another; every node needs at "
                    "least one term. Leave the empty list out"
                )
            if len(collected) == 1:
                frames[-1][1].append(collected[0])
            else:
                inner.append(collected)
                frames[-1][1].append(len(inner) - 1)
        elif isinstance(item, (list, tuple, range)):
            frames.append((iter(item), []))
        else:
            leaf_nodes.append(_term_number(item))
            collected.append(~(len(leaf_nodes) - 1))
    n = len(leaf_nodes)
    _check_terms(leaf_nodes)
    flat = [leaf_nodes[~c] if c < 0 else n + c for node in inner for c in node]
    sizes = [0, *(len(node) for node in inner)]
    return n, np.array(flat, np.int64), np.cumsum(sizes, dtype=np.int64)


def parse_json(text: str) -> list | int:
    """The nested lists of a JSON text; any depth, which `json.loads` does not read."""
    if not isinstance(text, str):
        raise InputError(
            f"got a {type(text).__name__}; wanted a text like '[[0,1],2]', as `to_json` writes. "
            "Nested lists are read by `from_nested`"
        )
    stack: list[list] = [[]]  # stack[0] collects the one outermost value
    at, end, before = 0, len(text.rstrip()), ","
    while at < end:
        match = _TOKEN.match(text, at)
        token = match.group(1) if match else "?"
        if token == "[" or token.isdecimal():
            fits = before in "[,"
        elif token == "]":
            fits = len(stack) > 1 and before != ","
        else:
            fits = token == "," and len(stack) > 1 and before not in "[,"
        if not match or not fits:
            raise InputError(
                f"a tree is nested lists of term numbers like [[0,1],2]; character {at} of "
                f"the text does not fit: {text[at : at + 10]!r}. Write trees with `to_json`"
            )
        at, before = match.end(), token
        if token == "[":
            stack.append([])
        elif token == "]":
            done = stack.pop()
            stack[-1].append(done)
        elif token != ",":
            if len(token) > _DIGITS:
                raise InputError(f"character {at} begins a number of {len(token)} digits: no term")
            stack[-1].append(int(token))
    if len(stack) != 1 or not stack[0]:
        raise InputError(
            "a tree is nested lists of term numbers like [[0,1],2]; this text is "
            f"{'cut off' if stack[0] or len(stack) > 1 else 'empty'}: {text[:40]!r}"
        )
    return stack[0][0]


def write_json(
    leaves: int, nodes: Sequence[Sequence[int]], root: int, limit: int | None = None
) -> str:
    """The subtree below `root` as JSON text; cut after about `limit` characters with " …"."""
    out: list[str] = []
    todo: list = [root]  # node ids, and finished pieces of text
    written = 0
    while todo:
        item = todo.pop()
        if not isinstance(item, str):
            if item < leaves:
                item = str(item)
            else:
                todo.append("]")
                for i, child in enumerate(reversed(nodes[item - leaves])):
                    todo += [","] if i else []
                    todo.append(child)
                item = "["
        out.append(item)
        written += len(item)
        if limit is not None and written > limit and todo:
            return "".join([*out, " …"])
    return "".join(out)


def _term_number(item: object) -> int:
    try:
        if isinstance(item, (bool, np.bool_)):
            raise TypeError
        return operator.index(item)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(
            f"a tree holds term numbers and lists of them; got {item!r} of type "
            f"{type(item).__name__}. Write (x0 + x1) + x2 as [[0, 1], 2]"
        ) from None


def _check_terms(numbers: list[int]) -> None:
    n = len(numbers)
    seen = set(numbers)
    if len(seen) == n and (not n or (min(seen) == 0 and max(seen) == n - 1)):
        return
    bad = sorted(i for i in seen if not 0 <= i < n)
    missing = next((i for i in range(n) if i not in seen), None)
    raise InputError(
        f"a tree of {n} leaves holds each of the terms 0..{n - 1} once; "
        + (f"number {bad[0]} is out of range" if bad else "a term is repeated")
        + f" and term {missing} is missing. Number the terms from 0 without gaps"
    )


# -------------------------------------------------------------------- composition


def sequential(items: Iterable[Nested]) -> Nested:
    """`items` added from left to right: ((a + b) + c) + d.

    Args:
        items: Term numbers, nested lists or trees; at least one.

    Example:
        >>> sequential(range(4))
        [[[0, 1], 2], 3]
    """
    return _not_empty(functools.reduce(paired, items, None))


def adjacent_pairs(items: Iterable[Nested]) -> Nested:
    """`items` added as neighbours, then the results as neighbours, until one remains.

    An odd last item is passed on to the next level as it is. A full power of two gives the
    balanced tree of one `ReduceSum` repeat (not a halving tree, which adds i and i + n/2).

    Args:
        items: Term numbers, nested lists or trees; at least one.

    Example:
        >>> adjacent_pairs(range(5))
        [[[0, 1], [2, 3]], 4]
    """
    return by_levels(
        items, lambda level: [joined(level[i : i + 2]) for i in range(0, len(level), 2)]
    )


def by_levels(items: Iterable[Nested], once: Callable[[list], list]) -> Nested:
    """Apply `once`, which shortens a list of nodes, until one node remains."""
    level = list(items)
    while len(level) > 1:
        level = once(level)
    return _not_empty(level[0] if level else None)


def paired(left: Nested | None, right: Nested) -> Nested:
    return right if left is None else [left, right]


def joined(items: list[Nested]) -> Nested:
    return items[0] if len(items) == 1 else items


def _not_empty(nested: Nested | None) -> Nested:
    if nested is None:
        raise InputError("there is nothing to add: give at least one term, leaf or subtree")
    return nested
