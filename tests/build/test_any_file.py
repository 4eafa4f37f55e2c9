"""Any user's .asc by its path: which kernels it has, how they are launched and refused."""

from __future__ import annotations

import ctypes
import math

import build_kit as kit
import pytest
import torch

import workbench as wb

MANY = """\ufeff#ifndef MANY_ASC
#define MANY_ASC
#include "kernel_operator.h"
// extern "C" __global__ __aicore__ void in_comment(GM_ADDR x) { }   k<<<1, nullptr, s>>>(x);
const char *const kText = "__global__ void in_string(GM_ADDR x) { k<<<1, 2>>>(x); }";
const char *const kRaw = R"raw(
    __global__ __aicore__ void in_raw(GM_ADDR x) { k<<<what ever>>>(x) "
)raw";
#if 0
extern "C" __global__ __aicore__ void in_if_zero(GM_ADDR x) { not C++ at all }
#else
extern "C" __global__ __aicore__ void in_else(__gm__ int32_t *out) { out[0] = 11; }
#endif
#ifdef WITH_EXTRA
extern "C" __global__ __aicore__ void extra(__gm__ int32_t *out) { out[0] = WITH_EXTRA; }
#else
extern "C" __global__ __aicore__ void no_extra(__gm__ int32_t *out) { out[0] = -1; }
#endif
#define MAKES_NO_KERNEL(name) __global__ __aicore__ void name(GM_ADDR x)

extern "C" __global__ __aicore__ void declared(GM_ADDR, int32_t);

extern "C" __global__ __aicore__ void empty() {}
extern "C" __global__ __aicore__ void blocks(__gm__ uint32_t *out) {
    out[AscendC::GetBlockIdx()] += AscendC::GetBlockNum();
}
extern "C" __global__ __aicore__ void declared(GM_ADDR out, int32_t n) {
    ((__gm__ int32_t *)out)[0] = n;
}
extern "C" __global__ __aicore__ void scalars(__gm__ double *out, int8_t a, uint8_t b, int16_t c,
                                              const uint16_t d, int e, unsigned int f, int64_t g,
                                              uint64_t h, float i, double j, bool k) {
    out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e; out[5] = f;
    out[6] = double(g); out[7] = double(h); out[8] = i; out[9] = j; out[10] = k;
}
extern "C" __global__ __aicore__ void small_floats(__gm__ uint16_t *out, half h, bfloat16_t b) {
    out[0] = h.bits;
    out[1] = b.bits;
}
struct Tiling {
    uint32_t rows, columns, more[100];
};
extern "C" __global__ __aicore__ void tiled(__gm__ int32_t *out, Tiling tiling) {
    out[0] = tiling.rows;
}
namespace ours {
enum class Mode : uint8_t { kOne = 1, kTwo = 2 };
using Address = __gm__ int32_t *;
struct Own {
    int a;
};
__global__ __aicore__ void typed(Address out, Mode mode) { out[0] = int32_t(mode); }
__global__ __aicore__ void same(__gm__ int32_t *out) { out[0] = 1; }
__global__ __aicore__ void owned(__gm__ int32_t *out, Own own) { out[0] = own.a; }
}  // namespace ours
namespace theirs {
__global__ __aicore__ void same(__gm__ int32_t *out) { out[0] = 2; }
}  // namespace theirs
namespace {
__global__ __aicore__ void hidden(__gm__ int32_t *out) { out[0] = 3; }
}  // namespace

template <typename T, int n>
__global__ __aicore__ void generic(__gm__ T *out) {
    out[AscendC::GetBlockIdx()] = T(n);
}
// A host function launches kernels itself.
void host(__gm__ int32_t *out, void *stream) {
    declared<<<1, nullptr, stream>>>((GM_ADDR)out, 21);
    generic<int32_t, 22><<<2 > 1 ? 2 : 1,
                           nullptr, stream>>>(out + 1);
}
// A kernel may do so here, which makes the host function reachable for the test.
extern "C" __global__ __aicore__ void calls_host(__gm__ int32_t *out) { host(out, nullptr); }
extern "C" __global__ __aicore__ void last_line(__gm__ int32_t *out) { out[0] = __LINE__; }
#endif
"""


