"""The build cache under what happens to caches: races, kills, full disks, damage, other people."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import statistics
import subprocess
import threading
import time

import build_kit as kit
import pytest
import torch

import workbench as wb
from workbench.build import builder, cache, steps
from workbench.errors import BuildError, CacheError


def value(kernel) -> float:
    out = torch.zeros(1)
    kernel.launch("fill", 1, out)
    return out.item()


BUILD = """
import ctypes, json, sys, workbench as wb
path, n = sys.argv[1], int(sys.argv[2])
try:
    kernel = wb.build(path, backend="twin", defines={"N": n})
except wb.WorkbenchError as e:
    print(json.dumps({"error": type(e).__name__, "message": str(e)}))
else:
    out = ctypes.c_float()  # no torch: it would take longer than all the rest
    kernel.module.launch("fill", 1, 0, [ctypes.addressof(out)])
    print(json.dumps({"cached": kernel.info.cached, "value": out.value, "key": kernel.info.key}))
"""


# ---- a cached build ----------------------------------------------------------------------------


def test_a_cached_build_runs_no_compiler(record, tmp_path):
    path = kit.source(tmp_path)
    first = wb.build(path, backend="twin")
    # one compilation (the objects were there) and one question for the version, for the record
    assert len(record.compilations) == 1 and not first.info.cached
    record.reset()
    second = wb.build(path, backend="twin")
    assert second.info.cached and record.calls == []
    assert second.info.compiler == first.info.compiler and "g++" in first.info.compiler
    fresh = kit.finish(kit.run_python(BUILD, str(path), "1"))  # N is a macro there: another variant
    assert fresh["cached"] is False and len(record.compilations) == 1
    record.reset()
    fresh = kit.finish(kit.run_python(BUILD, str(path), "1"))
    assert (fresh["cached"], fresh["value"], record.calls) == (True, 1, [])


@pytest.mark.serial
def test_a_cached_build_takes_ten_milliseconds_at_most(record):
    config = wb.KernelConfig(tile_length=64)
    wb.build("lm_head", config, backend="twin")
    seconds = [wb.build("lm_head", config, backend="twin").info.seconds for _ in range(21)]
    assert statistics.median(seconds) <= 0.010


def test_variants_live_side_by_side(record):
    """Each has its own constants and its own bits, also when used in turns."""
    rng = torch.Generator().manual_seed(1)
    hidden, weight = (torch.randn(n, 512, generator=rng) for n in (3, 5))
    # dav-3510 sums a tile by a method that depends on its length, so the tiles differ in bits
    kernels = {
        (tile, blocks): wb.build(
            "lm_head",
            wb.KernelConfig(tile_length=tile, max_blocks=blocks, arch="dav-3510"),
            backend="twin",
        )
        for tile in (64, 128, 192, 512)
        for blocks in (1, 7)
    }
    first = {k: kernel(hidden, weight) for k, kernel in kernels.items()}
    for (tile, blocks), kernel in kernels.items():
        changed = {"TILE_LENGTH": tile, "MAX_BLOCKS": blocks}
        rest = {"SCHEDULE": 0, "WEIGHT_ROWS": 4, "HIDDEN_ROWS": 64}  # the defaults
        assert kernel.constants == {**changed, **rest}
        assert torch.equal(kernel(hidden, weight), first[tile, blocks])
        assert torch.equal(first[tile, blocks], first[tile, 1])
    assert len({k.info.path for k in kernels.values()}) == 8
    assert len({bytes(first[t, 1].numpy().tobytes()) for t in (64, 128, 192, 512)}) == 4


# ---- several at once ---------------------------------------------------------------------------


def test_two_processes_build_one_variant(record, tmp_path, monkeypatch):
    """Both are in the compiler at the same time; both succeed; one entry is left."""
    path = kit.source(tmp_path)
    gate = tmp_path / "gate"
    monkeypatch.setenv("STANDIN_GATE", str(gate))
    both = [kit.run_python(BUILD, str(path), "3") for _ in range(2)]
    kit.wait_for(lambda: len(list(tmp_path.glob("gate.*"))) == 2)
    assert len(kit.workspaces()) == 2
    gate.touch()
    results = [kit.finish(p) for p in both]
    assert [r["value"] for r in results] == [3, 3] and results[0]["key"] == results[1]["key"]
    assert [p.name for p in kit.modules()] == [results[0]["key"]]
    assert kit.workspaces() == []


def test_two_threads_build_one_variant(record, tmp_path):
    path = kit.source(tmp_path)
    start, made = threading.Barrier(4), []

    def work():
        start.wait()
        made.append(wb.build(path, backend="twin", defines={"N": 4}))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [value(k) for k in made] == [4] * 4
    assert len(record.compilations) == 1
    assert sorted(k.info.cached for k in made) == [False, True, True, True]


def test_threads_that_need_the_same_object_compile_it_once(record, tmp_path, monkeypatch):
    """Sixteen variants at once in an empty cache would else compile the slow part sixteen times."""
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("STANDIN_NOTHING", "1")  # each attempt ends at once, with nothing made
    item = builder._toolchain("twin").objects()[0]
    compiled, turns = [], threading.Barrier(4)

    def run(command, cwd):
        compiled.append(command)
        time.sleep(0.1)
        (cwd / item.name).write_bytes(b"object")
        return 0, ""

    monkeypatch.setattr(builder.compiler, "run", run)

    def work():
        turns.wait()
        steps.compiled(item)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(compiled) == 1


def test_the_long_first_build_is_told_once_and_a_short_one_is_not(tmp_path, monkeypatch, capfd):
    """In a notebook the first cell would stand there for most of a minute without a word."""
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "empty"))
    item = builder._toolchain("twin").objects()[0]

    def run(command, cwd):
        (cwd / os.path.basename(command[-1])).write_bytes(b"object")
        return 0, ""

    monkeypatch.setattr(builder.compiler, "run", run)
    monkeypatch.setattr(steps, "_said", [])
    few, many, others = (
        [dataclasses.replace(item, name=f"{word}{k}.o") for k in range(count)]
        for word, count in (("few", steps.MANY - 1), ("many", steps.MANY), ("others", 9))
    )
    for number, objects in enumerate([few, many, many, others]):
        work = tmp_path / f"work{number}"
        work.mkdir()
        steps.all_held(objects, work)
        said = capfd.readouterr().err
        told = f"compiling the twin's runtime, {steps.MANY} files, once on this machine"
        assert (told in said) == (number == 1) == (said != "")


def test_clearing_while_another_process_builds(record, tmp_path, monkeypatch):
    """The other has its objects at hand, and publishes into the emptied cache."""
    path = kit.source(tmp_path)
    gate = tmp_path / "gate"
    monkeypatch.setenv("STANDIN_GATE", str(gate))
    other = kit.run_python(BUILD, str(path), "6")
    kit.wait_for(lambda: list(tmp_path.glob("gate.*")))
    before = cache.info()
    assert before["entries"] == len(kit.entries()) > 0 and before["bytes"] > 100_000
    cleared = cache.clear()
    assert (cleared["entries"], cleared["bytes"]) == (before["entries"], before["bytes"])
    assert cache.info()["entries"] == 0
    assert len(kit.workspaces()) == 1, "the other's work is not ours to remove"
    gate.touch()
    assert kit.finish(other)["value"] == 6
    assert len(kit.modules()) == cache.info()["entries"] == 1


@pytest.mark.parametrize("step", ["object", "module", "published"])
def test_what_vanishes_between_two_steps_is_built_again(record, tmp_path, monkeypatch, step):
    """As if another process cleared the cache just then, once."""
    path = kit.source(tmp_path)
    place, name = {
        "object": (steps, "compiled"),
        "module": (builder, "_load"),
        "published": (cache, "_added"),
    }[step]
    real, times = getattr(place, name), []

    def with_a_clear(*args, **given):
        times.append(1)
        if step == "object":
            result = real(*args, **given)
            if len(times) == 4 and args[0].name != "npu_module.o":
                shutil.rmtree(result.parent)
            return result
        if len(times) == 1:
            shutil.rmtree(kit.modules()[0])
        return real(*args, **given)

    monkeypatch.setattr(place, name, with_a_clear)
    assert value(wb.build(path, backend="twin", defines={"N": 8})) == 8
    assert len(times) > (4 if step == "object" else 1), "it was not built again"


def test_a_cache_that_is_cleared_all_the_time_is_an_error(record, tmp_path, monkeypatch):
    path = kit.source(tmp_path)
    monkeypatch.setattr(steps, "_held", lambda *a: (_ for _ in ()).throw(cache.Vanished("gone")))
    with pytest.raises(CacheError, match="gone"):
        wb.build(path, backend="twin")


# ---- a kill ------------------------------------------------------------------------------------


def test_a_kill_in_the_middle_of_a_build(record, tmp_path, monkeypatch):
    path = kit.source(tmp_path)
    mark = tmp_path / "mark"
    monkeypatch.setenv("STANDIN_SLEEP", str(mark))
    victim = kit.run_python(BUILD, str(path), "5")
    kit.wait_for(lambda: mark.exists() and mark.with_suffix(".pid").exists())
    assert len(kit.workspaces()) == 1
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    os.kill(int(mark.with_suffix(".pid").read_text()), signal.SIGKILL)
    assert [(p / "started.o").exists() for p in kit.workspaces()] == [True]
    assert kit.modules() == []
    monkeypatch.delenv("STANDIN_SLEEP")
    assert value(wb.build(path, backend="twin", defines={"N": 5})) == 5
    assert kit.workspaces() == [], "what the dead process left is removed"


def test_only_the_dead_lose_their_workspace(record, tmp_path):
    """Not: a live process, a process of another machine on the same disk, a stranger's folder."""
    path = kit.source(tmp_path)
    wb.build(path, backend="twin")
    tmp = cache.root() / cache.LAYOUT / "tmp"
    done = subprocess.Popen(["true"])
    done.wait()
    host = cache._host()
    dead, live = tmp / f"{done.pid}-{host}-x", tmp / f"{os.getppid()}-{host}-x"
    far, far_old = tmp / f"{done.pid}-elsewhere-x", tmp / f"{done.pid}-elsewhere-old"
    odd, mine_old = tmp / "not a pid", tmp / f"{os.getpid()}-{host}-x"
    for folder in (dead, live, far, far_old, odd, mine_old):
        folder.mkdir()
    for folder in (far_old, mine_old):
        os.utime(folder, (0, 0))
    cache.trim()
    assert kit.workspaces() == sorted([live, far, odd, mine_old])


