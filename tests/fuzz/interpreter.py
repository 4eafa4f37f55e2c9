"""Builds the interpreter's kernels and runs records on them.

One kernel per group of instructions. A group that does not compile is built again one instruction
at a time, so that what the twin does not have yet is named and counted, never left out in silence.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

import workbench as wb
from workbench.errors import BuildError, WorkbenchError

from . import catalog, catalog_casts, catalog_moves
from .catalog import Case
from .draw import IMAGE, SCRATCH

WORDS, RESULTS = 128, 120
_TEMPLATE = Path(__file__).with_name("interpreter.asc")


def all_cases() -> list[Case]:
    """The whole catalog; a case's place in it is its number in a record."""
    return catalog.here() + catalog_casts.here() + catalog_moves.here()


# What is the same on every architecture but for the settings that the model knows.
_EVERYWHERE = frozenset(("unary", "binary", "scalar", "shift", "fused", "cast", "reduce"))


def documented(cases: list[Case], arch: str) -> list[Case]:
    """Cases that the project's API table has for ``arch`` (dav-2201: all of them)."""
    if arch == "dav-2201":
        return cases
    table = json.loads((Path(wb.__file__).parent / "data" / "ascend_api.json").read_text())
    functions = table["functions"]
    pairs = {(dst, src, mode) for src, dst, modes in table["casts"].get(arch, ()) for mode in modes}
    out = []
    for case in cases:
        kinds = functions.get(case.op, {}).get("dtypes", {}).get(arch) or ()
        if case.group not in _EVERYWHERE or not set(case.types) <= set(kinds):
            continue
        if case.variant in ("round", "accumulator"):  # documented for dav-2201
            continue
        if case.op == "Cast" and (*case.types, case.variant) not in pairs:
            continue
        out.append(case)
    return out


def select(ops: str | None = None, cases: list[Case] | None = None) -> list[Case]:
    """Cases whose group or instruction is named in ``ops`` ("a,b"); None: all."""
    cases = all_cases() if cases is None else cases
    if not ops:
        return cases
    names = {name.strip() for name in ops.split(",")}
    known = {c.group for c in cases} | {c.op for c in cases}
    if names - known:
        raise ValueError(f"unknown: {', '.join(sorted(names - known))}; known: {', '.join(known)}")
    return [c for c in cases if c.group in names or c.op in names]


def source(cases: list[Case]) -> str:
    """The interpreter's text for some cases, numbered 0, 1, ..."""
    lines = [
        f"        case {n}: {{  // {case.name}\n            {case.code}\n        }} break;"
        for n, case in enumerate(cases)
    ]
    return _TEMPLATE.read_text().replace("// @CASES@", "\n".join(lines))


