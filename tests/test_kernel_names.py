"""The shipped kernels use only names that CANN 8.5 documents: the twin knows others too.

The list below was written from the vendor's public API reference; it is not made from the twin.
"""

from __future__ import annotations

import re

import pytest

from workbench import paths
from workbench.build.source import blank

# Documented in 8.5, by kind.
CLASSES = {
    *("GlobalTensor", "LocalTensor", "TPipe", "TQue", "TBuf", "TPosition", "HardEvent"),
    *("DataCopyExtParams", "DataCopyPadExtParams", "RoundMode", "UnaryRepeatParams"),
    "BinaryRepeatParams",
}
METHODS = {
    *("InitBuffer", "AllocTensor", "EnQue", "DeQue", "FreeTensor", "Get", "GetValue"),
    *("SetGlobalBuffer", "FetchEventID", "ReinterpretCast"),
}
FUNCTIONS = {
    *("GetBlockIdx", "GetBlockNum", "DataCopy", "DataCopyPad", "Cast", "Mul", "Add", "Duplicate"),
    *("MulAddDst", "Muls"),
    *("Adds", "Sub", "Max", "Exp", "Ln", "ReduceMax"),
    *("ReduceSum", "SetFlag", "WaitFlag", "PipeBarrier", "KERNEL_TASK_TYPE_DEFAULT"),
}
DOCUMENTED = CLASSES | METHODS | FUNCTIONS
# What came with 9.x, or is of the twin alone.
NOT_IN_85 = {
    *("ReduceRepeat", "ReduceDataBlock", "ReducePairElem", "InitSocState", "LocalMemAllocator"),
    *("IsSameType", "twin"),
}

KERNELS = sorted(paths.ASCEND.glob("*.asc"))


def called(text: str) -> set[str]:
    """Names with a capital that are called, instantiated or constructed, less the file's own."""
    code = re.sub(r"^\s*#.*$", "", blank(text), flags=re.MULTILINE)
    used = set(re.findall(r"\b([A-Z]\w+)\s*(?:<[^<>;(){}]*>)?\s*[({]", code))
    used |= set(re.findall(r"\b([A-Z]\w+)\s*<", code)) | set(re.findall(r"\b([A-Z]\w+)::", code))
    own = set(re.findall(r"(?:inline [\w<>]+|inline|class|struct|using) ([A-Z]\w+)\b", code))
    template = set(re.findall(r"typename ([A-Z]\w*)", code))
    own |= set(re.findall(r"^\s*#\s*define\s+(\w+)", blank(text), re.MULTILINE))
    return used - own - template - {"AscendC"}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda p: p.name)
def test_only_names_of_cann_8_5(kernel):
    text = kernel.read_text()
    names = called(text)
    assert "InitBuffer" in names and names & {"DataCopy", "DataCopyPad"}, (
        "the control: the search finds names"
    )
    assert names - DOCUMENTED == set()
    assert not [n for n in NOT_IN_85 if re.search(rf"\b{n}\b", blank(text))]


def test_the_check_can_fail():
    assert called("void f() { ReduceRepeat<float>(a, b); }") == {"ReduceRepeat"}
