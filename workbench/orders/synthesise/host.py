"""C++ for the CPU that adds in a given order: written, compiled, loaded and called."""

from __future__ import annotations

import ctypes
import json
import platform
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench import paths
from workbench._result import Result
from workbench.build import cache, compiler, includes, steps
from workbench.build.twin import BASE
from workbench.errors import BuildError, InputError
from workbench.orders.dot import fused_mask, operands
from workbench.orders.synthesise.regular import Lanes, lanes_of
from workbench.orders.tree import ReductionTree

MOST_RUNS = 400  # runs of the folded order that become code; above it the order is a table
_HEADER = paths.CSRC / "orders" / "order_host.h"
_LIBRARY = "order.so"
_loaded: dict[str, Any] = {}


@dataclass(frozen=True, eq=False)
class HostKernel(Result):
    """A dot product compiled for the CPU in one order. Made by `synthesise`.

    Call it with (weight [R, n], x [n]) for [R], or with (hidden [N, n], weight [V, n]) for
    [N, V]: fp32 numpy arrays, or tensors on the CPU, and the same comes back.

    Attributes:
        name: What it is called in messages.
        tree, fused, zero_start: The order it adds in, as `dot` takes them.
        form: "lanes" (loops over vectors of terms), "folded" (a function for each distinct
            subtree) or "table" (an interpreted list of operations), the last two over vectors of
            outputs.
        what: The order in words.
        source: The generated C++.
        seconds: Time to write, compile and load it; `cached` if the compiler did not run.
        compiler, flags, path: Who compiled it, and where the library is.
    """

    name: str
    tree: ReductionTree = field(metadata={"json": False})
    fused: np.ndarray = field(metadata={"json": False})
    zero_start: bool
    form: str
    what: str
    source: str = field(repr=False, metadata={"json": False})
    seconds: float
    cached: bool
    compiler: str
    flags: list[str]
    path: str
    run: Any = field(repr=False, metadata={"json": False})

    def __call__(self, a: Any, b: Any) -> Any:
        rows, vector, vectors = operands(self.tree.leaves, a, b)
        rows, vectors = np.ascontiguousarray(rows), np.ascontiguousarray(vectors)
        out = np.empty((len(rows), len(vectors)), np.float32)
        status = self.run(
            rows.ctypes.data, len(rows), vectors.ctypes.data, len(vectors), out.ctypes.data
        )
        if status:
            raise MemoryError(f"{self.name}: no memory for {64 * self.tree.leaves} bytes")
        out = out if vector.ndim == 2 else out[:, 0]
        if hasattr(a, "detach"):
            import torch

            return torch.from_numpy(out)
        return out

    def to_dict(self) -> dict[str, Any]:
        order = {"tree": self.tree.hash, "n": self.tree.leaves, "fused": int(self.fused.sum())}
        return super().to_dict() | order

    def rows(self) -> list[dict[str, Any]]:
        return [{k: v for k, v in self.to_dict().items() if k not in ("flags", "path")}]

    def title(self) -> str:
        return f"{self.name}: a host kernel for one order"


def host_kernel(
    tree: ReductionTree, fused: Any = None, zero_start: bool = False, name: str = "dot_in_order"
) -> HostKernel:
    """Write, compile and load the kernel; see `synthesise`."""
    started = time.perf_counter()
    mask = fused_mask(tree, fused)
    source, form, what = host_source(tree, mask, zero_start)
    cxx = compiler.find_cxx()
    # Vectors are passed inside one file only, so what a wide one does to the ABI is of no concern.
    flags = [*BASE, "-O3", *_native(cxx), "-Wall", "-Wextra", "-Wno-psabi", "-shared"]
    mark = includes.contents(str(_HEADER))[1]
    material = {
        "what": "order on the host",
        "format": steps.FORMAT,
        "source": source,
        "header": mark,
        "compiler": cxx.identity,
        "cpu": compiler.cpu_identity(),
        "flags": flags,
    }
    key = includes.digest(json.dumps(material, sort_keys=True).encode())
    with steps.turn(key):
        for attempt in range(steps.ATTEMPTS):
            with steps.again_if_vanished(attempt):
                entry = cache.get(key)
                cached = entry is not None
                if entry is None:
                    entry = _compile(key, name, source, cxx, flags)
                path = str(entry.path(_LIBRARY))
                if key not in _loaded:
                    _loaded[key] = _load(path)
                break
    return HostKernel(
        name=name,
        tree=tree,
        fused=mask,
        zero_start=zero_start,
        form=form,
        what=what,
        source=source,
        seconds=time.perf_counter() - started,
        cached=cached,
        compiler=f"{cxx.version} ({cxx.path})",
        flags=flags,
        path=path,
        run=_loaded[key],
    )


