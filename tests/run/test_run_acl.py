"""The acl host API: what each call returns, for right and for wrong use."""

from __future__ import annotations

from run_kit import START

# CHECK prints the line of an expression that is not what it should be.
CHECKS = (
    START
    + """
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>
static int bad = 0;
template <typename A, typename B>
void check(A got, B want, const char *text, int line) {
    if (!(got == A(want))) {
        std::printf("line %d: %s is %lld, not %lld\\n", line, text, (long long)got,
                    (long long)want);
        ++bad;
    }
}
#define CHECK(expression, want) check((expression), (want), #expression, __LINE__)
const auto kHuge = ACL_MEM_MALLOC_HUGE_FIRST;
"""
)


def checks(run, body, *args):
    out = run(CHECKS + "int main() {\n" + body + "\nreturn bad;\n}\n", *args)
    assert out["stdout"] == "" and out["exit_code"] == 0, out
    return out


def test_start_and_end(run):
    checks(
        run,
        """
    CHECK(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
    CHECK(aclInit("/no/such/file.json"), ACL_ERROR_INVALID_FILE);
    CHECK(aclInit(nullptr), ACL_SUCCESS);
    CHECK(aclInit(nullptr), ACL_ERROR_REPEAT_INITIALIZE);
    CHECK(aclFinalize(), ACL_SUCCESS);
    CHECK(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
    CHECK(aclInit(""), ACL_SUCCESS);
    CHECK(aclFinalize(), 0);
    """,
    )


def test_the_documented_numbers(run):
    checks(
        run,
        """
    CHECK(ACL_SUCCESS, 0); CHECK(ACL_ERROR_NONE, 0);
    CHECK(ACL_ERROR_INVALID_PARAM, 100000); CHECK(ACL_ERROR_UNINITIALIZE, 100001);
    CHECK(ACL_ERROR_REPEAT_INITIALIZE, 100002); CHECK(ACL_ERROR_REPEAT_FINALIZE, 100037);
    CHECK(ACL_ERROR_RT_PARAM_INVALID, 107000); CHECK(ACL_ERROR_RT_CONTEXT_NULL, 107002);
    CHECK(ACL_ERROR_RT_MEMORY_ALLOCATION, 207001);
    CHECK(ACL_ERROR_RT_VECTOR_CORE_TIMEOUT, 507034);
    CHECK(ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, 507035);
    CHECK(ACL_FLOAT, 0); CHECK(ACL_FLOAT16, 1); CHECK(ACL_INT32, 3); CHECK(ACL_BF16, 27);
    CHECK(ACL_MEMCPY_HOST_TO_DEVICE, 1); CHECK(ACL_MEMCPY_DEVICE_TO_HOST, 2);
    CHECK(ACL_MEMCPY_DEVICE_TO_DEVICE, 3); CHECK(ACL_DEVICE, 0); CHECK(ACL_HOST, 1);
    CHECK(aclDataTypeSize(ACL_FLOAT16), 2u); CHECK(aclDataTypeSize(ACL_COMPLEX128), 16u);
    CHECK(aclDataTypeSize(ACL_STRING), 0u); CHECK(aclDataTypeSize(ACL_BF16), 2u);
    """,
    )