@pytest.fixture
def many(record, tmp_path):
    path = tmp_path / "many.asc"
    path.write_text(MANY, encoding="utf-8")
    return wb.build(path, backend="twin")


def run(kernel, name, *args, blocks=1, n=4, dtype=torch.int32, **how):
    out = torch.zeros(n, dtype=dtype)
    kernel.launch(name, blocks, out, *args, **how)
    return out.tolist()


def test_everything_in_one_file(many):
    """One build, since each costs a compilation: the list, then each kernel."""
    assert [*many.kernels] == [
        *("in_else", "no_extra", "empty", "blocks", "declared", "scalars", "small_floats", "tiled"),
        *("typed", "ours::same", "owned", "theirs::same", "hidden", "calls_host", "last_line"),
    ]
    assert many.kernels["scalars"][1:] == [
        ("a", "int8_t", "i"),
        ("b", "uint8_t", "u"),
        ("c", "int16_t", "i"),
        ("d", "uint16_t", "u"),
        ("e", "int", "i"),
        ("f", "unsigned int", "u"),
        ("g", "int64_t", "i"),
        ("h", "uint64_t", "u"),
        ("i", "float", "f"),
        ("j", "double", "f"),
        ("k", "bool", "b"),
    ]
    assert [p[2] for p in many.kernels["typed"]] == ["p", "u"]
    many.launch("empty", 3)
    assert run(many, "in_else")[0] == 11 and run(many, "no_extra")[0] == -1
    assert run(many, "declared", 5)[0] == 5
    assert run(many, "typed", 2)[0] == 2
    assert [run(many, n)[0] for n in ("ours::same", "theirs::same", "hidden")] == [1, 2, 3]
    assert run(many, "last_line")[0] == 1 + MANY[: MANY.index("__LINE__")].count("\n")
    assert many.kernels["declared"] == [("out", "GM_ADDR", "p"), ("n", "int32_t", "i")]
    assert repr(many).startswith("<kernel many.asc on twin, dav-2201")
    with pytest.raises(wb.WorkbenchError, match="no operator of its own"):
        many(torch.ones(1))


def test_a_host_function_launches(many):
    assert run(many, "calls_host") == [21, 22, 22, 0]


def test_kernels_under_a_condition_follow_the_macros(many):
    extra = wb.build(many.info.source, backend="twin", defines={"WITH_EXTRA": 7})
    assert "extra" in extra.kernels and "no_extra" not in extra.kernels
    assert run(extra, "extra")[0] == 7
    assert extra.constants == {"WITH_EXTRA": 7} and many.constants == {}


LIMITS = [-(2**7), 2**8 - 1, -(2**15), 2**16 - 1, -(2**31), 2**32 - 1, -(2**63), 2**64 - 1]
GOOD = [*LIMITS, 0.1, 0.1, True]


def test_scalars_arrive_as_they_are(many):
    def f32(x):
        return ctypes.c_float(x).value

    assert run(many, "scalars", *GOOD, n=11, dtype=torch.float64) == [
        *map(float, LIMITS), f32(0.1), 0.1, 1.0
    ]  # fmt: skip
    odd = [0] * 8 + [-math.inf, math.nan, False]
    out = run(many, "scalars", *odd, n=11, dtype=torch.float64)
    assert out[8] == -math.inf and math.isnan(out[9]) and out[10] == 0
    assert run(many, "scalars", *[True] * 8, 3, 2**80, False, n=11, dtype=torch.float64) == [
        *[1.0] * 8, 3.0, 2.0**80, 0.0
    ]  # fmt: skip