# ---- a full disk -------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A small file system, which holds the objects of a cache; needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200m,mode=700", "tmpfs", folder], capture_output=True
    )
    if made.returncode:
        pytest.skip("no small file system can be mounted (needs root)")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(path) -> None:
    with path.open("ab", buffering=0) as f, contextlib.suppress(OSError):
        while f.write(b"x" * 4096):
            pass


def test_a_full_disk(record, tmp_path, monkeypatch, small_disk):
    shutil.copytree(cache.root(), small_disk / "cache")
    (small_disk / "cache").chmod(0o700)
    monkeypatch.setenv("WORKBENCH_CACHE", str(small_disk / "cache"))
    path = kit.source(tmp_path)
    first = wb.build(path, backend="twin", defines={"N": 1})
    before = kit.entries()
    filler = small_disk / "filler"
    for room in (0, 8, 64, 160, 250):  # KiB: it runs out at different steps of a build
        fill(filler)
        os.truncate(filler, filler.stat().st_size - room * 1024)
        with pytest.raises(CacheError, match=r"no space left .*workbench cache clear"):
            wb.build(path, backend="twin", defines={"N": 2})
        assert kit.entries() == before and kit.workspaces() == []
        assert not list((cache.root() / cache.LAYOUT / "logs").iterdir())
    assert value(first) == 1
    fresh = kit.finish(kit.run_python(BUILD, str(path), "1"))
    assert (fresh["cached"], fresh["value"]) == (True, 1), "earlier entries load"
    filler.unlink()
    assert value(wb.build(path, backend="twin", defines={"N": 2})) == 2