def test_devices_and_contexts(run):
    checks(
        run,
        """
    int32_t device = -1; uint32_t count = 0; aclrtRunMode mode; aclrtContext first, second, now;
    void *memory; aclrtStream stream; size_t free, total;
    CHECK(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtMalloc(&memory, 8, kHuge), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtCreateStream(&stream), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtSynchronizeDevice(), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtResetDevice(0), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtGetDeviceCount(&count), 0); CHECK(count, 1u);
    CHECK(aclrtSetDevice(1), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK(aclrtSetDevice(-1), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK(aclrtSetDevice(0), 0);
    CHECK(aclrtGetDevice(&device), 0); CHECK(device, 0);
    CHECK(aclrtGetDevice(nullptr), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtGetRunMode(&mode), 0); CHECK(mode, ACL_HOST);
    CHECK(aclrtGetCurrentContext(&first), 0);
    CHECK(aclrtCreateContext(&second, 0), 0);
    CHECK(aclrtGetCurrentContext(&now), 0); CHECK(now == second, true);
    CHECK(aclrtSetCurrentContext(first), 0);
    CHECK(aclrtDestroyContext(second), 0);
    CHECK(aclrtDestroyContext(second), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtDestroyContext(first), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtSetCurrentContext(second), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), 0); CHECK(free, total);
    CHECK(aclrtMalloc(&memory, 1000, kHuge), 0);
    CHECK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), 0); CHECK(free, total - 1000);
    CHECK(aclrtFree(memory), 0);
    std::thread([&] {
        CHECK(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
        CHECK(aclrtSetCurrentContext(first), 0);
        CHECK(aclrtGetDevice(&device), 0);
    }).join();
    CHECK(aclrtSetDevice(0), 0);
    CHECK(aclrtResetDevice(0), 0);
    CHECK(aclrtGetDevice(&device), 0);
    CHECK(aclrtResetDevice(0), 0);
    CHECK(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
    """,
    )


def test_streams_and_events(run):
    checks(
        run,
        """
    aclrtStream stream, other; aclrtEvent start, end, timeless; float ms = -1;
    aclrtStreamStatus status; aclrtEventRecordedStatus recorded; aclrtEventStatus query;
    aclrtSetDevice(0);
    CHECK(aclrtCreateStream(nullptr), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtCreateStream(&stream), 0);
    CHECK(aclrtCreateStreamWithConfig(&other, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC), 0);
    CHECK(stream != other, true);
    CHECK(aclrtSynchronizeStream(nullptr), 0);
    CHECK(aclrtSynchronizeStream(stream), 0);
    CHECK(aclrtSynchronizeStreamWithTimeout(stream, 1000), 0);
    CHECK(aclrtSynchronizeStreamWithTimeout(stream, -2), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtStreamQuery(stream, &status), 0); CHECK(status, ACL_STREAM_STATUS_COMPLETE);
    CHECK(aclrtCreateEvent(&start), 0);
    CHECK(aclrtCreateEventWithFlag(&end, ACL_EVENT_TIME_LINE), 0);
    CHECK(aclrtCreateEventWithFlag(&timeless, ACL_EVENT_SYNC), 0);
    CHECK(aclrtCreateEventWithFlag(&timeless, 0), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtQueryEventStatus(start, &recorded), 0);
    CHECK(recorded, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    CHECK(aclrtSynchronizeEvent(start), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtEventElapsedTime(&ms, start, end), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    CHECK(aclrtRecordEvent(start, stream), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(aclrtRecordEvent(end, nullptr), 0);
    CHECK(aclrtRecordEvent(timeless, stream), 0);
    CHECK(aclrtQueryEventStatus(start, &recorded), 0);
    CHECK(recorded, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    CHECK(aclrtQueryEvent(start, &query), 0); CHECK(query, ACL_EVENT_STATUS_COMPLETE);
    CHECK(aclrtSynchronizeEvent(end), 0);
    CHECK(aclrtEventElapsedTime(&ms, start, end), 0); CHECK(ms >= 20 && ms < 20000, true);
    CHECK(aclrtEventElapsedTime(&ms, end, start), ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL);
    CHECK(aclrtEventElapsedTime(&ms, start, timeless), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    CHECK(aclrtStreamWaitEvent(other, start), 0);
    CHECK(aclrtStreamWaitEvent(other, end), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtDestroyEvent(start), 0);
    CHECK(aclrtDestroyEvent(start), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK(aclrtRecordEvent(start, stream), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK(aclrtDestroyEvent(nullptr), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtDestroyStream(stream), 0);
    CHECK(aclrtDestroyStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK(aclrtDestroyStream(nullptr), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtResetDevice(0), 0);
    CHECK(aclrtSynchronizeStream(other), ACL_ERROR_RT_INVALID_HANDLE);  // it went with its context
    """,
    )


