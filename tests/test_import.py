"""`import workbench`: light, and a guard against torch_npu without CANN.

Each case runs in a process of its own, with a stand-in for torch_npu on the path that does what
the real one does where CANN is missing: its backend entry point raises.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
VARIABLE = "TORCH_DEVICE_BACKEND_AUTOLOAD"


@pytest.fixture
def broken_torch_npu(tmp_path):
    """A folder for PYTHONPATH with a torch_npu whose autoload raises."""
    (tmp_path / "torch_npu").mkdir()
    (tmp_path / "torch_npu" / "__init__.py").write_text(
        "raise ImportError('libhccl.so: cannot open shared object file')\n"
    )
    info = tmp_path / "torch_npu-2.13.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.13.0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    return tmp_path


def run(code: str, path: Path | None = None, **environment: str) -> subprocess.CompletedProcess:
    env = {k: v for k, v in os.environ.items() if k not in (VARIABLE, "LD_LIBRARY_PATH")}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path or ""), str(ROOT)]))
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**env, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


# What takes long to import, and what the first cell of a notebook does not need.
HEAVY = ("torch", "numpy", "scipy", "pandas", "matplotlib", "IPython", "ipywidgets", "sqlite3",
         "tqdm", "dask", "optuna", "safetensors", "multiprocessing", "pybind11")  # fmt: skip


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import workbench; from workbench import cli", []),
        ("import workbench, workbench.build, workbench.sweep", []),
        ("import workbench.orders.tree", ["numpy"]),  # the control: an import is seen
    ],
)
def test_importing_workbench_is_light(code, heavy):
    done = run(f"import sys; {code}\nprint([m for m in {HEAVY} if m in sys.modules])")
    assert done.stdout.strip() == repr(heavy), done.stderr


def test_workbench_before_torch_keeps_torch_importable(broken_torch_npu):
    done = run(
        f"import os, workbench, torch; print(os.environ[{VARIABLE!r}], torch.ones(2).sum().item())",
        broken_torch_npu,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["0", "2.0"]), done.stderr


def test_torch_before_workbench_says_what_to_do(broken_torch_npu):
    alone = run("import torch", broken_torch_npu)
    assert alone.returncode != 0, "the stand-in no longer breaks torch: this test shows nothing"
    done = run(
        "try:\n    import torch\nexcept RuntimeError:\n    pass\nimport workbench", broken_torch_npu
    )
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode != 0
    assert "MissingError" in last and "Restart the kernel" in last and VARIABLE in last


def test_a_value_the_user_has_set_is_left_alone(broken_torch_npu):
    done = run(
        f"import os, workbench; print(os.environ[{VARIABLE!r}])",
        broken_torch_npu,
        **{VARIABLE: "1"},
    )
    assert done.stdout.strip() == "1", done.stderr


def test_with_cann_the_backend_is_loaded_as_usual(broken_torch_npu, tmp_path):
    (tmp_path / "libhccl.so").write_bytes(b"")
    done = run(
        f"import os, workbench; print({VARIABLE!r} in os.environ)",
        broken_torch_npu,
        LD_LIBRARY_PATH=str(tmp_path),
    )
    assert done.stdout.strip() == "False", done.stderr


def test_without_torch_npu_nothing_is_set():
    done = run(f"import os, workbench; print({VARIABLE!r} in os.environ)")
    assert done.stdout.strip() == "False", done.stderr


def test_torch_that_is_imported_already_is_no_problem():
    done = run("import torch, workbench; workbench._npu_guard.ensure(); print('fine')")
    assert done.stdout.strip() == "fine", done.stderr


@pytest.mark.parametrize("order", ["workbench.build, workbench", "workbench, workbench.build"])
def test_build_is_a_function_whatever_was_imported_first(order):
    done = run(f"import {order}; print(callable(workbench.build))")
    assert done.stdout.strip() == "True", done.stderr
