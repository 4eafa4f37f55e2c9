"""The key of a build covers everything that decides the binary, and nothing else."""

from __future__ import annotations

import os
import shutil

import build_kit as kit
import pytest
import torch

import workbench as wb
from workbench import paths
from workbench.build import arch, compiler, includes, steps
from workbench.build.twin import TwinToolchain

HEADED = kit.FILL.replace("= N;", "= VALUE;").replace(
    '#include "kernel_operator.h"', '#include "kernel_operator.h"\n#include "own.h"'
)


def value(kernel) -> float:
    out = torch.zeros(1)
    kernel.launch("fill", 1, out)
    return out.item()


def test_the_same_build_has_the_same_key(record, tmp_path):
    path = kit.source(tmp_path)
    config = wb.KernelConfig(tile_length=64)
    assert kit.key_of(path, config) == kit.key_of(path, wb.KernelConfig(tile_length=64))
    (tmp_path / "unrelated.h").write_text("#define N 5\n")
    (tmp_path / "other.asc").write_text("int x;\n")
    assert kit.key_of(path, config) == kit.key_of(path, config.replace(tile_length=64))


def test_source_constants_architecture_and_macros_are_in_the_key(record, tmp_path):
    path = kit.source(tmp_path)
    one = wb.KernelConfig(tile_length=64)
    keys = {
        kit.key_of(path, one),
        kit.key_of(path, one.replace(tile_length=128)),
        kit.key_of(path, one.replace(max_blocks=3)),
        kit.key_of(path, one.replace(arch="dav-3510")),
        kit.key_of(path, one, {"N": 2}),
        kit.key_of(path, one, {"N": 3}),
        kit.key_of(path, one, {"N": ""}),
        kit.key_of(kit.source(tmp_path, name="same.asc"), one),  # its path is in the binary
    }
    kit.source(tmp_path, kit.FILL + "// a comment\n")
    keys.add(kit.key_of(path, one))
    assert len(keys) == 9


def test_the_cpu_is_in_the_key(record, tmp_path, monkeypatch):
    path = kit.source(tmp_path)
    before = kit.key_of(path)
    monkeypatch.setattr(compiler, "cpu_identity", lambda: "x86_64-of-another-make")
    assert kit.key_of(path) != before
    for item in TwinToolchain().objects():
        assert "of-another-make" in str(item.key_material())


def test_a_change_of_our_headers_is_seen_in_the_same_process(record, tmp_path, monkeypatch):
    """Keys of what all variants share are remembered for as long as no file of ours changes."""
    twin = tmp_path / "twin"
    shutil.copytree(paths.TWIN, twin)
    monkeypatch.setattr(paths, "TWIN", twin)
    path = kit.source(tmp_path)

    def keys() -> dict[str, str]:
        chain, stamp = TwinToolchain(), includes.stamp()
        made = [*chain.objects(), chain.parsed_headers(arch.load("dav-2201"))]
        shared = {item.name: steps._key(item, stamp) for item in made}
        lm_head = kit.key_of(paths.ASCEND / "lm_head_ascend.asc")
        return {**shared, "lm_head": lm_head, "own": kit.key_of(path)}

    def changed() -> set[str]:
        new = keys()
        found = {name for name in new if new[name] != known[name]}
        known.update(new)
        return found

    known = keys()
    variants, parsed = {"lm_head", "own"}, "kernel_operator.h.gch"
    assert changed() == set()
    header = twin / "include" / "twin" / "tensor.h"
    os.utime(header, (1, 1))
    assert changed() == set(), "what a file says counts, not its time"
    header.write_text(header.read_text() + "// more\n")
    seen = changed()
    assert {*variants, parsed, "copy.o"} <= seen and "arith.o" not in seen, "which has none of it"
    (twin / "runtime" / "sort.cpp").write_text("// gone\n")
    assert changed() == {*variants, "sort.o"}
    (twin / "include" / "cstring").write_text("// in front of the compiler's own\n")
    assert "reduce.o" in changed()