def test_memory(run):
    checks(
        run,
        """
    aclrtSetDevice(0);
    void *d = nullptr, *e = nullptr, *h = nullptr;
    std::vector<uint8_t> a(1000), b(1000);
    for (size_t i = 0; i < a.size(); ++i) a[i] = uint8_t(i * 7);
    CHECK(aclrtMalloc(nullptr, 8, kHuge), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMalloc(&d, 0, kHuge), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMalloc(&d, size_t(1) << 50, kHuge), ACL_ERROR_RT_MEMORY_ALLOCATION);
    CHECK(aclrtMalloc(&d, 1000, kHuge), 0); CHECK(uintptr_t(d) % 512, 0u);
    CHECK(aclrtMallocAlign32(&e, 1000, ACL_MEM_MALLOC_NORMAL_ONLY), 0);
    CHECK(aclrtMallocHost(&h, 1000), 0);
    const auto H2D = ACL_MEMCPY_HOST_TO_DEVICE; const auto D2H = ACL_MEMCPY_DEVICE_TO_HOST;
    const auto D2D = ACL_MEMCPY_DEVICE_TO_DEVICE;
    CHECK(aclrtMemcpy(d, 1000, a.data(), 1000, H2D), 0);
    CHECK(aclrtMemcpyAsync(e, 1000, d, 1000, D2D, nullptr), 0);
    CHECK(aclrtMemcpy(h, 1000, e, 1000, D2H), 0);
    CHECK(aclrtMemcpy(b.data(), 1000, h, 1000, ACL_MEMCPY_HOST_TO_HOST), 0);
    CHECK(b == a, true);
    CHECK(aclrtMemset(d, 1000, 0x5a, 10), 0);
    CHECK(aclrtMemcpy(b.data(), 1000, d, 11, ACL_MEMCPY_DEFAULT), 0);
    CHECK(b[9], 0x5a); CHECK(b[10], 70);
    CHECK(aclrtMemcpy(d, 1000, nullptr, 8, H2D), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemcpy(nullptr, 1000, d, 8, D2H), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemcpy(d, 7, a.data(), 8, H2D), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemcpy(d, 7, a.data(), 0, H2D), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpy(d, 1000, a.data(), 8, aclrtMemcpyKind(99)), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemcpy(d, 1000, e, 8, H2D), 0);  // a device goes by the addresses
    CHECK(aclrtMemcpy(b.data(), 1000, a.data(), 8, H2D), ACL_ERROR_RT_INVALID_MEMORY_TYPE);
    CHECK(aclrtMemcpy(d, 2000, a.data(), 1001, H2D), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemcpyAsync(h, 1000, a.data(), 8, ACL_MEMCPY_HOST_TO_HOST, nullptr),
          ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK(aclrtMemcpyAsync(d, 1000, a.data(), 8, H2D, &d), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK(aclrtMemset(d, 1000, 0, 1001), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemset(d, 2000, 0, 1001), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtMemset(nullptr, 8, 0, 8), ACL_ERROR_INVALID_PARAM);
    // Three rows of 4 bytes out of 10, into rows of 8.
    CHECK(aclrtMemcpy2d(d, 8, a.data() + 3, 10, 4, 3, H2D), 0);
    CHECK(aclrtMemcpy(b.data(), 1000, d, 24, D2H), 0);
    CHECK(b[0], 21); CHECK(b[3], 42); CHECK(b[8], a[13]); CHECK(b[19], a[26]); CHECK(b[4], a[4]);
    CHECK(aclrtMemcpy2dAsync(d, 8, a.data(), 10, 9, 3, H2D, nullptr), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtMemcpy2d(d, 500, a.data(), 10, 10, 3, H2D), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtFree(nullptr), ACL_ERROR_INVALID_PARAM);
    CHECK(aclrtFree(h), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtFree(static_cast<uint8_t *>(d) + 8), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtFree(a.data()), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtFreeHost(d), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtFree(d), 0); CHECK(aclrtFree(d), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(aclrtFree(e), 0); CHECK(aclrtFreeHost(h), 0);
    """,
    )


def test_what_nobody_wrote_is_no_zero(run):
    checks(
        run,
        """
    aclrtSetDevice(0);
    float *d, h[8] = {};
    aclrtMalloc((void **)&d, sizeof h, kHuge);
    aclrtMemcpy(h, sizeof h, d, sizeof h, ACL_MEMCPY_DEVICE_TO_HOST);
    for (float value : h) CHECK(std::isnan(value), true);
    """,
    )


