"""Products in full fp32, whatever the caller has set."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch

_lock = threading.Lock()
_inside = 0  # threads that are inside now
_before: list[str] = []


def _places() -> list:
    """Where torch keeps the precision of fp32 matmuls; before torch 2.9 it had no such places."""
    backends = (torch.backends.mkldnn, torch.backends.cuda)
    places = [getattr(backend, "matmul", None) for backend in backends]
    return [place for place in places if hasattr(place, "fp32_precision")]


@contextlib.contextmanager
def full_fp32(device_type: str) -> Iterator[None]:
    """No autocast, and no TF32 or bf16 inside an fp32 matmul; the caller's settings come back.

    The precision of matmuls belongs to the process: of several threads the first one in
    saves it and the last one out restores it.

    Args:
        device_type: Of the tensors, for example "cpu".
    """
    global _inside, _before
    places = _places()
    with _lock:
        if not _inside:
            _before = [place.fp32_precision for place in places]
            for place in places:
                place.fp32_precision = "ieee"
        _inside += 1
    try:
        with torch.autocast(device_type, enabled=False):
            yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                for place, precision in zip(places, _before, strict=True):
                    place.fp32_precision = precision