def test_a_full_disk_that_the_compiler_reports(record, tmp_path, monkeypatch):
    """Where no disk can be mounted: the compiler's own words for it."""
    path = kit.source(tmp_path)
    monkeypatch.setenv("STANDIN_SAYS", "ld: final link failed: No space left on device")
    with pytest.raises(CacheError, match="no space left"):
        wb.build(path, backend="twin")
    assert kit.modules() == [] and kit.workspaces() == []
    monkeypatch.delenv("STANDIN_SAYS")
    assert value(wb.build(path, backend="twin")) == 1


# ---- damage ------------------------------------------------------------------------------------

DAMAGE = {
    "truncated module": lambda e: os.truncate(e / "_C_npu.so", 20_000),
    "empty module": lambda e: os.truncate(e / "_C_npu.so", 0),
    "flipped bit": lambda e: flip(e / "_C_npu.so", 100_000),
    "truncated record": lambda e: os.truncate(e / "meta.json", 40),
    "empty record": lambda e: os.truncate(e / "meta.json", 0),
    "record of another kind": lambda e: (e / "meta.json").write_text("[1, 2]"),
    "record without files": lambda e: (e / "meta.json").write_text('{"what": "k.asc"}'),
    "record that is no text": lambda e: (e / "meta.json").write_bytes(b"\xff\xfe"),
    "no module": lambda e: (e / "_C_npu.so").unlink(),
    "no record": lambda e: (e / "meta.json").unlink(),
    "a file in its place": lambda e: (shutil.rmtree(e), e.write_text("?")),
}