def test_sixteen_bit_floats_arrive_rounded(many):
    for value in (0.1, -1.5, 65519.0, 65520.0, 1e-7, 3.3e38):
        want = [
            torch.tensor(value, dtype=torch.float32).to(t).view(torch.int16).item() & 0xFFFF
            for t in (torch.float16, torch.bfloat16)
        ]
        out = torch.zeros(2, dtype=torch.int16)
        many.launch("small_floats", 1, out, value, value)
        assert [v & 0xFFFF for v in out.tolist()] == want, value


@pytest.mark.parametrize("place", range(8))
@pytest.mark.parametrize("by", [-1, 1])
def test_integers_out_of_range(many, place, by):
    """Just outside either end of each type."""
    bits, signed = [(8, 1), (8, 0), (16, 1), (16, 0), (32, 1), (32, 0), (64, 1), (64, 0)][place]
    low = -(2 ** (bits - 1)) if signed else 0
    high = 2 ** (bits - signed) - 1
    bad = [*GOOD]
    bad[place] = low - 1 if by < 0 else high + 1
    with pytest.raises(wb.InputError, match=rf"parameter {'abcdefgh'[place]} is .*got -?\d+"):
        run(many, "scalars", *bad, n=11, dtype=torch.float64)
    bad[place] = low if by < 0 else high
    run(many, "scalars", *bad, n=11, dtype=torch.float64)  # control: the end itself


WRONG = {
    "float for an integer": (4, 1.0),
    "text for an integer": (4, "1"),
    "nothing for an integer": (4, None),
    "tensor for an integer": (7, torch.zeros(1)),
    "tensor for a float": (8, torch.zeros(1)),
    "nothing for a float": (8, None),
    "text for a float": (9, "0.1"),
    "complex for a float": (9, 1j),
    "integer beyond a float": (8, 10**400),
    "number for a bool": (10, 2),
    "nothing for a bool": (10, None),
    "text for a bool": (10, "yes"),
    "list for a bool": (10, []),
}


@pytest.mark.parametrize("what", WRONG)
def test_arguments_of_the_wrong_type(many, what):
    place, value = WRONG[what]
    bad = [*GOOD]
    bad[place] = value
    with pytest.raises(wb.InputError, match=f"parameter {'abcdefghijk'[place]} is "):
        run(many, "scalars", *bad, n=11, dtype=torch.float64)


def test_other_launches_that_are_refused(many):
    out = torch.zeros(4, dtype=torch.int32)
    refused = {
        "takes 1 arguments .*; got 0": ("blocks", 1, []),
        "takes 1 arguments .*; got 2": ("blocks", 1, [out, out]),
        "takes 0 arguments .*; got 1": ("empty", 1, [out]),
        "no kernel 'same'; it has": ("same", 1, [out]),
        "no kernel 'in_comment'": ("in_comment", 1, [out]),
        "no kernel 'generic'": ("generic", 1, [out]),
        "takes a tensor or None; got 5": ("blocks", 1, [5]),
        r"takes a tensor or None; got \[1, 2\]": ("blocks", 1, [[1, 2]]),
        "not contiguous": ("blocks", 1, [torch.zeros(4, 4, dtype=torch.int32).T[:2]]),
        "a tensor on meta": ("blocks", 1, [torch.zeros(4, device="meta")]),
        "blocks=0": ("blocks", 0, [out]),
        "blocks=65536": ("blocks", 65536, [out]),
        "blocks=-1": ("blocks", -1, [out]),
        "blocks=True": ("blocks", True, [out]),
        "blocks=1.0": ("blocks", 1.0, [out]),
        "Tiling, which is neither an address nor a number": ("tiled", 1, [out, b"1234"]),
        "Own, which is neither": ("owned", 1, [out, 1]),
    }
    for words, (name, blocks, args) in refused.items():
        with pytest.raises(wb.InputError, match=words):
            many.launch(name, blocks, *args)
    for ids in ([4], [-1], [0, 4]):
        with pytest.raises(wb.InputError, match="not among the 4 blocks"):
            many.launch("blocks", 4, out, block_ids=ids)
    assert out.tolist() == [0] * 4, "nothing ran"


