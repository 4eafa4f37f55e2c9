"""Each code of a fault has words about what would mend it, and the checked mode's own a kernel."""

from __future__ import annotations

import re

from workbench import paths

RUNTIME = paths.TWIN / "runtime"
# Of the host's side of whole programs, in host.cpp; and what has no cure of its own.
ELSEWHERE = {"leak", "double-free", "foreign-free", "copy-bounds", "memory-kind", "guard", "host"}
ELSEWHERE |= {"missing-sync", "assert", "trap"}  # … or the kernel says it itself


def _codes_in(*names: str) -> set[str]:
    text = "".join((RUNTIME / name).read_text() for name in names)
    return set(re.findall(r'"(?:mem|init|race|sync)",\s*"([a-z0-9-]+)"', text))


def _mends() -> dict[str, str]:
    text = (RUNTIME / "faults.cpp").read_text()
    table = text[text.index("kKnown[] = {") : text.index("\n};", text.index("kKnown[]"))]
    return dict(re.findall(r'\{"([a-z0-9-]+)",\s*"([^"]*)', table))


def test_every_code_says_what_would_mend_it() -> None:
    names = [p.name for p in sorted(RUNTIME.glob("*.cpp"))]
    codes, mends = _codes_in(*names), _mends()
    assert len(codes) > 40
    missing = {c for c in codes - ELSEWHERE if not mends.get(c)}
    assert not missing, f"no mend in faults.cpp: {sorted(missing)}"


def test_every_check_of_the_checked_mode_has_a_faulty_kernel() -> None:
    from faults.cases import CASES
    from faults.test_programs import MISTAKES

    found = {c.code for c in CASES} | {code for _, _, code in MISTAKES.values()}
    own = _codes_in("observer.cpp", "buffers.cpp", "overlap.cpp", "global.cpp", "races.cpp")
    own |= {"race-raw", "race-war", "race-waw", "gm-out-of-bounds", "gm-declared"}
    own |= {"gm-freed", "gm-host-memory"}
    assert len(own) > 15
    assert own <= found, f"no faulty kernel: {sorted(own - found)}"