def _native(cxx: compiler.Compiler) -> list[str]:
    # Without contraction the instruction set does not change a bit, so the CPU's own is used.
    if cxx.machine != platform.machine():
        return []
    return ["-mcpu=native" if cxx.machine == "aarch64" else "-march=native"]


def _compile(
    key: str, name: str, source: str, cxx: compiler.Compiler, flags: list[str]
) -> cache.Entry:
    with cache.workspace() as work:
        file = work / "order.cpp"
        file.write_text(source, "utf-8")
        command = [*cxx.command, *flags, f"-I{_HEADER.parent}", "-o", str(work / _LIBRARY)]
        status, output = compiler.run([*command, str(file)], work)
        if status:
            steps.refuse_full_disk(output)
            log = cache.write_log(key, output)
            raise compiler.build_error(f"building {name}", output, [str(file)], log)
        if not (work / _LIBRARY).is_file():
            raise BuildError(f"building {name}: {cxx.version} ended well but made no {_LIBRARY}")
        meta = {"what": name, "source": name, "flags": flags, "compiler": cxx.version}
        return cache.publish(key, work, [_LIBRARY], meta)


def _load(path: str) -> Any:
    run = ctypes.CDLL(path).order_dot
    run.restype = ctypes.c_int
    pointer, long = ctypes.c_void_p, ctypes.c_long
    run.argtypes = [pointer, long, pointer, long, pointer]
    return run


# ---- source --------------------------------------------------------------------------------------


def host_source(
    tree: ReductionTree, fused: Any = None, zero_start: bool = False
) -> tuple[str, str, str]:
    """(C++ source, form, the order in words) of the kernel for this order.

    Raises:
        InputError: A node has more than two children, or there is no term.
    """
    mask = fused_mask(tree, fused)
    if not tree.leaves or tree.arity > 2:
        raise InputError(
            f"this order has {tree.leaves} terms and nodes of up to {tree.arity} children; a "
            "generated kernel adds at least one term, in pairs. `dot` takes any order"
        )
    lanes, _ = lanes_of(tree, mask)
    if lanes is not None and lanes.width >= 4:
        return _lanes_source(tree, lanes, zero_start), "lanes", str(lanes)
    shapes, top, base = fold_spines(tree, mask)
    runs = sum(len(s) for s in shapes)
    if runs <= MOST_RUNS:
        body, form = _folded_source(shapes, top, base), "folded"
        what = f"{len(shapes)} distinct subtrees in {runs} runs"
    else:
        body, form = _table_source(tree, mask), "table"
        what = f"irregular: {runs} runs; a table of {2 * tree.leaves} operations at most"
    end = "s + 0.0f" if zero_start else "s"
    text = f"""{_head(tree, mask)}
{body}
struct Sum {{
    static constexpr long kTerms = {tree.leaves};
    static order::Vec sum(const order::Vec *t, const float *x) {{
        const order::Vec s = whole(t, x);
        return {end};
    }}
}};

}}  // namespace

{_ENTRY.format(driver="by_outputs")}"""
    return text, form, what


_ENTRY = """extern "C" __attribute__((visibility("default"))) int order_dot(
    const float *a, long rows, const float *b, long columns, float *out) {{
    return order::{driver}<Sum>(a, rows, b, columns, out);
}}
"""


def _head(tree: ReductionTree, mask: np.ndarray) -> str:
    return (
        f"// Generated by workbench: a dot product of {tree.leaves} terms in the order "
        f"{tree.hash},\n// {int(mask.sum())} of its products fused into their first addition.\n"
        '#include "order_host.h"\n\nnamespace {\n'
    )