def test_block_ids(many):
    def ran(**how):
        return run(many, "blocks", blocks=4, **how)

    assert ran() == ran(threads=1) == ran(threads=2) == ran(threads=99) == [4] * 4
    assert ran(block_ids=[2]) == [0, 0, 4, 0]
    assert ran(block_ids=(3, 1), threads=2) == [0, 4, 0, 4]
    assert ran(block_ids=[]) == [0] * 4, "an empty list is no block, not every block"
    assert ran(block_ids=[1, 1], threads=1) == [0, 8, 0, 0]


def test_the_most_blocks_there_can_be(many):
    out = run(many, "blocks", blocks=65535, n=65535)
    assert out == [65535] * 65535


def test_none_is_a_null_address(record, tmp_path):
    path = kit.source(
        tmp_path,
        '#include "kernel_operator.h"\n'
        'extern "C" __global__ __aicore__ void k(__gm__ int *out, GM_ADDR maybe) '
        "{ out[0] = maybe == nullptr; }\n",
    )
    kernel = wb.build(path, backend="twin")
    assert run(kernel, "k", None)[0] == 1
    assert run(kernel, "k", torch.zeros(1))[0] == 0


@pytest.mark.parametrize("arch", ["dav-1001", "dav-2002", "dav-2201", "dav-3510"])
def test_every_architecture_builds(each_compiler, tmp_path, arch):
    kernel = wb.build(kit.source(tmp_path), wb.KernelConfig(arch=arch), backend="twin")
    assert run(kernel, "fill", dtype=torch.float32)[0] == 1
    assert (kernel.module.arch, kernel.module.backend, kernel.info.arch) == (arch, "twin", arch)


def test_a_file_without_kernels(record, tmp_path):
    kernel = wb.build(kit.source(tmp_path, "int helper() { return 1; }\n"), backend="twin")
    assert kernel.kernels == {}
    with pytest.raises(wb.InputError, match="it has none"):
        kernel.launch("k", 1)


def test_odd_paths_and_texts(record, tmp_path):
    folder = tmp_path / 'a "folder" with spaces, ünïcode & $HOME'
    folder.mkdir()
    text = kit.FILL.replace("= N;", "= 1; // ünïcode") + 'const char *kText = "日本";\n'
    path = folder / "k.asc"
    path.write_bytes(text.replace("\n", "\r\n").encode())
    kernel = wb.build(path, backend="twin")
    assert run(kernel, "fill", dtype=torch.float32)[0] == 1
    path.write_bytes(text.encode().replace(b"1; //", b"x; //"))
    with pytest.raises(wb.BuildError, match=r"x; // ünïcode") as e:
        wb.build(path, backend="twin")
    assert (e.value.file, e.value.line) == (str(path), 6)
    path.write_bytes(b"// caf\xe9\n")
    with pytest.raises(wb.BuildError, match="not UTF-8"):
        wb.build(path, backend="twin")
    with pytest.raises(wb.ConfigError, match=r"give the path of an \.asc file"):
        wb.build(folder, backend="twin")


def test_large_and_odd_macros(record, tmp_path):
    whole = {"W_A": 2**63 - 1, "W_B": -5, "W_C": "0x10", "W_D": "010", "W_E": True}
    other = {"O_A": 2**63, "O_B": 1.5, "O_C": "", "O_D": "08", "O_E": "a b", "O_F": "1+1"}
    kernel = wb.build(kit.source(tmp_path), backend="twin", defines={**whole, **other})
    assert kernel.constants == {"W_A": 2**63 - 1, "W_B": -5, "W_C": 16, "W_D": 8, "W_E": 1}
    assert kernel.info.defines["O_A"] == str(2**63) and kernel.info.defines["O_E"] == "a b"


