"""Ten probes that a device answers in its first minute: how it sums, rounds and casts.

Each runs one small kernel (csrc/ascend/probe_ascend.asc) on an input whose result tells apart the
ways that hardware could work. On the twin they show what the twin assumes; on a device, what the
device does, and what that would mean for the twin.
"""

from __future__ import annotations

import datetime
import math
import platform
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from workbench import paths
from workbench._result import Result
from workbench.build import api, builder
from workbench.build import arch as archs
from workbench.build.config import KernelConfig
from workbench.build.kernel import Kernel
from workbench.errors import InputError

NEGATIVE_ZERO = -0.0
INFINITY = math.inf


@dataclass(frozen=True)
class Question:
    """One probe: `terms` are its fp32 input, `ask` launches it, `answers` says what each result
    (by its bits) means, and `expected` gives the answer the twin's data of an architecture
    imply."""

    name: str
    asks: str
    ask: Callable[[Kernel], float]
    answers: Sequence[tuple[float, str]]
    expected: Callable[[archs.Arch, dict[str, str]], float]
    also: Question | None = None  # its second half


@dataclass(frozen=True)
class Answer(Result):
    """What one probe found.

    Attributes:
        name: "H1" to "H10".
        asks: The question in words.
        value: The result as a number, or None if it is not finite or the architecture has no such
            instruction.
        bits: The result's bits, as hex of an fp32.
        expected: What the twin's data of this architecture imply, as a number or None.
        expected_bits: Its bits.
        agrees: Whether the two are the same bits.
        meaning: What the result says about the hardware (or the twin).
        also: The second half of H6 (count 1), as an Answer; else None.
    """

    name: str
    asks: str
    value: float | None
    bits: str
    expected: float | None
    expected_bits: str
    agrees: bool
    meaning: str
    also: Answer | None = None


@dataclass(frozen=True)
class Probes(Result):
    """The answers of one backend, with the evidence of where they come from."""

    backend: str
    arch: str
    switches: dict[str, str]
    evidence: dict[str, str]
    probes: list[Answer] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether every answer is the one that the twin's data imply."""
        return all(p.agrees for p in self.halves())

    def halves(self) -> list[Answer]:
        """The answers, and after H6 its second half."""
        return [a for p in self.probes for a in (p, p.also) if a is not None]

    def title(self) -> str:
        return f"{len(self.probes)} probes on {self.backend}, {self.arch}"

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "probe": p.name,
                "value": shown(p),
                "bits": p.bits,
                "expected": p.expected_bits,
                "agrees": p.agrees,
                "meaning": p.meaning,
            }
            for p in self.halves()
        ]

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "passed": self.passed}

    def report(self) -> str:
        """The answers as Markdown, to be attached to an issue."""
        where = "an Ascend NPU" if self.backend == "npu" else "the twin (no hardware was involved)"
        lines = [f"# Probes of {self.arch} on {where}", ""]
        lines += [f"- {name}: {value}" for name, value in self.evidence.items()]
        if self.switches:
            lines.append(f"- switches: {self.switches}")
        lines += ["", "| probe | asks | value | bits | the twin expects | meaning |"]
        lines.append("|---|---|---|---|---|---|")
        for p in self.halves():
            value = shown(p)
            mark = "" if p.agrees else " **differs**"
            lines.append(
                f"| {p.name} | {p.asks} | {value} | `{p.bits}` | `{p.expected_bits}`{mark} | "
                f"{p.meaning} |"
            )
        differ = [p.name for p in self.halves() if not p.agrees]
        if not differ:
            verdict = f"Every answer is the one that the twin's data of {self.arch} imply."
        else:
            verdict = (
                f"{', '.join(differ)} differ from what the twin's data of {self.arch} imply "
                "(workbench/data/architectures.json): the meanings above say what to change."
            )
        return "\n".join([*lines, "", verdict, ""])


def shown(answer: Answer) -> str:
    """The value as text."""
    if answer.value is not None:
        return f"{answer.value:.9g}"
    return "inf" if answer.bits else "none"


def _bits(value: float) -> str:
    return f"{struct.unpack('<I', struct.pack('<f', value))[0]:08x}"


def _placed(n: int, terms: dict[int, float]) -> list[float]:
    x = [0.0] * n
    for at, value in terms.items():
        x[at] = value
    return x