def flip(path, at) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_entry_is_built_again(record, tmp_path, how):
    path = kit.source(tmp_path)
    # In other processes: who has a file mapped does not survive that it is cut short.
    kit.finish(kit.run_python(BUILD, str(path), "7"))
    (entry,) = kit.modules()
    DAMAGE[how](entry)
    record.reset()
    fresh = kit.finish(kit.run_python(BUILD, str(path), "7"))
    assert (fresh["cached"], fresh["value"], len(record.compilations)) == (False, 7, 1)
    assert [e.name for e in kit.modules()] == [entry.name] and kit.workspaces() == []
    json.loads((entry / "meta.json").read_text())


def test_a_damaged_object_is_built_again(record, tmp_path):
    """Control: an undamaged one is not."""
    path = kit.source(tmp_path)
    (small,) = [e for e in kit.entries() if (e / "ub.o").exists()]
    flip(small / "ub.o", 500)
    assert value(wb.build(path, backend="twin")) == 1
    assert sorted("ub.cpp" in c for c in record.compilations) == [False, True]
    record.reset()
    wb.build(path, backend="twin", defines={"N": 2})
    assert ["unit.cpp" in c for c in record.compilations] == [True]


# ---- the size bound ----------------------------------------------------------------------------


def test_the_size_bound_removes_what_was_used_longest_ago(record, tmp_path, monkeypatch):
    path = kit.source(tmp_path)
    kernels = {n: wb.build(path, backend="twin", defines={"N": n}) for n in (1, 2, 3)}
    keys = {n: k.info.key for n, k in kernels.items()}
    now = time.time()
    for entry in kit.entries():  # an hour ago, objects before modules
        os.utime(entry / "meta.json", (now - 7200, now - 7200))
    for n in (1, 2, 3):
        os.utime(cache.root() / cache.LAYOUT / keys[n] / "meta.json", (now - 3600 + n,) * 2)
    kit.forget()
    wb.build(path, backend="twin", defines={"N": 1})  # a use
    size = sum(f.stat().st_size for f in kit.modules()[0].iterdir())
    monkeypatch.setenv("WORKBENCH_CACHE_LIMIT", str(int(2.5 * size)))
    assert cache.trim() > 0
    assert sorted(e.name for e in kit.entries()) == sorted([keys[1], keys[3]])
    assert {n: value(k) for n, k in kernels.items()} == {1: 1, 2: 2, 3: 3}, "loaded ones work on"


@pytest.mark.parametrize(("entries", "looks"), [(200, 2), (32, 8), (3, 20)])
def test_the_bound_holds_though_not_every_entry_looks(tmp_path, monkeypatch, entries, looks):
    """Twenty entries of a kilobyte into a cache for so many: a look lists the whole cache."""
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("WORKBENCH_CACHE_LIMIT", str(entries * 1024))
    real, seen = cache._entries, []
    monkeypatch.setattr(cache, "_entries", lambda folder: seen.append(1) or real(folder))
    for i in range(20):
        with cache.workspace() as work:
            (work / "f").write_bytes(bytes([i]) * 1024)
            cache.publish(f"k{i:02}", work, ["f"], {})
        held = sum((e / "f").exists() for e in kit.entries())
        assert held <= entries and kit.entries()[-1].name == f"k{i:02}"
    assert held == min(20, entries if entries > 3 else 2), "what is removed is no more than needed"
    assert len(seen) <= looks, seen


def test_a_bound_below_one_variant_still_builds(record, tmp_path, monkeypatch):
    """The newest stays, whatever its size, though its own objects have to go."""
    monkeypatch.setenv("WORKBENCH_CACHE_LIMIT", "1K")
    path = kit.source(tmp_path)
    kernel = wb.build(path, backend="twin")
    assert value(kernel) == 1
    assert [e.name for e in kit.entries()] == [kernel.info.key]
    kit.forget()
    assert wb.build(path, backend="twin").info.cached