def test_rebuild_keeps_the_source_and_the_macros(record, tmp_path):
    kernel = wb.build(kit.source(tmp_path), backend="twin", defines={"N": 6})
    other = kernel.rebuild(arch="dav-3510", tile_length=64)
    assert run(other, "fill", dtype=torch.float32)[0] == 6
    assert other.constants == {"N": 6, "TILE_LENGTH": 64} and other.info.arch == "dav-3510"
    assert kernel.config == wb.KernelConfig() != other.config


# ---- faults ------------------------------------------------------------------------------------

FAULTS = """#include "kernel_operator.h"
using namespace AscendC;
#define KERNEL extern "C" __global__ __aicore__ void
"""
BODY = (
    "TPipe pipe; TQue<TPosition::VECIN, 1> que; TBuf<TPosition::VECCALC> buf;\n"
    "pipe.InitBuffer(que, 1, 1024); pipe.InitBuffer(buf, 1024);\n"
    "LocalTensor<float> a = buf.Get<float>();\n"
)
KINDS = {
    "deadlock": ("que.AllocTensor<float>();\nque.AllocTensor<float>();", "sync", "queue-deadlock"),
    "dequeue": ("\nque.DeQue<float>();", "sync", "queue-empty"),
    "flag": ("\nWaitFlag<HardEvent::V_S>(0);", "sync", "flag-not-set"),
    "cast": ("LocalTensor<half> h = que.AllocTensor<half>();\n"
             "Cast(a, h, RoundMode::CAST_RINT, 8);", "mem", "cast-mode"),
    "misaligned": ("\nAdd(a, a, a[1], 8);", "mem", "alignment"),
    "budget": ("\npipe.InitBuffer(buf, 300000);", "mem", "ub-budget"),
    "none": ("\nAdd(a, a, a, 8);", "", ""),
}  # fmt: skip


@pytest.fixture
def faulty(record, tmp_path):
    text = FAULTS
    for name, (code, _, _) in KINDS.items():
        text += f'extern "C" __global__ __aicore__ void {name}() {{\n{BODY}{code}  // {name}\n}}\n'
    return wb.build(kit.source(tmp_path, text), backend="twin"), text


def test_faults_name_file_and_line_and_the_process_lives_on(faulty):
    kernel, text = faulty
    for name, (_, kind, code) in KINDS.items():
        if not kind:
            continue
        line = next(i for i, x in enumerate(text.split("\n"), 1) if x.endswith(f"// {name}"))
        for threads in (1, 2):
            with pytest.raises(wb.TwinFault) as e:
                kernel.launch(name, 3, threads=threads)
            assert (e.value.kind, e.value.code) == (kind, code)
            assert str(e.value).startswith(f"{kernel.info.source}:{line}: ")
            assert e.value.block in range(3)
        kernel.launch("none", 3)  # the control, and the process lives on


def test_a_fault_in_one_block_names_it(record, tmp_path):
    text = (
        '#include "kernel_operator.h"\n'
        'extern "C" __global__ __aicore__ void k(__gm__ int *out, uint32_t bad) {\n'
        "    AscendC::TPipe pipe;\n"
        "    if (AscendC::GetBlockIdx() == bad) AscendC::WaitFlag<AscendC::HardEvent::V_S>(1);\n"
        "    out[AscendC::GetBlockIdx()] = 1;\n}\n"
    )
    kernel = wb.build(kit.source(tmp_path, text), backend="twin")
    out = torch.zeros(8, dtype=torch.int32)
    with pytest.raises(wb.TwinFault, match=r"k\.asc:4: .*\(kernel k, block 5\)") as e:
        kernel.launch("k", 8, out, 5, threads=1)
    assert e.value.block == 5 and out.tolist() == [1] * 5 + [0] * 3
    kernel.launch("k", 8, out, 8)
    assert out.tolist() == [1] * 8
