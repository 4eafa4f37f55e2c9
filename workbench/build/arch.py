"""Ascend architectures as data: `workbench/data/architectures.json` and the C++ header made of it.

python -m workbench.build.arch          # write csrc/twin/include/twin/arch.h anew
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass

from workbench import paths
from workbench.errors import ConfigError

# What the vendor does not document (or what a build of torch_npu decides), with the values a launch
# can be given instead of the architecture's: the two bits of each are passed in this order.
SWITCHES = {
    "masked_lanes": ("zero", "skip"),
    "accumulator_start": ("zero", "first"),
    "fused": ("fused", "unfused"),
    "overflow": ("inf_nan", "saturate"),
}

HEADER = paths.TWIN / "include" / "twin" / "arch.h"


@dataclass(frozen=True)
class Arch:
    """What the workbench knows of one architecture (`--npu-arch` name, for example "dav-2201").

    `ub_bytes` is the unified buffer a kernel can use, in bytes. `assumed` names the fields that
    the vendor does not document. `chips` are patterns of its names in `npu-smi info`.
    """

    name: str
    products: str
    chips: tuple[str, ...]
    ub_bytes: int
    bf16: str
    data_copy_pad: bool
    event_ids: int
    vector_cores: tuple[int, ...]
    count_method: int
    tail_apart: bool
    small_bytes: tuple[int, int] | None
    small_method: int
    high_dim_method: int
    masked_lanes: str
    accumulator_start: str
    overflow: str
    fused: str
    reserved_event_ids: int
    masked_compare: bool
    select_by_register_only: bool
    shift_right_rounds: bool
    extremes_need_tmp: bool
    gather_mask_in_all: bool
    assumed: tuple[str, ...]

    @property
    def number(self) -> int:
        """2201 for "dav-2201"."""
        return int(self.name.removeprefix("dav-"))

    def reduce_sum_method_count(self, nbytes: int) -> int:
        """Method (1, 2 or 3) of `ReduceSum(dst, src, tmp, count)` over `nbytes` of source."""
        if self.small_bytes and self.small_bytes[0] <= nbytes <= self.small_bytes[1]:
            return self.small_method
        return self.count_method


@functools.cache
def _all() -> dict[str, Arch]:
    raw = json.loads((paths.DATA / "architectures.json").read_text())["archs"]
    return {name: _parse(name, entry) for name, entry in raw.items()}


def _parse(name: str, entry: dict) -> Arch:
    count = entry["reduce_sum_count"]
    small = count.get("small")
    return Arch(
        name=name,
        products=entry["products"],
        chips=tuple(entry["chips"]),
        ub_bytes=entry["ub_bytes"],
        bf16=entry["bf16"],
        data_copy_pad=entry["data_copy_pad"],
        event_ids=entry["event_ids"],
        vector_cores=tuple(entry["vector_cores"]),
        count_method=count["default"],
        tail_apart=count["tail_apart"],
        small_bytes=tuple(small["bytes"]) if small else None,
        small_method=small["method"] if small else 0,
        high_dim_method=entry["reduce_sum_high_dim"],
        masked_lanes=entry["masked_lanes"],
        accumulator_start=entry["accumulator_start"],
        overflow=entry["overflow"],
        fused=entry["fused"],
        reserved_event_ids=entry["reserved_event_ids"],
        masked_compare=entry["masked_compare"],
        select_by_register_only=entry["select_by_register_only"],
        shift_right_rounds=entry["shift_right_rounds"],
        extremes_need_tmp=entry["extremes_need_tmp"],
        gather_mask_in_all=entry["gather_mask_in_all"],
        assumed=tuple(entry["assumed"]),
    )


def names() -> list[str]:
    """Names of all known architectures."""
    return sorted(_all())


def of_chip(chip: str) -> list[str]:
    """Names of the architectures that a chip of this name may have; none: not known.

    Args:
        chip: A name as npu-smi shows it, with or without "Ascend" before it.

    Example:
        >>> of_chip("910B3"), of_chip("Ascend310P3"), of_chip("Ascend910"), of_chip("H100")
        (['dav-2201'], ['dav-2002'], ['dav-1001', 'dav-2201'], [])
    """
    plain = re.sub(r"^ascend[\s_]*", "", chip.strip(), flags=re.IGNORECASE)
    return [
        arch.name
        for arch in _all().values()
        if any(re.fullmatch(pattern, plain, re.IGNORECASE) for pattern in arch.chips)
    ]


def load(name: str) -> Arch:
    """The architecture called `name`.

    Raises:
        ConfigError: No architecture has that name.

    Example:
        >>> load("dav-2201").ub_bytes
        196352
    """
    try:
        return _all()[name]
    except (KeyError, TypeError):
        raise ConfigError(
            f"unknown architecture {name!r}; known ones are {', '.join(names())}. "
            "Pass one of them as arch=…"
        ) from None


def switch_bits(switches: dict[str, str]) -> int:
    """`switches` as a launch takes them.

    Args:
        switches: {name: value} of SWITCHES.

    Raises:
        ConfigError: A switch or value that is not known.

    Example:
        >>> switch_bits({"masked_lanes": "skip"})
        2
    """
    bits = 0
    for name, value in switches.items():
        if name not in SWITCHES or value not in SWITCHES[name]:
            known = "; ".join(f"{n}: {' or '.join(v)}" for n, v in SWITCHES.items())
            raise ConfigError(f"unknown switch {name}={value!r}; known ones are {known}")
        bits |= (SWITCHES[name].index(value) + 1) << 2 * [*SWITCHES].index(name)
    return bits


def header_text() -> str:
    """The text of `twin/arch.h`: one `constexpr Arch` chosen by the macro WB_TWIN_ARCH."""
    lines = [
        "// Generated from workbench/data/architectures.json by `python -m workbench.build.arch`.",
        "// Do not edit: a test compares.",
        "// clang-format off",
        "#pragma once",
        "",
        "namespace twin {",
        "",
        "struct Arch {",
        "    const char *name;",
        "    unsigned ub_bytes;",
        "    bool bf16_arithmetic;",
        "    bool data_copy_pad;",
        "    unsigned event_ids;",
        "    unsigned vector_cores;",
        "    int count_method;          // ReduceSum(dst, src, tmp, count)",
        "    bool count_tail_apart;     // whole repeats first, the tail on its own, then body "
        "+ tail",
        "    unsigned small_min_bytes;  // within [min, max] bytes the count form uses "
        "small_method",
        "    unsigned small_max_bytes;",
        "    int small_method;",
        "    int high_dim_method;       // ReduceSum(dst, src, tmp, mask, repeat, stride)",
        "    bool masked_is_zero;       // masked lanes count as +0 (else they are skipped)",
        "    bool starts_at_zero;       // accumulators start at +0 (else at the first result)",
        "    bool fused;                // MulAddDst and its like round once (else twice)",
        "    bool inf_nan;              // overflow to infinity (else saturation)",
        "    unsigned index;            // among the architectures in order of their names",
        "    unsigned reserved_events;  // the last event ids of a pipe pair are the system's",
        "    bool masked_compare;       // the mask of a comparison has an effect",
        "    bool select_by_register_only;  // Select knows VSEL_CMPMASK_SPR alone",
        "    bool shift_right_rounds;   // roundEn has an effect",
        "    bool extremes_need_tmp;    // ReduceMax and ReduceMin use their temporary tensor",
        "    bool gather_mask_in_all;   // GatherMask: mask elements in all, not per repeat",
        "};",
        "",
    ]
    lines += [
        "#if !defined(WB_TWIN_ARCH)",
        "// The runtime is compiled once for all architectures: it asks the block for its own.",
        "constexpr Arch kArch = {};",
    ]
    for arch in _all().values():
        low, high = arch.small_bytes or (1, 0)
        flag = {True: "true", False: "false"}
        fields = [
            f'"{arch.name}"',
            f"{arch.ub_bytes}u",
            flag[arch.bf16 == "full"],
            flag[arch.data_copy_pad],
            f"{arch.event_ids}u",
            f"{max(arch.vector_cores)}u",
            str(arch.count_method),
            flag[arch.tail_apart],
            f"{low}u",
            f"{high}u",
            str(arch.small_method),
            str(arch.high_dim_method),
            flag[arch.masked_lanes == "zero"],
            flag[arch.accumulator_start == "zero"],
            flag[arch.fused == "fused"],
            flag[arch.overflow == "inf_nan"],
            f"{names().index(arch.name)}u",
            f"{arch.reserved_event_ids}u",
            flag[arch.masked_compare],
            flag[arch.select_by_register_only],
            flag[arch.shift_right_rounds],
            flag[arch.extremes_need_tmp],
            flag[arch.gather_mask_in_all],
        ]
        lines += [
            f"#elif WB_TWIN_ARCH == {arch.number}",
            f"constexpr Arch kArch = {{{', '.join(fields)}}};",
        ]
    lines += [
        "#else",
        '#error "WB_TWIN_ARCH is not a known architecture (1001, 2002, 2201, 3510)"',
        "#endif",
        "",
        "}  // namespace twin",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    HEADER.write_text(header_text())
    print(f"wrote {HEADER}")
