// What a host program asks of its platform: core counts and buffer sizes, from the architecture
// that the program is built for. Written from the public documentation; only what a program with
// its own `main` uses.
#pragma once

#include <cstdint>

#include <twin/runtime.h>

namespace platform_ascendc {

enum class CoreMemType { L0_A = 0, L0_B, L0_C, L1, L2, UB, HBM, RESERVED };

class PlatformAscendC {
  public:
    uint32_t GetCoreNum() const { return GetCoreNumAiv(); }
    uint32_t GetCoreNumAic() const { return split() ? GetCoreNumAiv() / 2 : GetCoreNumAiv(); }
    uint32_t GetCoreNumAiv() const { return twin::kArch.vector_cores; }
    uint32_t GetCoreNumVector() const { return GetCoreNumAiv(); }
    // Only UB exists here; other buffers have no bytes.
    void GetCoreMemSize(const CoreMemType &type, uint64_t &size) const {
        size = type == CoreMemType::UB ? twin::kArch.ub_bytes : 0;
    }
    uint32_t GetLibApiWorkSpaceSize() const { return 16u * 1024 * 1024; }  // *assumed*
    // Blocks for a kernel that keeps `sliceNum` slices busy on vector cores alone.
    uint32_t CalcTschBlockDim(uint32_t sliceNum, uint32_t /*aicCoreNum*/,
                              uint32_t /*aivCoreNum*/) const {
        return sliceNum;
    }

  private:
    static constexpr bool split() { return WB_TWIN_ARCH == 2201 || WB_TWIN_ARCH == 3510; }
};

class PlatformAscendCManager {
  public:
    static PlatformAscendC *GetInstance() {
        static PlatformAscendC platform;
        return &platform;
    }
    static PlatformAscendC *GetInstance(const char * /*socVersion*/) { return GetInstance(); }
};

}  // namespace platform_ascendc
