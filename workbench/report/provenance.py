"""What the figures stand on: versions, commit, processor, compiler, backend, inputs."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys

from workbench import paths
from workbench.errors import WorkbenchError

from .result import NotebookRun


def provenance(runs: list[NotebookRun]) -> dict[str, str]:
    """Names and values, in the order in which they are shown."""
    from workbench.evidence import cpu_name

    facts = {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "backend": "twin, no Ascend hardware: the kernels' own source, compiled for this CPU. "
        "Nothing here was measured on an NPU.",
        "architecture": _architectures(runs),
        "input fixtures": _inputs(runs),
        "commit": commit(),
        "processor": f"{cpu_name()}, {os.cpu_count()} logical cores",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "Python": f"{platform.python_version()} ({sys.executable})",
    }
    with contextlib.suppress(WorkbenchError, ImportError):
        from workbench.build.compiler import find_cxx

        cxx = find_cxx()
        facts["compiler"] = f"{cxx.version} ({cxx.path})"
    for name in ("ascend-kernel-workbench", "torch", "numpy", "matplotlib", "papermill"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            facts[name] = importlib.metadata.version(name)
    return facts


def commit() -> str:
    """The commit of the checkout this runs from, and whether files differ from it."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(paths.PACKAGE.parent), *words],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
        return done.stdout.strip()

    try:
        # An installed package may lie inside another project's checkout: that is not its commit.
        git("ls-files", "--error-unmatch", str(paths.PACKAGE / "__init__.py"))
        name = git("rev-parse", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return "not known: not a git checkout"
    return name + (", with changes that are not committed" if changed else "")


def _architectures(runs: list[NotebookRun]) -> str:
    """The architectures that the notebooks' parameters name."""
    named = {
        name
        for run in runs
        for value in run.parameters.values()
        for name in re.findall(r"dav-\w+", value)
    }
    return ", ".join(sorted(named)) or "stated with each figure"


def _inputs(runs: list[NotebookRun]) -> str:
    """The samples that the notebooks take."""
    words = {"smollm2": _smollm2, "qwen3": lambda: "qwen3: drawn from a generator with a seed"}
    named = sorted({name for run in runs for name in run.inputs})
    return "; ".join(words.get(n, lambda n=n: n)() for n in named) or "stated in each notebook"


def _smollm2() -> str:
    file = paths.DATA / "smollm2-135m" / "lm_head.safetensors"
    if not file.is_file():
        return "smollm2: not there"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return f"smollm2: {file.name}, SHA-256 {digest[:16]}…"
