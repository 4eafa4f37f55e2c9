"""Random trees for property tests, as nested lists; and slow, plain ways to read them."""

from __future__ import annotations

from hypothesis import strategies as st


@st.composite
def nested_trees(draw, most: int = 30, arity: int = 2, least: int = 1):
    """(n, nested lists): a random association of a random permutation of 0..n-1."""
    n = draw(st.integers(least, most))
    parts: list = list(draw(st.permutations(range(n))))
    while len(parts) > 1:
        width = draw(st.integers(2, min(arity, len(parts))))
        at = draw(st.integers(0, len(parts) - width))
        parts[at : at + width] = [parts[at : at + width]]
    return n, parts[0]


def mirrored(nested):
    """The same tree with all children the other way round."""
    return nested if isinstance(nested, int) else [mirrored(x) for x in reversed(nested)]


def terms_of(nested) -> frozenset[int]:
    if isinstance(nested, int):
        return frozenset([nested])
    return frozenset().union(*map(terms_of, nested))


def clades(nested) -> set[frozenset[int]]:
    """The sets of terms of all partial sums: what an order is."""
    if isinstance(nested, int):
        return set()
    return {terms_of(nested)}.union(*map(clades, nested))


def shifted(nested, by: int):
    return nested + by if isinstance(nested, int) else [shifted(x, by) for x in nested]
