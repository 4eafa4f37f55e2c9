"""A compiler that is counted, and a cache for each test with the slow objects in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import aot_kit
import build_kit as kit
import pytest

from workbench.build import aot, builder, cache, extension, steps
from workbench.build import arch as archs
from workbench.build.twin import TwinToolchain


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
                            steps.compiled(item)
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


@pytest.fixture(scope="session")
def real_extension(base, prepared) -> Path:
    """A folder with `package`, the extension that `aot.build` makes for dav-2201, compiled for this
    CPU by the stand-in for bisheng (aot_kit); `home`, what stood in for CANN; and `cache`, which
    has the twin's objects as well."""
    compiler, objects = prepared("g++")
    folder = base / "extension"
    with kit.first_of_all(folder.with_suffix(".claim")) as mine, pytest.MonkeyPatch.context() as p:
        if mine:
            folder.mkdir()
            aot_kit.install_cann(folder / "home")
            library = str(folder / "home" / "lib64" / "libascendcl.so")
            # A real one: the module is linked to it, and finds it by its rpath.
            subprocess.run(["g++", "-shared", "-x", "c", "/dev/null", "-o", library], check=True)
            aot_kit.clean_environment(p, folder / "home")
            skip = shutil.ignore_patterns("tmp", "logs")
            shutil.copytree(objects, folder / "cache", ignore=skip)
            (folder / "cache").chmod(0o700)
            p.setenv("WORKBENCH_CACHE", str(folder / "cache"))
            p.setenv("CXX", str(compiler))
            parts = [o for o in TwinToolchain().objects() if o.name != "npu_module.o"]
            runtime = [str(steps.compiled(o)) for o in parts]
            for source in runtime:
                shutil.copyfile(source, folder / Path(source).name)
            p.setenv("BISHENG_OBJECTS", " ".join(str(folder / Path(r).name) for r in runtime))
            p.setenv("BISHENG_DOES", "twin")
            p.setenv("BISHENG_LOG", str(folder / "calls.log"))
            p.setenv("WORKBENCH_ASCEND_ARCH", "dav-2201")
            aot.build(extension.module_path(folder / "package"), say=[].append)
    return folder
