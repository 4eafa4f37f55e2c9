"""A compiler that is counted, and a cache for each test with the slow objects in it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import build_kit as kit
import pytest

from workbench.build import arch as archs
from workbench.build import builder, cache


@pytest.fixture(scope="session")
def base(tmp_path_factory) -> Path:
    """A folder that all workers of one run share."""
    folder = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        folder = folder.parent
    folder = folder / "workbench-build"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def prepared(base):
    """prepared(compiler): (stand-in for it, a cache with its objects), made by the first worker
    that needs it; the others wait."""
    made: dict[str, tuple[Path, Path]] = {}

    def prepare(real: str) -> tuple[Path, Path]:
        if real not in made:
            if shutil.which(real) is None:
                pytest.skip(f"no {real} (apt-get install {'clang' if 'clang' in real else real})")
            with pytest.MonkeyPatch.context() as patch:
                compiler = kit.standin(base, real)
                folder = base / f"objects-{real}"
                patch.setenv("WORKBENCH_CACHE", str(folder))
                patch.setenv("CXX", str(compiler))
                patch.delenv("WORKBENCH_CACHE_LIMIT", raising=False)
                with kit.first_of_all(folder.with_suffix(".claim")) as mine:
                    if mine:
                        chain = builder._toolchain("twin")
                        parsed = [chain.parsed_headers(archs.load(a)) for a in archs.names()]
                        for item in [*chain.objects(), *parsed]:
                            builder._object(item)
                made[real] = (compiler, folder)
        return made[real]

    return prepare


def use(monkeypatch, folder: Path, compiler: Path, objects: Path) -> None:
    top = folder / "cache"
    if not top.exists():
        shutil.copytree(objects, top, ignore=shutil.ignore_patterns("tmp", "logs"))
        top.chmod(0o700)
    for name in [n for n in os.environ if n.startswith("STANDIN_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WORKBENCH_CACHE", str(top))
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.delenv("WORKBENCH_CACHE_LIMIT", raising=False)
    monkeypatch.setattr(builder, "_modules", {})
    monkeypatch.setattr(cache, "_verified", {})


@pytest.fixture
def record(prepared, tmp_path, monkeypatch) -> kit.Recorder:
    """A private cache with the objects of the recording g++, which is the compiler; its record."""
    use(monkeypatch, tmp_path, *prepared("g++"))
    monkeypatch.setenv("STANDIN_LOG", str(tmp_path / "calls.log"))
    return kit.Recorder(tmp_path / "calls.log")


@pytest.fixture(params=["g++", "clang++"])
def each_compiler(request, prepared, tmp_path, monkeypatch) -> str:
    """As `record`, once with each compiler."""
    use(monkeypatch, tmp_path, *prepared(request.param))
    return request.param
