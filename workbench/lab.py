"""JupyterLab on the notebooks, with a kernel that is the interpreter running now."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import paths
from ._result import Result
from .errors import InputError, MissingError

KERNEL = "python3"
WORKING_FOLDER = "workbench-notebooks"


@dataclass
class Lab(Result):
    """How JupyterLab is (or would be) started."""

    command: list[str]
    folder: str
    copied: list[str]
    exit_code: int | None = None

    def title(self) -> str:
        return f"JupyterLab in {self.folder}"

    def __str__(self) -> str:
        copied = f"copied: {', '.join(self.copied)}\n" if self.copied else ""
        return f"folder: {self.folder}\n{copied}command: {' '.join(self.command)}"


def kernel_spec() -> dict:
    """A Jupyter kernelspec that runs this interpreter, with this `workbench` importable.

    A spec named python3 may be registered for another Python, and it would be found first.
    """
    return {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": f"Python {sys.version_info.major}.{sys.version_info.minor} (workbench)",
        "language": "python",
        "env": kernel_env(),
    }


def kernel_env() -> dict[str, str]:
    """What a kernel process needs in its environment for the `workbench` running now."""
    # With PYTHONOPTIMIZE every `assert` is left out: no claim could fail. Empty is as not set.
    env = {"PYTHONOPTIMIZE": ""}
    here = str(paths.PACKAGE.parent)
    if paths.PACKAGE.parent.name not in ("site-packages", "dist-packages"):
        before = os.environ.get("PYTHONPATH")
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [here, before]))
    return env


def prepare(folder: str | os.PathLike | None = None) -> tuple[Path, list[str]]:
    """The folder to open and the names that were copied into it.

    In a checkout the notebooks are opened in place. From an installed package they are copied,
    by default into ./workbench-notebooks; a file that is there already is never overwritten.
    """
    source = paths.NOTEBOOKS
    if not source.is_dir():
        raise MissingError(
            f"The notebooks are not where they belong: {source}. Reinstall workbench."
        )
    in_place = source.parent != paths.PACKAGE
    if folder is None and in_place:
        return source, []
    target = Path(folder if folder is not None else WORKING_FOLDER).absolute()
    if target.resolve() == source.resolve():
        return target, []
    copied = []
    try:
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted(source.iterdir()):
            if file.suffix in (".ipynb", ".py") and not (target / file.name).exists():
                shutil.copyfile(file, target / file.name)  # not copy: a wheel's may be read-only
                copied.append(file.name)
    except OSError as error:
        raise InputError(
            f"Cannot put the notebooks into {target}: {error.strerror}. "
            "Give a folder you can write to: workbench lab --dir FOLDER"
        ) from error
    return target, copied


def command(folder: Path, port: int | None = None, browser: bool = True) -> list[str]:
    """The command line that starts JupyterLab in `folder`."""
    line = [sys.executable, "-m", "jupyterlab"]
    if folder == paths.NOTEBOOKS and folder.parent != paths.PACKAGE:
        # The whole checkout is served, or links of notebooks to ../docs would lead nowhere.
        line += [f"--ServerApp.root_dir={folder.parent}"]
        line += [f"--LabApp.default_url=/lab/tree/{folder.name}"]
    else:
        line += [f"--ServerApp.root_dir={folder}"]
    if port is not None:
        line.append(f"--port={port}")
    if not browser:
        line.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        line.append("--allow-root")  # containers: JupyterLab would only refuse to start
    return line


@contextmanager
def _environment() -> Iterator[dict[str, str]]:
    """The environment of JupyterLab: our kernelspec stands first on Jupyter's path."""
    with tempfile.TemporaryDirectory(prefix="workbench-jupyter-") as folder:
        spec = Path(folder, "kernels", KERNEL, "kernel.json")
        spec.parent.mkdir(parents=True)
        spec.write_text(json.dumps(kernel_spec()), "utf-8")
        path = os.pathsep.join(filter(None, [folder, os.environ.get("JUPYTER_PATH")]))
        yield {**os.environ, "JUPYTER_PATH": path}


def _first_build() -> None:
    """A build before JupyterLab starts: the first cell does not wait for the twin's runtime.

    It takes half a second where the runtime is cached. Where it fails, it says why on stderr.
    """
    line = [sys.executable, "-m", "workbench.cli", "build", "lm_head", "--backend", "twin"]
    env = {**os.environ, **kernel_env()}
    subprocess.run(line, stdout=subprocess.DEVNULL, env=env, check=False)


def run_lab(
    folder: str | os.PathLike | None = None,
    *,
    port: int | None = None,
    browser: bool = True,
    dry_run: bool = False,
) -> Lab:
    """Prepare the notebooks and run JupyterLab on them until it ends.

    Args:
        folder: Where to work; None: the checkout's notebooks/, or ./workbench-notebooks.
        port: Port to listen on; None: the first free one from 8888.
        browser: Open a browser.
        dry_run: Prepare the folder, start nothing.

    Raises:
        MissingError: JupyterLab is not installed.
        InputError: The folder cannot be written.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        raise MissingError(
            "JupyterLab is not installed in this Python. Get it with: "
            f"{sys.executable} -m pip install jupyterlab"
        )
    target, copied = prepare(folder)
    lab = Lab(command(target, port, browser), str(target), copied)
    if dry_run:
        return lab
    _first_build()
    with _environment() as env:
        process = subprocess.Popen(lab.command, env=env, cwd=target)
        before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        while lab.exit_code is None:
            try:
                lab.exit_code = process.wait()
            except KeyboardInterrupt:
                continue  # Ctrl-C goes to JupyterLab too, which asks back; it decides when to end
        signal.signal(signal.SIGTERM, before)
    return lab