def test_cpu_identity_tells_machines_apart(monkeypatch):
    seen = set()
    for text in (
        "processor\t: 0\nmodel name\t: A\nflags\t\t: avx2\ncpu MHz\t\t: 2000\n\nprocessor\t: 1\n",
        "processor\t: 0\nmodel name\t: A\nflags\t\t: avx512f\ncpu MHz\t\t: 2000\n\n",
        "processor\t: 0\nFeatures\t: asimd sve\nCPU part\t: 0xd40\n\n",
        "processor\t: 0\nFeatures\t: asimd\nCPU part\t: 0xd40\n\n",
    ):
        monkeypatch.setattr(compiler.Path, "read_text", lambda self, text=text: text)
        compiler.cpu_identity.cache_clear()
        seen.add(compiler.cpu_identity())
        # the clock is no identity
        faster = text.replace("2000", "3000")
        monkeypatch.setattr(compiler.Path, "read_text", lambda self, text=faster: text)
        compiler.cpu_identity.cache_clear()
        assert compiler.cpu_identity() in seen
    assert len(seen) == 4
    compiler.cpu_identity.cache_clear()


def test_the_compiler_is_in_the_key(record, tmp_path, monkeypatch):
    path = kit.source(tmp_path)
    keys = [kit.key_of(path)]
    mine = tmp_path / "mine"
    shutil.copy2(os.environ["CXX"], mine)
    monkeypatch.setenv("CXX", str(mine))
    keys.append(kit.key_of(path))
    os.utime(mine, ns=(0, 10**18))  # an update of the same size
    keys.append(kit.key_of(path))
    monkeypatch.setenv("CXX", f"{mine} -O3")
    keys.append(kit.key_of(path))
    if shutil.which("clang++"):
        monkeypatch.setenv("CXX", "clang++")
        keys.append(kit.key_of(path))
    assert len(set(keys)) == len(keys)
    os.utime(mine, ns=(0, 10**18))
    monkeypatch.setenv("CXX", str(mine))
    assert kit.key_of(path) == keys[2]


@pytest.mark.parametrize("name", ["CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH", "LIBRARY_PATH"])
def test_variables_that_add_hidden_folders_change_nothing(record, tmp_path, monkeypatch, name):
    """Control: the same folder given as include_dirs does change the result."""
    text = HEADED.replace(
        '#include "own.h"',
        '#if __has_include("own.h")\n#include "own.h"\n#else\n#define VALUE 1\n#endif',
    )
    path = kit.source(tmp_path, text)
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "own.h").write_text("#define VALUE 2\n")
    before = kit.key_of(path)
    monkeypatch.setenv(name, str(hidden))
    assert kit.key_of(path) == before
    assert value(wb.build(path, backend="twin")) == 1
    assert kit.key_of(path, include_dirs=[hidden]) != before
    assert value(wb.build(path, backend="twin", include_dirs=[hidden])) == 2


# ---- headers -----------------------------------------------------------------------------------


def test_an_edited_header_rebuilds_in_the_same_process(record, tmp_path):
    path = kit.source(tmp_path, HEADED)
    (tmp_path / "own.h").write_text('#include "deep/er.h"\n')
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "er.h").write_text("#define VALUE 1\n")
    first = wb.build(path, backend="twin")
    assert value(first) == 1
    (tmp_path / "deep" / "er.h").write_text("#define VALUE 2\n")
    second = wb.build(path, backend="twin")
    assert (second.info.cached, value(second), value(first)) == (False, 2, 1)
    (tmp_path / "deep" / "er.h").write_text("#define VALUE 1\n")
    back = wb.build(path, backend="twin")
    assert (back.info.cached, value(back)) == (True, 1)


def test_a_header_that_newly_shadows_another_rebuilds(record, tmp_path):
    far, near = tmp_path / "far", tmp_path / "near"
    far.mkdir(), near.mkdir()
    path = kit.source(tmp_path, HEADED)
    (far / "own.h").write_text("#define VALUE 1\n")
    folders = [near, far]
    assert value(wb.build(path, backend="twin", include_dirs=folders)) == 1
    (near / "own.h").write_text("#define VALUE 2\n")
    assert value(wb.build(path, backend="twin", include_dirs=folders)) == 2
    (tmp_path / "own.h").write_text("#define VALUE 3\n")  # beside the source: nearest of all
    assert value(wb.build(path, backend="twin", include_dirs=folders)) == 3
    (tmp_path / "own.h").unlink()
    again = wb.build(path, backend="twin", include_dirs=folders)
    assert (value(again), again.info.cached) == (2, True)


def test_has_include_of_a_header_that_appears_rebuilds(record, tmp_path):
    either = '#if __has_include("own.h")\n#define VALUE 7\n#else\n#define VALUE 1\n#endif'
    path = kit.source(tmp_path, HEADED.replace('#include "own.h"', either))
    assert value(wb.build(path, backend="twin")) == 1
    (tmp_path / "own.h").write_text("")
    assert value(wb.build(path, backend="twin")) == 7


