"""A build is given up: its compiler's processes are gone, and the cache is whole."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import build_kit as kit
import pytest
import torch

from workbench.build import build, builder, cache, compiler
from workbench.build.cancelling import Cancel, cancellable
from workbench.errors import BuildError, Cancelled


class Builder(threading.Thread):
    """Builds on a thread of its own; `ended` is what it raised, or the kernel."""

    def __init__(self, path: Path, wish: Cancel, work=build) -> None:
        super().__init__(daemon=True)
        self.path, self.wish, self.work, self.ended = path, wish, work, None
        self.start()

    def run(self) -> None:
        try:
            with cancellable(self.wish):
                self.ended = self.work(self.path, backend="twin")
        except Exception as error:
            self.ended = error


def alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be buried does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def sleeping(record, tmp_path, monkeypatch):
    """The compiler starts a process and waits for it; `sleeping()` is that process's id."""
    mark = tmp_path / "asleep"
    monkeypatch.setenv("STANDIN_SLEEP", str(mark))
    pid = tmp_path / "asleep.pid"

    def of_the_sleeper() -> int:
        kit.wait_for(lambda: pid.exists() and pid.read_text().strip().isdigit())
        return int(pid.read_text())

    return of_the_sleeper


def test_a_build_that_is_given_up_ends_all_of_its_compilers_processes(
    sleeping, tmp_path, monkeypatch
):
    path = kit.source(tmp_path)
    objects = kit.entries()
    wish = Cancel()
    at_work = Builder(path, wish)
    pid = sleeping()
    assert alive(pid) and kit.workspaces()
    wish.cancel()
    at_work.join(20)
    assert isinstance(at_work.ended, Cancelled), at_work.ended
    kit.wait_for(lambda: not alive(pid), 20)
    assert kit.workspaces() == [] and kit.entries() == objects

    # The same build succeeds afterwards, in the same cache.
    monkeypatch.delenv("STANDIN_SLEEP")
    out = torch.zeros(3)
    build(path, backend="twin").launch("fill", 3, out)
    assert out.tolist() == [1.0, 1.0, 1.0] and len(kit.entries()) == len(objects) + 1


def test_the_check_would_see_a_process_that_is_left(sleeping, tmp_path, monkeypatch):
    """The control: where the compiler alone is ended, what it started goes on."""
    monkeypatch.setattr(compiler.os, "killpg", os.kill)
    wish = Cancel()
    at_work = Builder(kit.source(tmp_path), wish)
    pid = sleeping()
    wish.cancel()
    at_work.join(20)
    assert isinstance(at_work.ended, Cancelled) and alive(pid)
    os.kill(pid, signal.SIGKILL)


def test_an_object_that_all_variants_share_can_be_given_up_too(sleeping, tmp_path):
    """It is compiled on a thread of a pool, to which the wish has to travel."""
    folder = next(p for p in kit.entries() if (p / "npu_module.o").exists())
    cache.discard(folder.name)
    wish = Cancel()
    at_work = Builder(kit.source(tmp_path), wish)
    pid = sleeping()
    wish.cancel()
    at_work.join(20)
    assert isinstance(at_work.ended, Cancelled), at_work.ended
    kit.wait_for(lambda: not alive(pid), 20)
    assert kit.workspaces() == []


def test_nothing_is_compiled_for_a_wish_that_was_made_before(record, tmp_path):
    wish = Cancel()
    wish.cancel()
    with cancellable(wish), pytest.raises(Cancelled):
        build(kit.source(tmp_path), backend="twin")
    assert record.compilations == []
    assert build(kit.source(tmp_path), backend="twin").info.cached is False, (
        "outside it counts no more"
    )


def test_a_wish_that_nobody_makes_changes_nothing(record, tmp_path, monkeypatch):
    path = kit.source(tmp_path)
    with cancellable(Cancel()):
        kernel = build(path, backend="twin")
        broken = kit.source(tmp_path, kit.FILL.replace("= N;", "= nothing;"), "broken.asc")
        with pytest.raises(BuildError, match=r"broken\.asc:6: 'nothing' was not declared"):
            build(broken, backend="twin")
    plain = builder.build(path, backend="twin")
    assert plain.info.cached and plain.info.key == kernel.info.key
    assert compiler.run(["sh", "-c", "exit 3"], tmp_path) == (3, "")
    with cancellable(Cancel()):
        assert compiler.run(["sh", "-c", "echo out; echo err >&2; exit 3"], tmp_path) == (
            3,
            "out\nerr\n",
        )
        monkeypatch.setattr(compiler, "TIMEOUT", 0.2)
        status, said = compiler.run(["sh", "-c", "echo begun; sleep 30"], tmp_path)
    assert status == 124 and said == "begun\n\nstopped after 0.2 seconds"