def test_the_last_errors_text(run):
    out = run(
        CHECKS
        + """
    int main() {
        const char *none = aclGetRecentErrMsg();
        aclrtSetDevice(3);
        std::string text = aclGetRecentErrMsg();
        std::printf("%d %d %s", none == nullptr, aclGetRecentErrMsg() == nullptr, text.c_str());
    }
    """,
        rc=0,
    )
    assert out["stdout"].startswith("1 1 ")
    assert "main.asc" in out["stdout"] and "aclrtSetDevice: device 3" in out["stdout"]
    assert "107001" in out["stdout"]


def test_half_conversions(run):
    checks(
        run,
        """
    CHECK(aclFloatToFloat16(1.0f), 0x3c00); CHECK(aclFloatToFloat16(65520.0f), 0x7c00);
    CHECK(aclFloatToFloat16(65519.0f), 0x7bff); CHECK(aclFloatToFloat16(-0.0f), 0x8000);
    CHECK(aclFloatToFloat16(1.00048828125f), 0x3c00);  // a tie, to even
    CHECK(aclFloat16ToFloat(0x3555), 0.333251953125f);
    for (uint32_t bits = 0; bits < 0x7c00; ++bits)
        CHECK(aclFloatToFloat16(aclFloat16ToFloat(uint16_t(bits))), bits);
    """,
    )


FAULT = """
extern "C" __global__ __aicore__ void fault(GM_ADDR x) {
    AscendC::TPipe pipe;
    AscendC::TBuf<AscendC::TPosition::VECCALC> buf;
    %s
}
extern "C" __global__ __aicore__ void fine(__gm__ int *x) { x[0] = 1; }
"""


def dead(run, kernel, error):
    text = (
        CHECKS
        + FAULT % kernel
        + """
int main() {
    int *d, h = 0, other = 2;
    aclrtStream s;
    aclrtSetDevice(0);
    aclrtCreateStream(&s);
    aclrtMalloc((void **)&d, 4, kHuge);
    aclrtMemcpy(d, 4, &other, 4, ACL_MEMCPY_HOST_TO_DEVICE);
    fault<<<1, nullptr, s>>>((GM_ADDR)d);
    fine<<<1, nullptr, s>>>(d);
    CHECK(*d, 2);
    CHECK(aclrtSynchronizeStream(s), ERROR);
    CHECK(std::string(aclGetRecentErrMsg()).find("vector core") != std::string::npos, true);
    CHECK(aclrtSynchronizeDevice(), ERROR);
    CHECK(aclrtMemcpy(&h, 4, d, 4, ACL_MEMCPY_DEVICE_TO_HOST), ERROR);
    CHECK(aclrtFree(d), 0);
    CHECK(aclrtResetDevice(0), 0);
    CHECK(aclrtSetDevice(0), 0);
    CHECK(aclrtMalloc((void **)&d, 4, kHuge), 0);
    fine<<<1, nullptr, nullptr>>>(d);
    CHECK(aclrtSynchronizeDevice(), 0);
    CHECK(*d, 1);
    return bad;
}
"""
    )
    out = run(text, "-D", f"ERROR={error}", rc=1)
    assert (out["exit_code"], out["stdout"]) == (0, "")
    assert len(out["faults"]) == 1
    return out["faults"][0]


def test_after_a_fault_the_device_is_dead_until_it_is_reset(run):
    assert dead(run, "pipe.InitBuffer(buf, 1000000);", 507035)["code"] == "ub-budget"


def test_what_hangs_is_a_time_out(run):
    assert dead(run, "AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(0);", 507034)["kind"] == "sync"


def test_a_launch_of_no_blocks(run):
    text = CHECKS + FAULT % "" + "int main() { fault<<<N, nullptr, nullptr>>>(nullptr); }\n"
    for blocks in (0, 65536):
        (fault,) = run(text, "-D", f"N={blocks}", rc=1)["faults"]
        assert (fault["code"], fault["file"][-8:]) == ("block-count", "main.asc")
    run(text, "-D", "N=65535", rc=0)
