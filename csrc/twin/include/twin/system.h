// System variables: which block this is, how large things are, and the control register.
#pragma once

#include "twin/tensor.h"

namespace twin {

uint64_t control_register();  // of the block: bit 48 as the launch began with, the rest 0
void reset_control_register(uint64_t mask, Where where);
void set_control_register(uint64_t value, uint64_t mask, Where where);

constexpr uint64_t bits_between(int first, int last) {
    return (last - first >= 63 ? ~uint64_t{0} : (uint64_t{1} << (last - first + 1)) - 1) << first;
}

// `block_idx` and `block_num`, which the device's compiler knows: a variable of a kernel's own of
// that name hides them, as a macro would not let it.
struct BlockIndex {
    operator int64_t() const { return block().index; }
};
struct BlockCount {
    operator int64_t() const { return block().count; }
};

}  // namespace twin

constexpr twin::BlockIndex block_idx{};
constexpr twin::BlockCount block_num{};
__aicore__ inline int64_t get_block_idx() {
    return twin::block().index;
}
__aicore__ inline int64_t get_block_num() {
    return twin::block().count;
}

// In parentheses: `if ASCEND_IS_AIV {` is how the documents write it.
#define ASCEND_IS_AIV (true)
#define ASCEND_IS_AIC (false)

namespace AscendC {

__aicore__ inline int64_t GetBlockIdx() {
    return twin::block().index;
}
__aicore__ inline int64_t GetBlockNum() {
    return twin::block().count;
}
// A vector kernel: one vector core to a block.
__aicore__ inline int64_t GetSubBlockIdx() {
    return 0;
}
__aicore__ inline int64_t GetSubBlockNum() {
    return 1;
}
__aicore__ inline int64_t GetTaskRation() {
    return 1;
}
__aicore__ inline int64_t GetTaskRatio() {
    return 1;
}

// In the twin the line of the call, and a count of the calls (assumed): both the same in every run.
__aicore__ inline int64_t GetProgramCounter(twin::Where where = twin::Where::here()) {
    return where.line;
}
__aicore__ inline int64_t GetSystemCycle() {
    return static_cast<int64_t>(++twin::block().cycles);
}

// Two hexadecimal digits for the architecture and one for its variant (assumed for dav-3510).
__aicore__ inline void GetArchVersion(uint32_t &coreVersion) {
#if !defined(WB_TWIN_ARCH)
    coreVersion = 0;
#elif WB_TWIN_ARCH == 1001
    coreVersion = 0x100;
#elif WB_TWIN_ARCH == 2002
    coreVersion = 0x200;
#elif WB_TWIN_ARCH == 2201
    coreVersion = 0x220;
#else
    coreVersion = 0x351;
#endif
}

__aicore__ constexpr uint32_t GetDataBlockSizeInBytes() {
    return twin::kDataBlock;
}
__aicore__ constexpr uint32_t GetUBSizeInBytes() {
    return twin::kArch.ub_bytes;
}
__aicore__ inline uint32_t GetRuntimeUBSize() {
    return twin::block().arch->ub_bytes;
}
__aicore__ constexpr uint32_t GetVecLen() {
    return twin::kRepeat;
}

// Bits startBit to endBit of the control register. Bit 48: overflow gives infinity and NaN; with 0
// it saturates. The others are kept and have no effect.
template <int8_t startBit, int8_t endBit>
__aicore__ inline void SetCtrlSpr(int64_t value, twin::Where where = twin::Where::here()) {
    TWIN_EXISTS(SetCtrlSpr, startBit * 0);
    static_assert(0 <= startBit && startBit <= endBit && endBit < 64, "bits 0 to 63, in order");
    twin::set_control_register(static_cast<uint64_t>(value) << startBit,
                               twin::bits_between(startBit, endBit), where);
}
template <int8_t startBit, int8_t endBit>
__aicore__ inline int64_t GetCtrlSpr() {
    TWIN_EXISTS(GetCtrlSpr, startBit * 0);
    static_assert(0 <= startBit && startBit <= endBit && endBit < 64, "bits 0 to 63, in order");
    return static_cast<int64_t>((twin::control_register() & twin::bits_between(startBit, endBit)) >>
                                startBit);
}
// Back to what the launch began with.
template <int8_t startBit, int8_t endBit>
__aicore__ inline void ResetCtrlSpr(twin::Where where = twin::Where::here()) {
    TWIN_EXISTS(ResetCtrlSpr, startBit * 0);
    static_assert(0 <= startBit && startBit <= endBit && endBit < 64, "bits 0 to 63, in order");
    twin::reset_control_register(twin::bits_between(startBit, endBit), where);
}

// Whether overflow saturates.
template <int zero = 0>
__aicore__ inline void SetSaturationFlag(bool on, twin::Where where = twin::Where::here()) {
    TWIN_EXISTS(SetSaturationFlag, zero);
    SetCtrlSpr<48, 48>(on ? 0 : 1, where);
}
template <int zero = 0>
__aicore__ inline bool GetSaturationFlag() {
    TWIN_EXISTS(GetSaturationFlag, zero);
    return GetCtrlSpr<48, 48>() == 0;
}

// The workspace that the framework gives an operator. A kernel that is launched by <<<>>> gets it
// as an argument; nothing of it is the system's (assumed).
__aicore__ inline void SetSysWorkSpace(GM_ADDR workspace) {
    twin::block().workspace = workspace;
}
__aicore__ inline void SetSysWorkspace(GM_ADDR workspace) {
    SetSysWorkSpace(workspace);
}
__aicore__ inline GM_ADDR GetSysWorkSpacePtr() {
    return static_cast<GM_ADDR>(twin::block().workspace);
}
__aicore__ inline GM_ADDR GetUserWorkspace(GM_ADDR workspace) {
    return workspace;
}

}  // namespace AscendC
