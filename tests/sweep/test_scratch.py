"""The folder of a sweep's tensors: made when it is needed, and not left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading

import pytest
import torch
from sweep_kit import small

import workbench as wb
from workbench.sweep import scratch
from workbench.sweep.runner import sweep
from workbench.sweep.scratch import PREFIX, Scratch

HOLDING = """
import sys, tempfile, time
tempfile.tempdir = sys.argv[1]
from workbench.sweep.scratch import Scratch
print(Scratch().folder(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_nothing_is_made_for_inputs_that_have_a_name(root, tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "r"
    space = small(tiles=(64,), max_blocks=(1,))
    seen = []

    def shown(at):
        seen.append([f.name for f in root.iterdir() if f.name.startswith(PREFIX)])

    options = {"store": store, "workers": 0, "progress": shown, "timing": 0}
    assert sweep(space, **options).passed and not any(seen)
    sample = wb.samples.smollm2()
    hidden, weight = sample.hidden.reshape(160, 576)[:2], sample.weight[:16]
    seen.clear()
    assert sweep(space, (hidden * 2, weight), **options).passed
    assert [len(names) for names in seen] == [1] * len(seen)  # the control: tensors need one
    assert seen[0][0].startswith(f"{PREFIX}{os.getpid()}-")
    assert not [f for f in root.iterdir() if f.name.startswith(PREFIX)]


def test_the_folder_of_a_process_that_was_killed_is_removed(root):
    command = [sys.executable, "-c", HOLDING, str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        left = root / os.path.basename(process.stdout.readline().strip())
        (left / "x.safetensors").write_text("tensors")
        with Scratch() as mine:
            mine.folder()
            assert (left / "x.safetensors").exists()  # the control: its process lives
        process.kill()
    assert left.exists()
    other = root / f"{PREFIX}notours"
    other.mkdir()
    (root / f"{PREFIX}7-link").symlink_to(other)
    with Scratch() as mine, Scratch() as another:
        assert mine.folder() != another.folder() and mine.folder().exists()
        assert not left.exists() and other.exists()
    assert {f.name for f in root.iterdir()} == {other.name, f"{PREFIX}7-link"}


def test_one_that_is_taken_before_it_is_locked_is_made_anew(root, monkeypatch):
    real, taken = scratch._locked, []

    def locked(folder):
        if not taken:  # another process takes it for a left one
            taken.append(folder)
            shutil.rmtree(folder)
        return real(folder)

    monkeypatch.setattr(scratch, "_locked", locked)
    with Scratch() as mine:
        assert mine.folder() != taken[0] and mine.folder().is_dir()


def test_many_at_once(root):
    """Each has its own, whoever cleans at that moment."""
    wrong = []

    def work():
        for _ in range(20):
            with Scratch() as mine:
                file = mine.folder() / "x"
                torch.save(torch.ones(3), file)
                if not file.exists():
                    wrong.append(file)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and not [*root.iterdir()]
