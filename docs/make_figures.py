"""Makes the README's picture from results computed here and now.

python docs/make_figures.py         # writes docs/img/tile_changes_bits.png
"""

from __future__ import annotations

from pathlib import Path

import torch

import workbench as wb
from workbench.numerics import compare_bits, evidence

IMG = Path(__file__).resolve().parent / "img"
TILES = (64, 256, 1024, 4096)
BLOCKS = (1, 3, 40, 128, 256)
DEFAULT_TILE, DEFAULT_BLOCKS = 4096, 128


def main() -> None:
    draw = wb.samples.qwen3(rows=32, vocab=257, dtype=torch.float32, seed=0)
    inputs = draw.hidden, draw.weight
    kernels = {
        (tile, blocks): wb.build(
            "lm_head",
            wb.KernelConfig(tile_length=tile, max_blocks=blocks, arch="dav-2201"),
            backend="twin",
        )
        for tile in TILES
        for blocks in BLOCKS
    }
    logits = {key: kernel(*inputs) for key, kernel in kernels.items()}
    reference = logits[DEFAULT_TILE, DEFAULT_BLOCKS]
    default = {tile: kernels[tile, DEFAULT_BLOCKS] for tile in TILES}
    figure = wb.plots.tile_overview(
        {
            t: wb.declared_order("lm_head", k.config, n=draw.hidden.shape[-1])
            for t, k in default.items()
        },
        {t: wb.drift(k, *inputs) for t, k in default.items()},
        {t: compare_bits(reference, logits[t, DEFAULT_BLOCKS]) for t in TILES},
        {
            t: {b: compare_bits(logits[t, DEFAULT_BLOCKS], logits[t, b]) for b in BLOCKS}
            for t in TILES
        },
        wb.plots.evidence_text(evidence(kernel, *inputs) for kernel in kernels.values()),
    )
    IMG.mkdir(exist_ok=True)
    file = IMG / "tile_changes_bits.png"
    file.write_bytes(wb.plots.png(figure, scale=1))
    print(f"wrote {file}: {file.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
