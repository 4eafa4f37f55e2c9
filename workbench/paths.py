"""Where the files that are not Python live: in the checkout, or inside an installed wheel.

In a checkout `csrc/` and `notebooks/` stand beside the package; `setup.py` installs them as
`workbench/csrc` and `workbench/notebooks`, so a wheel needs nothing from outside itself.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
DATA = PACKAGE / "data"


def _beside_or_inside(name: str) -> Path:
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name


CSRC = _beside_or_inside("csrc")
ASCEND = CSRC / "ascend"
TWIN = CSRC / "twin"
NOTEBOOKS = _beside_or_inside("notebooks")