def record(case: Case, instr, number: int) -> np.ndarray:
    """One instruction as the words that the interpreter reads."""
    w = np.zeros(WORDS, np.int64)
    i, e = instr, instr.extra
    w[0], w[1] = number, i.dst
    w[2 : 2 + len(i.srcs)] = i.srcs
    w[6], w[7], w[8], w[12] = i.count, i.repeat, i.dst_blk, i.dst_rep
    w[9 : 9 + len(i.src_blk)] = i.src_blk
    w[13 : 13 + len(i.src_rep)] = i.src_rep
    low, high = i.mask if isinstance(i.mask, tuple) else (i.mask, 0)
    for at, value in ((16, low), (18, high), (20, i.scalar)):
        w[at], w[at + 1] = value & 0xFFFFFFFF, value >> 32
    if case.group in ("copy", "atomic") and "length" in e:
        w[24:28] = e["blocks"], e["length"], *e["gaps"]
        w[28:31] = e.get("pad", (0, 0, 0))[:3]
    elif i.op == "MrgSort":
        w[24 : 24 + len(e["lengths"])] = e["lengths"]
        w[28], w[29] = e["suspend"], (1 << len(e["lengths"])) - 1
    elif i.op == "Extract":
        w[24] = e["index"]
    elif i.op == "Transpose" and "shape" in e:
        w[24:28] = e["shape"]
    elif i.op == "TransDataTo5HD":
        w[24], w[25] = e["dst_high"], e["src_high"]
        w[32:48], w[48:64] = e["dst_list"], e["src_list"]
    elif i.op == "ArithProgression":
        w[24] = e["step"]
    elif "params" in e:
        w[24] = e["spare"]
        w[32:64:2] = [p[0] for p in e["params"]]
        w[33:64:2] = [p[1] for p in e["params"]]
    elif i.op == "Gather":
        w[24] = e["base"]
    elif i.op == "GatherMask":
        w[24], w[25], w[26] = e["reduce"], e.get("pattern", 0), e["src1_rep"]
    return (w & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


# What the interpreter's macros stand for.
_MACROS = {
    "UNARY": "UnaryRepeatParams",
    "BINARY": "BinaryRepeatParams",
    "COUNTER_ON": "SetMaskCount SetVectorMask MaskMode",
    "COUNTER_OFF": "SetMaskNorm ResetMask",
}


def _uses(case: Case, word: str) -> bool:
    text = case.code + " ".join(long for short, long in _MACROS.items() if short in case.code)
    return re.search(rf"\b{word}\b", text) is not None


@dataclass
class Outcome:
    """What a batch left behind, row by row; ``fault`` where the twin refused one."""

    images: np.ndarray
    scratch: np.ndarray
    results: np.ndarray  # uint64 [n, 4]
    faults: list[str | None]


@dataclass
class Twin:
    """The twin as an executor of batches."""

    arch: str = "dav-2201"
    blocks: int = 8
    switches: dict[str, str] = field(default_factory=dict)  # as KernelConfig takes them
    check: str | None = None  # families of checks, as launch takes them
    missing: dict[str, str] = field(default_factory=dict)  # case -> the compiler's first words
    _kernels: dict = field(default_factory=dict)
    _place: dict[str, tuple] = field(default_factory=dict)  # case -> (kernel, number)

    def prepare(self, cases: list[Case], log=lambda text: None) -> list[Case]:
        """Builds what is needed; returns the cases that the twin has."""
        groups = defaultdict(list)
        for case in cases:
            if case.name not in self._place and case.name not in self.missing:
                groups[case.group].append(case)
        for group, members in groups.items():
            log(f"building {group}: {len(members)} cases")
            self._prepare(group, members, [lambda c: c.op, lambda c: c.form, lambda c: c.types])
        return [case for case in cases if case.name in self._place]

    def _prepare(self, name: str, cases: list[Case], keys: list) -> None:
        """Builds all cases at once; where that fails, by parts, down to single cases."""
        error = self._build(name, cases)
        if error is None:
            return
        word = re.search(
            r"[‘'](\w+)[’'] (?:was not declared|has not been declared|is not a member)", error
        )
        word = word or re.search(r"undeclared identifier '(\w+)'", error)
        if len(cases) == 1 or (word and all(_uses(case, word.group(1)) for case in cases)):
            self.missing.update((case.name, error) for case in cases)
            return
        parts = defaultdict(list)
        for case in cases:
            parts[keys[0](case) if keys else case.name].append(case)
        for part in parts.values():
            self._prepare(name, part, keys[1:])

    def _build(self, name: str, cases: list[Case]) -> str | None:
        text = source(cases)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        # One place for all runs of this user: the build cache then knows the file again.
        folder = Path(tempfile.gettempdir()) / f"workbench-fuzz-{os.getuid()}"
        folder.mkdir(exist_ok=True)
        path = folder / f"{name}-{digest}.asc"
        if not path.exists():
            fresh = path.with_suffix(f".{os.getpid()}")
            fresh.write_text(text)
            fresh.replace(path)
        pad = self.arch in ("dav-2201", "dav-3510")
        defines = {"FUZZ_IMAGE": IMAGE, "FUZZ_SCRATCH": SCRATCH, "FUZZ_COPY_PAD": int(pad)}
        try:
            switches = {"switches": self.switches} if self.switches else {}
            config = wb.KernelConfig(arch=self.arch, **switches)
            kernel = wb.build(str(path), config, backend="twin", defines=defines)
            kernel.launch("interpret", 1, *_tensors(np.zeros((1, WORDS), np.int32)), 0)
        except BuildError as error:
            if "/twin/runtime/" in str(error):
                raise  # the twin itself does not compile: that is no missing instruction
            return str(error).splitlines()[0][:300]
        for number, case in enumerate(cases):
            self._place[case.name] = (kernel, number)
        return None

    def run(self, cases, instrs, images: np.ndarray, scratch: np.ndarray) -> Outcome:
        """Executes row n of ``instrs`` on row n of the memories (which are not changed)."""
        by_kernel = defaultdict(list)
        for n, case in enumerate(cases):
            by_kernel[id(self._place[case.name][0])].append(n)
        out = Outcome(
            images.copy(), scratch.copy(), np.zeros((len(cases), 4), np.uint64), [None] * len(cases)
        )
        for rows in by_kernel.values():
            kernel = self._place[cases[rows[0]].name][0]
            records = np.stack(
                [record(cases[n], instrs[n], self._place[cases[n].name][1]) for n in rows]
            )
            self._launch(kernel, np.array(rows), records, images, scratch, out)
        return out

    def _launch(self, kernel, rows, records, images, scratch, out: Outcome) -> None:
        sent = records.copy(), images[rows], scratch[rows]
        try:
            tensors = map(torch.from_numpy, sent)
            check = {"check": self.check} if self.check else {}
            kernel.launch("interpret", self.blocks, *tensors, len(rows), **check)
        except WorkbenchError as error:
            if len(rows) == 1:
                out.faults[rows[0]] = str(error)
                return
            half = len(rows) // 2
            for part in (slice(None, half), slice(half, None)):
                self._launch(kernel, rows[part], records[part], images, scratch, out)
            return
        out.images[rows], out.scratch[rows] = sent[1], sent[2]
        out.results[rows] = np.ascontiguousarray(sent[0][:, RESULTS:]).view(np.uint64)


def _tensors(records: np.ndarray):
    images = np.zeros((len(records), IMAGE), np.uint8)
    scratch = np.zeros((len(records), SCRATCH), np.uint8)
    return [torch.from_numpy(a) for a in (records, images, scratch)]