def _lanes_source(tree: ReductionTree, lanes: Lanes, zero_start: bool) -> str:
    width, mask = lanes.width, lanes.mask
    vector = width <= 64 and width & (width - 1) == 0

    def term(i: int, s: str) -> str:  # the sum s and term i
        if mask[i]:
            return f"order::fused(w[{i}], x[{i}], {s})"
        return f"{s} + w[{i}] * x[{i}]" if s else f"w[{i}] * x[{i}]"

    first = []  # the terms before, and the first block
    for number, lane in enumerate(lanes.lanes):
        chain = [*lane.before, lanes.start + number]
        first.append(f"    float l{number} = {term(chain[0], '')};")
        first += [f"    l{number} = {term(i, f'l{number}')};" for i in chain[1:]]
        first.append(f"    s[{number}] = l{number};")
    last = []
    for number, lane in enumerate(lanes.lanes):
        last.append(f"    float l{number} = s[{number}];")
        last += [f"    l{number} = {term(i, f'l{number}')};" for i in lane.after]
    value = lanes.combined(last, term, indent=4)
    begin, end = lanes.start + width, lanes.start + width * lanes.blocks
    if vector:
        kind = f"order::Vector<{width}>::Type"
        declare = f"{kind} s[R];"
        fill = (
            f"for (int r = 0; r < R; ++r) {{\n            float f[{width}];\n"
            "            first(w + r * kTerms, x, f);\n"
            f"            s[r] = order::load<{width}>(f);\n        }}"
        )
        load_x = f"const {kind} v = order::load<{width}>(x + k);"
        load_w = f"order::load<{width}>(w + r * kTerms + k)"
        step = f"order::fused_lanes<{kind}>({load_w}, v, s[r])" if lanes.fused else (
            f"s[r] + {load_w} * v"
        )  # fmt: skip
        inner = f"s[r] = {step};"
        finish = f"float f[{width}];\n            std::memcpy(f, &s[r], sizeof f);\n            "
        finish += "out[r * step] = last(f, w + r * kTerms, x);"
    else:
        declare = f"float s[R][{width}];"
        fill = (
            "for (int r = 0; r < R; ++r) {\n            first(w + r * kTerms, x, s[r]);\n        }"
        )
        load_x = "const float *v = x + k;"
        step = (
            "order::fused(w[r * kTerms + k + i], v[i], s[r][i])"
            if lanes.fused
            else "s[r][i] + w[r * kTerms + k + i] * v[i]"
        )
        inner = f"for (int i = 0; i < {width}; ++i) {{\n                    s[r][i] = {step};\n"
        inner += "                }"
        finish = "out[r * step] = last(s[r], w + r * kTerms, x);"
    zero = " + 0.0f" if zero_start else ""
    newline = "\n"
    return f"""{_head(tree, mask)}
// {lanes}
void first(const float *w, const float *x, float *s) {{
{newline.join(first)}
}}

float last(const float *s, const float *w, const float *x) {{
    (void)w;
    (void)x;
{newline.join(last)}
    return {value}{zero};
}}

struct Sum {{
    static constexpr long kTerms = {tree.leaves};
    template <int R>
    static void rows(const float *w, const float *x, float *out, long step) {{
        {declare}
        {fill}
        for (long k = {begin}; k < {end}; k += {width}) {{
            {load_x}
            for (int r = 0; r < R; ++r) {{
                {inner}
            }}
        }}
        for (int r = 0; r < R; ++r) {{
            {finish}
        }}
    }}
}};

}}  // namespace

{_ENTRY.format(driver="by_terms")}"""


# ---- folding -------------------------------------------------------------------------------------

# A spine is the path that goes to the larger child from a node down to a leaf. A shape says how to
# climb it: runs (shape of the sides or a term's kind, offset from the first term, step, count).
TERM, FUSED_TERM = -1, -2