UNREADABLE = {
    "macro": "#define WHICH {name}\n#include WHICH",
    "comment": "#include /* a comment */ {name}",
    "digraph": "%:include {name}",
    "split line": "#inc\\\nlude {name}",
    "in a macro header": '#define FIRST "first.h"\n#include FIRST',
}


@pytest.mark.parametrize(
    ("form", "folder"),
    [*((f, "plain") for f in UNREADABLE), ("macro", "with a space"), ("macro", "dollar$and#hash")],
)
def test_headers_that_only_the_compiler_can_name(record, tmp_path, form, folder):
    """Same process, and as a fresh one; and an unchanged header stays cached."""
    here = tmp_path / folder
    here.mkdir()
    line = UNREADABLE[form].format(name='"own.h"')
    path = kit.source(here, HEADED.replace('#include "own.h"', line))
    (here / "first.h").write_text('#include "own.h"\n')
    (here / "own.h").write_text("#define VALUE 1\n")
    assert value(wb.build(path, backend="twin")) == 1
    assert wb.build(path, backend="twin").info.cached
    (here / "own.h").write_text("#define VALUE 5\n")
    assert value(wb.build(path, backend="twin")) == 5
    assert wb.build(path, backend="twin").info.cached
    if form == "macro":
        (here / "own.h").write_text("#define VALUE 6\n")
        for cached in (False, True):
            seen = kit.finish(kit.run_python(FRESH, str(path)))
            assert seen == {"cached": cached, "value": 6}


FRESH = """
import ctypes, json, sys, workbench as wb
kernel = wb.build(sys.argv[1], backend="twin")
out = ctypes.c_float()
kernel.module.launch("fill", 1, 0, [ctypes.addressof(out)])
print(json.dumps({"cached": kernel.info.cached, "value": out.value}))
"""


def test_our_own_headers_and_runtime_are_in_the_key(record, tmp_path, monkeypatch):
    """A change in each file of csrc that a variant is made of changes its key (on a copy)."""
    from workbench import paths

    copy = tmp_path / "csrc"
    shutil.copytree(paths.CSRC, copy)
    monkeypatch.setattr(paths, "ASCEND", copy / "ascend")
    monkeypatch.setattr(paths, "TWIN", copy / "twin")
    path = kit.source(tmp_path)
    keys = {kit.key_of(path)}
    assert keys == {kit.key_of(path)}
    # The host API is part of whole programs only (tests/run), the merged table of the extension
    # that is built ahead of time (test_aot.py).
    parts = [
        p
        for p in sorted(f for folder in ("ascend", "twin") for f in (copy / folder).rglob("*"))
        if p.suffix in (".h", ".cpp", ".inc")
        and not p.name.startswith("acl")
        and p.name != "merged_table.cpp"
        and not {"acl", "tiling"} & {*p.relative_to(copy).parts}
    ]
    assert len(parts) > 10
    for part in parts:
        part.write_bytes(part.read_bytes() + b"\n// edited\n")
        before = len(keys)
        keys.add(kit.key_of(path))
        assert len(keys) == before + 1, part


def test_our_folders_come_before_include_dirs_for_scan_and_compiler(record, tmp_path):
    """A user's header with the name of one of ours is not what the compiler reads."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "kernel_operator.h").write_text("#error the wrong one\n")
    path = kit.source(tmp_path)
    kernel = wb.build(path, backend="twin", include_dirs=[mine])
    assert value(kernel) == 1
    assert kit.key_of(path, include_dirs=[mine]) == kit.key_of(path)


def test_include_dirs_may_be_relative(record, tmp_path, monkeypatch):
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "own.h").write_text("#define VALUE 4\n")
    path = kit.source(tmp_path, HEADED)
    monkeypatch.chdir(tmp_path)
    assert value(wb.build(path, backend="twin", include_dirs=["inc"])) == 4


def test_scan_follows_includes_once_even_in_a_ring(tmp_path):
    (tmp_path / "a.h").write_text('#include "b.h"\n')
    (tmp_path / "b.h").write_text('#include "a.h"\n')
    found = includes.scan(b'#include "a.h"\n#include <vector>\n', tmp_path, [], [])
    assert sorted(found.files) == [str(tmp_path / "a.h"), str(tmp_path / "b.h")]
    assert not found.macro_includes