@pytest.mark.parametrize("text", ["lots", "-1", "0", "G", "1T?", "nan", "inf", "1e400", "0.1"])
def test_a_size_bound_that_is_none(record, monkeypatch, text):
    monkeypatch.setenv("WORKBENCH_CACHE_LIMIT", text)
    with pytest.raises(CacheError, match=r"WORKBENCH_CACHE_LIMIT=.*500M"):
        cache.info()


@pytest.mark.parametrize(
    ("text", "size"),
    [("500M", 500 * 2**20), ("2g", 2 * 2**30), ("1.5K", 1536), ("77", 77), ("", 2**31)],
)
def test_a_size_bound(monkeypatch, text, size):
    monkeypatch.setenv("WORKBENCH_CACHE_LIMIT", text)
    assert cache.limit() == size


# ---- other people ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
@pytest.mark.parametrize("which", ["top", "inner"])
def test_a_cache_that_others_can_write_is_refused(record, tmp_path, mode, which):
    """Control: one that others can only read is not."""
    path = kit.source(tmp_path)
    folder = cache.root() if which == "top" else cache.root() / cache.LAYOUT
    folder.chmod(mode)
    with pytest.raises(CacheError, match=r"can be written by others .*chmod go-w"):
        wb.build(path, backend="twin")
    assert record.calls == []
    folder.chmod(mode & ~0o022)
    assert value(wb.build(path, backend="twin")) == 1


def test_a_cache_of_somebody_else_is_refused(record, tmp_path, monkeypatch):
    path = kit.source(tmp_path)
    monkeypatch.setattr(cache.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(CacheError, match=r"belongs to user .*WORKBENCH_CACHE"):
        wb.build(path, backend="twin")
    assert record.calls == []


def test_the_folders_are_private(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "a" / "b"))
    before = os.umask(0)
    try:
        assert cache.get("0" * 40) is None
        with cache.workspace() as work:
            modes = [p.stat().st_mode & 0o777 for p in (work, *list(work.parents)[:3])]
    finally:
        os.umask(before)
    assert modes == [0o700] * 4


def test_a_read_only_cache_serves_what_it_has(record, tmp_path):
    path = kit.source(tmp_path)
    wb.build(path, backend="twin")
    folder = cache.root()
    made = subprocess.run(["mount", "--bind", folder, folder], capture_output=True)
    if made.returncode:
        pytest.skip("nothing can be mounted (needs root)")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        kit.forget()
        assert wb.build(path, backend="twin").info.cached
        with pytest.raises(CacheError, match=r"cannot be written: .*WORKBENCH_CACHE"):
            wb.build(path, backend="twin", defines={"N": 2})
        assert cache.info()["entries"] == len(kit.entries())
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
    assert value(wb.build(path, backend="twin", defines={"N": 2})) == 2


def test_a_cache_that_is_a_file(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "file"))
    with pytest.raises(CacheError, match=str(tmp_path / "file")):
        cache.get("0" * 40)


# ---- info, clear, logs -------------------------------------------------------------------------


def test_info_and_clear(record, tmp_path, monkeypatch):
    path = kit.source(tmp_path)
    kernel = wb.build(path, backend="twin")
    info = cache.info()
    assert info["path"] == str(cache.root()) and info["limit"] == cache.DEFAULT_LIMIT
    size = sum(f.stat().st_size for e in kit.entries() for f in e.iterdir())
    assert (info["entries"], info["bytes"]) == (len(kit.entries()), size)
    done = cache.clear()
    assert done == {"entries": info["entries"], "bytes": size, "path": info["path"]}
    assert kit.entries() == [] and value(kernel) == 1
    assert cache.clear()["entries"] == 0


def test_info_and_clear_create_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "none"))
    assert cache.info()["entries"] == cache.clear()["entries"] == 0
    assert not (tmp_path / "none").exists()


def test_logs_are_kept_but_not_for_ever(record, tmp_path, monkeypatch):
    folder = cache.root() / cache.LAYOUT / "logs"
    for i in range(210):
        assert cache.write_log(f"{i:040}", f"log {i} ü \udcff") == str(folder / f"{i:040}.log")
        os.utime(folder / f"{i:040}.log", (i, i))
    path = kit.source(tmp_path, kit.FILL + "?")
    with pytest.raises(BuildError) as e:
        wb.build(path, backend="twin")
    cache.trim()
    left = sorted(p.name for p in folder.iterdir())
    assert len(left) == 200 and f"{9:040}.log" not in left and f"{209:040}.log" in left
    assert os.path.exists(e.value.log_path)
