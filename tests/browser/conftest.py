"""Servers and Chromium for the browser tests; without them the tests are reported as not run."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from pathlib import Path

import pytest

from workbench import doctor, lab, paths

# Their assertions say what they saw, as those of a test do.
pytest.register_assert_rewrite("explore_access", "explore_steps", "scratch")

ROOT = Path(__file__).resolve().parent.parent.parent
ARTEFACTS = ROOT / "test-artefacts" / "browser"
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    # Every cell stays in the page, also those scrolled away.
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
}


LOGS: list[Path] = []  # of the servers that run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A test that fails shows what the servers said last."""
    report = yield
    if report.failed:
        report.sections += [(f"{log.parent.name}/{log.name}", _end(log)) for log in LOGS]
    return report


@pytest.fixture(scope="session")
def chromium() -> str:
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("the browser tests need playwright (pip install playwright)")
    found = doctor.browser()
    if found is None:
        pytest.skip("the browser tests need Chromium (Debian: apt-get install chromium)")
    return found


@pytest.fixture(scope="session")
def artefacts() -> Path:
    """Where screenshots go, for people to look at."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    return ARTEFACTS


@pytest.fixture(scope="session")
def jupyter(chromium, tmp_path_factory):
    """The address of a JupyterLab on a copy of the notebooks, with a kernel that is this Python."""
    home = tmp_path_factory.mktemp("jupyter")
    notebooks = home / "notebooks"
    notebooks.mkdir()
    for file in paths.NOTEBOOKS.glob("*.ipynb"):
        shutil.copyfile(file, notebooks / file.name)
    _write(home / "config" / "labconfig" / "default_setting_overrides.json", SETTINGS)
    with _served("jupyterlab", home, "/api/status", lambda port: [
        *("--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"),
        *("--ServerApp.port_retries=0", f"--ServerApp.root_dir={notebooks}"),
        *("--IdentityProvider.token=", "--LabApp.extension_manager=readonly"),
    ]) as address:  # fmt: skip
        yield address


@pytest.fixture(scope="session")
def voila(chromium, tmp_path_factory):
    """(address, folder) of a Voilà that serves each notebook of the folder as a page."""
    if importlib.util.find_spec("voila") is None:
        pytest.skip("the tests of Voilà need it (pip install voila)")
    home = tmp_path_factory.mktemp("voila")
    notebooks = home / "notebooks"
    notebooks.mkdir()
    with _served("voila", home, "/voila/static/voila.js", lambda port: [
        *(str(notebooks), "--no-browser", "--Voila.ip=127.0.0.1", f"--port={port}"),
        "--VoilaConfiguration.extension_denylist=jupyterlab-jupytext",  # needs JupyterLab itself
        *("--VoilaConfiguration.allow_theme_override=YES", "--Voila.port_retries=0"),
    ]) as address:  # fmt: skip
        yield address, notebooks


@contextlib.contextmanager
def _served(module, home, answers, arguments):
    """`python -m module` with a kernel that is this Python, until it has answered; its address."""
    _write(home / "data" / "kernels" / lab.KERNEL / "kernel.json", lab.kernel_spec())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {
        **os.environ,
        "JUPYTER_PATH": str(home / "data"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
    }
    log = home / "server.log"
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", module, *arguments(port)]
    with log.open("wb") as stream:
        server = subprocess.Popen(command, env=env, cwd=home, stdout=stream, stderr=stream)
        try:
            _wait_for(f"{address}{answers}", server, log)
            LOGS.append(log)
            yield address
        finally:
            LOGS[:] = [other for other in LOGS if other != log]
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


@pytest.fixture
def lab_page(jupyter, page):
    """`lab_page(name)` opens a notebook in a workspace of its own; `page` then shows it alone.

    JupyterLab restores the tabs of a workspace: in a shared one the notebook of an earlier test
    stands beside this one's, hidden, and answers for it.
    """

    def shown(notebook: str) -> None:
        page.goto(f"{jupyter}/lab/workspaces/{uuid.uuid4().hex}/tree/{notebook}")

    return shown


@pytest.fixture
def page(chromium, artefacts):
    """A page of a fresh Chromium; what it complains of is kept in `page.complaints`."""
    from playwright.sync_api import expect, sync_playwright
    from scratch import SLOW

    expect.set_options(timeout=SLOW)  # 5 s by default: a loaded machine takes longer
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.complaints = []
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        yield page
        page.screenshot(path=artefacts / "at_the_end.png")
        browser.close()


def _write(path: Path, content: dict) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))


def _wait_for(url: str, server: subprocess.Popen, log: Path, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if server.poll() is not None:
            pytest.fail(f"the server ended with {server.returncode}: {_end(log)}")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"{url} did not answer in {seconds:g} s: {_end(log)}")


def _end(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:]
