"""Who computes the outputs of a run: its kernel, or the host kernel in the same order.

Only the outputs themselves, from which drift, bits and the bound's margin are read. The order, the
adversarial data, invariance and counters are asked of the kernel in any case.
"""

from __future__ import annotations

from math import prod

from workbench.errors import InputError

OUTPUTS = ("auto", "kernel", "host")
# Products (rows x ids x H) above which "auto" takes the host kernel: the twin needs some 0.2 s of
# one core for a launch of so many, and the timing has several.
LARGE = 1 << 28
_HOST_OPS = ("lm_head",)


def chosen(asked: str, op: str, backend: str, sizes: tuple[int, int, int]) -> str:
    """ "kernel" or "host", for a run of so many rows, H and ids.

    Raises:
        InputError: The host kernel of something that has none.

    Example:
        >>> chosen("auto", "lm_head", "twin", (8, 576, 512))
        'kernel'
        >>> chosen("auto", "lm_head", "twin", (59, 4096, 20000))
        'host'
    """
    if asked not in OUTPUTS:
        raise InputError(f"outputs={asked!r}; give one of {', '.join(OUTPUTS)}")
    able = op in _HOST_OPS and backend == "twin"
    if asked == "host" and not able:
        raise InputError(
            f"outputs='host' for {op} on {backend}: there is a host kernel of "
            f"{' and '.join(_HOST_OPS)} as on the twin. Give outputs='kernel'"
        )
    if asked == "auto":
        return "host" if able and prod(sizes) > LARGE else "kernel"
    return asked