def _run(kernel: Kernel, entry: str, x: Sequence[float], *scalars: int) -> float:
    device = "npu" if kernel.info.backend == "npu" else "cpu"
    whole = -(-len(x) // 8) * 8
    terms = torch.tensor([*x, *[0.0] * (whole - len(x))], dtype=torch.float32).to(device)
    out = torch.full((8,), float("nan")).to(device)
    kernel.launch(entry, 1, terms, out, *scalars)
    return float(out.cpu()[0])


def _sum(x: Sequence[float]) -> Callable[[Kernel], float]:
    return lambda kernel: _run(kernel, "probe_sum", x, len(x))


def _method(arch: archs.Arch, elements: int) -> int:
    return arch.reduce_sum_method_count(elements * 4)


def _tiles_agree(kernel: Kernel) -> float:
    # Terms of very different size: every association of them rounds differently.
    g = torch.Generator().manual_seed(9)
    x = torch.randn(4096, generator=g) * torch.exp2(torch.randint(-12, 13, (4096,), generator=g))
    one = _run(kernel, "probe_tiles", x.tolist(), 4096, 4096)
    many = _run(kernel, "probe_tiles", x.tolist(), 4096, 64)
    return float(_bits(one) == _bits(many))


def _h6(count: int) -> Callable[[archs.Arch, dict[str, str]], float]:
    def expected(arch: archs.Arch, switches: dict[str, str]) -> float:
        starts = switches.get("accumulator_start", arch.accumulator_start)
        masked = switches.get("masked_lanes", arch.masked_lanes)
        accumulates = _method(arch, count) == 1 and starts == "zero"
        return 0.0 if accumulates or (count < 64 and masked == "zero") else NEGATIVE_ZERO

    return expected


def _fused(arch: archs.Arch, switches: dict[str, str]) -> float:
    return 2.0**-24 if switches.get("fused", arch.fused) == "fused" else 0.0


def _overflow(arch: archs.Arch, switches: dict[str, str]) -> float:
    return INFINITY if switches.get("overflow", arch.overflow) == "inf_nan" else 65504.0


_TINY = struct.unpack("<f", struct.pack("<f", 1e-40))[0]
_ALL_METHODS = "the order of ReduceSum(dst, src, tmp, count) is "
_X7 = 1 + 2.0**-12

QUESTIONS: tuple[Question, ...] = (
    Question(
        "H1",
        "ReduceSum inside one repeat",
        _sum([1e8, 1.0, -1e8, 1.0] * 16),
        [
            (0.0, "adjacent pairs, as documented"),
            (32.0, "a halving tree: the tree of every reduction in the twin would have to change"),
            (1.0, "sequential: the tree of every reduction in the twin would have to change"),
        ],
        lambda arch, switches: 0.0,
    ),
    Question(
        "H2",
        "ReduceSum across four repeats",
        _sum(_placed(256, {0: 1e8, 64: 1.0, 128: -1e8, 192: 1.0})),
        [
            (1.0, _ALL_METHODS + "method 1: repeats are accumulated in ascending order"),
            (0.0, _ALL_METHODS + "method 2 or 3 (H3 and H10 tell them apart)"),
        ],
        lambda arch, switches: 1.0 if _method(arch, 256) == 1 else 0.0,
    ),
    Question(
        "H3",
        "ReduceSum across two repeats",
        _sum(_placed(128, {0: 1e8, 1: 1.0, 64: -1e8, 65: 1.0})),
        [
            (0.0, _ALL_METHODS + "method 1 or 2: each repeat has a tree of its own"),
            (2.0, _ALL_METHODS + "method 3: repeats are added lane by lane first"),
        ],
        lambda arch, switches: 2.0 if _method(arch, 128) == 3 else 0.0,
    ),
    Question(
        "H4",
        "rounding at the nodes of a sum",
        _sum([1.0, 2.0**-24, 2.0**-24, 0.0]),
        [
            (1.0, "every node is rounded to fp32, as documented"),
            (1 + 2.0**-23, "the sum is kept wider inside: the twin's nodes would have to be too"),
        ],
        lambda arch, switches: 1.0,
    ),
    Question(
        "H5",
        "subnormal terms",
        _sum([1e-40] * 64),
        [
            (64 * _TINY, "subnormals are kept, as the twin does"),
            (0.0, "subnormals are flushed to zero: the twin would have to flush them"),
        ],
        lambda arch, switches: 64 * _TINY,
    ),
    Question(
        "H6",
        "64 terms of -0: does an accumulator start at +0?",
        _sum([NEGATIVE_ZERO] * 64),
        [
            (0.0, "an accumulator that starts at +0 (switch accumulator_start: zero)"),
            (
                NEGATIVE_ZERO,
                "no accumulator that starts at +0 took part (methods 2 and 3 have none; of method "
                "1 the switch accumulator_start: first)",
            ),
        ],
        _h6(64),
        also=Question(
            "H6 count 1",
            "one term of -0: what do masked lanes count as?",
            _sum([NEGATIVE_ZERO]),
            [
                (0.0, "masked lanes count as +0, or the accumulator starts at +0 (see H6)"),
                (NEGATIVE_ZERO, "masked lanes are skipped (switch masked_lanes: skip)"),
            ],
            _h6(1),
        ),
    ),
    Question(
        "H7",
        "MulAddDst: one rounding or two?",
        lambda k: _run(k, "probe_mul_add", [_X7] * 8 + [_X7] * 8 + [-(1 + 2.0**-11)] * 8),
        [
            (2.0**-24, "fused: one rounding (switch fused: fused)"),
            (0.0, "the product is rounded first (switch fused: unfused)"),
        ],
        _fused,
    ),
    Question(
        "H8",
        "Cast of 70000 to half",
        lambda k: _run(k, "probe_cast", [70000.0] * 8),
        [
            (INFINITY, "overflow gives infinity (switch overflow: inf_nan)"),
            (65504.0, "overflow saturates (switch overflow: saturate)"),
        ],
        _overflow,
    ),
    Question(
        "H9",
        "4,096 terms in tiles of 64 and in one tile: equal bits (1) or not (0)",
        _tiles_agree,
        [
            (1.0, "the tile length does not change a bit: method 1, and tiles are added likewise"),
            (0.0, "the tile length decides the bits: not method 1 at 4096 elements"),
        ],
        lambda arch, switches: 1.0 if _method(arch, 4096) == 1 else 0.0,
    ),
    Question(
        "H10",
        "ReduceSum over 256 elements",
        _sum(
            _placed(
                256,
                {13: 1.0, 20: -1e8, 34: 3.0, 51: 3.0, 93: 1.0, 104: 3.0, 132: 1e8, 219: 1.0},
            )
        ),
        [
            (17.0, _ALL_METHODS + "method 1"),
            (16.0, _ALL_METHODS + "method 2"),
            (9.0, _ALL_METHODS + "method 3"),
            (1.0, _ALL_METHODS + "sequential: no documented method"),
            (12.0, _ALL_METHODS + "a halving tree over all 256: no documented method"),
        ],
        lambda arch, switches: {1: 17.0, 2: 16.0, 3: 9.0}[_method(arch, 256)],
    ),
)


def probe(
    arch: str = "dav-2201", *, backend: str = "twin", switches: dict[str, str] | None = None
) -> Probes:
    """Ask all probes.

    Args:
        arch: Architecture: of the twin, or of the device that is asked.
        backend: "twin" or "npu".
        switches: Twin only: undocumented choices, as in `KernelConfig`.

    Returns:
        Probes: one answer per probe, and `.report()` as Markdown.

    Raises:
        MissingError: No compiler, or for "npu" no CANN or device.

    Example:
        >>> import workbench as wb
        >>> found = wb.probe("dav-2201")
        >>> found.passed, found.probes[1].value
        (True, 1.0)
    """
    if backend not in ("twin", "npu"):
        raise InputError(f"backend={backend!r}: probes run on 'twin' or 'npu'")
    if backend == "npu" and switches:
        raise InputError("switches work on the twin only: a device does what it does")
    chosen = dict(switches or {})
    config = KernelConfig(arch=arch, switches=chosen)
    fused = bool(api.load()["MulAddDst"].dtypes[arch])
    kernel = builder.build(
        paths.ASCEND / "probe_ascend.asc",
        config,
        backend,
        defines={} if fused else {"PROBE_MUL_ADD": 0},
    )
    known = archs.load(arch)
    return Probes(
        backend=kernel.info.backend,
        arch=arch,
        switches=chosen,
        evidence=_evidence(kernel),
        probes=[
            _answer(q, kernel, known, chosen) if fused or q.name != "H7" else _cannot(q, arch)
            for q in QUESTIONS
        ],
    )


def _answer(question: Question, kernel: Kernel, arch: archs.Arch, switches: dict) -> Answer:
    value = question.ask(kernel)
    expected = question.expected(arch, switches)
    meanings = {_bits(v): text for v, text in question.answers}
    known = "; ".join(f"{v:g}: {text}" for v, text in question.answers)
    return Answer(
        name=question.name,
        asks=question.asks,
        value=value if math.isfinite(value) else None,
        bits=_bits(value),
        expected=expected if math.isfinite(expected) else None,
        expected_bits=_bits(expected),
        agrees=_bits(value) == _bits(expected),
        meaning=meanings.get(_bits(value), f"none of the answers we know of ({known})"),
        also=_answer(question.also, kernel, arch, switches) if question.also else None,
    )


def _cannot(question: Question, arch: str) -> Answer:
    """The answer where the architecture has not got the instruction."""
    meaning = f"MulAddDst does not exist on {arch}"
    return Answer(question.name, question.asks, None, "", None, "", True, meaning)


def _evidence(kernel: Kernel) -> dict[str, str]:
    from workbench import __version__

    found = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "backend": kernel.info.backend,
        "workbench": __version__,
        "compiler": kernel.info.compiler,
        "kernel source": f"probe_ascend.asc, {kernel.info.source_digest[:16]}",
        "host": f"{platform.machine()}, Python {platform.python_version()}",
        "torch": torch.__version__,
    }
    if kernel.info.backend == "npu":
        import torch_npu

        found["torch_npu"] = torch_npu.__version__
        found["device"] = torch_npu.npu.get_device_name()
    return found