def fold_spines(
    tree: ReductionTree, fused: np.ndarray
) -> tuple[list[tuple[tuple[int, int, int, int], ...]], int, int]:
    """(distinct shapes, each after those it uses; the whole tree's; its first term)."""
    n = tree.leaves
    pairs = tree.children.reshape(-1, 2).tolist()
    spines = spines_of(n, pairs, fused)
    shapes: dict[tuple, int] = {}
    known: dict[int, tuple[int, int]] = {}  # node at the top of a spine -> (shape, first term)
    for top, (base, sides) in spines.items():
        runs: list[list[int]] = []
        for side in sides:
            if side < n:
                kind, at = (FUSED_TERM if fused[side] else TERM), side
            else:
                kind, at = known[side]
            offset = at - base
            if runs and runs[-1][0] == kind:
                run = runs[-1]
                if run[3] == 1:
                    run[2] = offset - run[1]
                if run[1] + run[2] * run[3] == offset:
                    run[3] += 1
                    continue
            runs.append([kind, offset, 0, 1])
        key = tuple(tuple(run) for run in runs)
        known[top] = (shapes.setdefault(key, len(shapes)), base)
    top, base = known[n + len(pairs) - 1 if pairs else 0]
    return list(shapes), top, base


def spines_of(
    n: int, pairs: list[list[int]], fused: np.ndarray
) -> dict[int, tuple[int, list[int]]]:
    """{top node: (first term, sides from the bottom up)}; a side's spine comes before."""
    size = [1] * n + [0] * len(pairs)
    low = [*range(n)] + [0] * len(pairs)
    spine: dict[int, tuple[int, list[int]]] = {}
    if not pairs:
        return {0: (0, [])}
    open_: dict[int, tuple[int, list[int]]] = {}
    for k, (a, b) in enumerate(pairs):
        node = n + k
        size[node], low[node] = size[a] + size[b], min(low[a], low[b])
        # On goes the larger side; a fused term is never where a sum starts.
        if (size[a], -low[a]) < (size[b], -low[b]):
            a, b = b, a
        if a < n and fused[a]:
            a, b = b, a
        if b >= n:
            spine[b] = open_.pop(b)
        base, sides = open_.pop(a, (a, []))
        sides.append(b)
        open_[node] = (base, sides)
    spine[n + len(pairs) - 1] = open_[n + len(pairs) - 1]
    return spine


def _folded_source(shapes: list, top: int, base: int) -> str:
    out = []
    for number, runs in enumerate(shapes):
        body = ["    order::Vec s = t[0] * x[0];"]
        for kind, offset, step, count in runs:
            one = _side(kind, "i" if count > 1 else str(offset))
            if count > 1:
                body.append(
                    f"    for (long k = 0, i = {offset}; k < {count}; ++k, i += {step}) {{\n"
                    f"        {one}\n    }}"
                )
            else:
                body.append(f"    {one}")
        text = "\n".join([*body, "    return s;"])
        out.append(f"order::Vec s{number}(const order::Vec *t, const float *x) {{\n{text}\n}}\n")
    out.append(
        "order::Vec whole(const order::Vec *t, const float *x) {\n"
        f"    return s{top}(t + {base}, x + {base});\n}}\n"
    )
    return "\n".join(out)


def _side(kind: int, at: str) -> str:
    if kind == TERM:
        return f"s = s + t[{at}] * x[{at}];"
    if kind == FUSED_TERM:
        return f"s = order::fused(t[{at}], x[{at}], s);"
    return f"s = s + s{kind}(t + {at}, x + {at});"


def _table_source(tree: ReductionTree, fused: np.ndarray) -> str:
    numbers = operations(tree, fused)
    rows = [", ".join(map(str, numbers[i : i + 16])) for i in range(0, len(numbers), 16)]
    table = ",\n    ".join(rows)
    return f"""constexpr int32_t kOperations[] = {{
    {table}}};

order::Vec whole(const order::Vec *t, const float *x) {{
    return order::run(kOperations, {len(numbers)}, t, x);
}}
"""


def operations(tree: ReductionTree, fused: np.ndarray) -> list[int]:
    """The order as operations of a machine with one accumulator and a stack (csrc/orders)."""
    push, add, fuse, join = range(4)
    n = tree.leaves
    spines = spines_of(n, tree.children.reshape(-1, 2).tolist(), fused)
    out: list[int] = []
    todo: list[Any] = [n + len(tree.offsets) - 2 if len(tree.offsets) > 1 else 0]
    while todo:
        item = todo.pop()
        if isinstance(item, tuple):
            out.append(item[0])
        elif item < n and item not in spines:
            out.append(4 * item + (fuse if fused[item] else add))
        else:
            base, sides = spines[item]
            out.append(4 * base + push)
            for side in reversed(sides):
                todo += [side] if side < n else [(join,), side]
    return out
