"""Packaging. Torch is never imported here: installing must work before there is a torch.

WORKBENCH_FORCE_ASCEND=1 also compiles the kernels for NPUs into `workbench._C_npu`, with CANN's
bisheng (workbench/build/aot.py, docs/on-an-npu.md). Without it the package is pure Python, and
nothing but setuptools is imported here.
"""

import os
import re
import sys
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent
README = ROOT / "README.md"
INIT = (ROOT / "workbench" / "__init__.py").read_text("utf-8")
VERSION = re.search(r'^__version__ = "(.+)"$', INIT, re.M).group(1)

# environment.yml repeats these two lists for conda users; tests/test_house.py compares them.
INSTALL_REQUIRES = [
    "anywidget>=0.9",
    "click>=8.1",
    "ipykernel>=6.25",
    "ipython>=8",
    "ipywidgets>=8.1",
    "jinja2>=3.1",
    "jsonschema>=4.18",
    "jupyter_client>=8",
    "jupyterlab>=4",
    "jupytext>=1.16",
    "matplotlib>=3.8",
    "nbclient>=0.9",
    "nbconvert>=7.10",
    "nbformat>=5.9",
    "numpy>=1.24",
    "pandas>=2",
    "papermill>=2.5",
    "platformdirs>=3",
    "pybind11>=2.12",
    "pyyaml>=6",
    "safetensors>=0.4",
    "torch>=2.6",
    "tqdm>=4.60",
]
EXTRAS_TEST = [
    "build>=1",
    "dask>=2024.1",
    "distributed>=2024.1",
    "hypothesis>=6.100",
    "mypy>=1.10",
    "clang-format>=18",
    "ninja>=1.11",
    "optuna>=3.5",
    "playwright>=1.40",
    "psutil>=5.9",
    "pytest>=8",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.5",
    "ruff>=0.9",
    "setuptools>=64",
    "wheel>=0.41",
    "pyarrow>=14",
    "voila>=0.5",
    "axe-playwright-python>=0.1.4",
    "mkdocs-material>=9.5",
    "mkdocstrings[python]>=0.25",
]

# What building the extension takes, besides CANN. pip installs it where it isolates the build.
BUILD_REQUIRES = ["setuptools>=70.1", "pybind11>=2.12", "platformdirs>=3"]


def the_extension() -> dict:
    """What `setup` is told in addition where WORKBENCH_FORCE_ASCEND asks for the extension."""
    flag = os.environ.get("WORKBENCH_FORCE_ASCEND", "").strip()
    if flag not in ("", "0", "1"):
        sys.exit(
            f"WORKBENCH_FORCE_ASCEND={flag!r}: want 1 (build the extension for NPUs, or fail) or 0 "
            "(do not)"
        )
    if flag != "1":
        return {}
    # Needed with the flag alone, and only by the commands that build: `pip` also runs this file to
    # ask what to install first.
    from setuptools import Extension
    from setuptools.command.build_ext import build_ext
    from setuptools.command.editable_wheel import editable_wheel
    from setuptools.errors import CompileError

    try:
        from setuptools.command.bdist_wheel import bdist_wheel
    except ImportError:
        sys.exit(
            "WORKBENCH_FORCE_ASCEND=1 needs setuptools 70.1 or newer: pip install -U setuptools"
        )

    def aot():
        sys.path.insert(0, str(ROOT))  # these sources, not a workbench that is installed
        try:
            from workbench.build import aot as module
        finally:
            sys.path.remove(str(ROOT))
        return module

    def said(error: Exception) -> CompileError:
        """The error with all the compiler said: pip shows nothing else of a build that failed."""
        log = getattr(error, "log", "")
        return CompileError(f"{error}\n\nThe compiler said:\n{log}" if log else str(error))

    class BuildAheadOfTime(build_ext):
        """Compiles with bisheng in place of the host compiler that setuptools would run."""

        def run(self) -> None:
            # build_ext would look for the host compiler first.
            self.inplace, inplace = False, self.inplace
            for extension in self.extensions:
                self.build_extension(extension)
            self.inplace = inplace
            if inplace:
                self.copy_extensions_to_source()

        def build_extension(self, ext: Extension) -> None:
            module = Path(self.get_ext_fullpath(ext.name)).absolute()
            try:
                aot().build(module, say=lambda line: print(line, flush=True))
            except RuntimeError as error:
                raise said(error) from None
            except (ValueError, OSError) as error:
                raise said(error) from error

        def copy_extensions_to_source(self) -> None:
            for extension in self.extensions:
                made = Path(self.build_lib, self.get_ext_filename(extension.name))
                aot().place(made, ROOT / self.get_ext_filename(extension.name))

        def get_outputs(self) -> list:
            if self.inplace:
                return [*self.get_output_mapping()]
            return [name for module in super().get_outputs() for name in _with_manifest(module)]

        def get_output_mapping(self) -> dict:
            pairs = super().get_output_mapping().items()
            both = [zip(_with_manifest(a), _with_manifest(b), strict=True) for a, b in pairs]
            return {made: placed for pair in both for made, placed in pair}

    class CheckedWheel(bdist_wheel):
        """Makes no wheel without the extension."""

        def run(self) -> None:
            before = len(self.distribution.dist_files)
            super().run()
            for _, _, wheel in self.distribution.dist_files[before:]:
                try:
                    aot().check_wheel(Path(wheel))
                except RuntimeError as error:
                    os.unlink(wheel)
                    raise said(error) from None

    class CheckedEditable(editable_wheel):
        def run(self) -> None:
            super().run()
            try:
                aot().check(ROOT / "workbench")
            except RuntimeError as error:
                raise said(error) from None

    return {
        "ext_modules": [Extension("workbench._C_npu", sources=[])],
        "cmdclass": {
            "build_ext": BuildAheadOfTime,
            "bdist_wheel": CheckedWheel,
            "editable_wheel": CheckedEditable,
        },
        "setup_requires": BUILD_REQUIRES,
    }


def _with_manifest(module: str) -> list:
    """A module of the extension and its manifest."""
    return [module, module.removesuffix(".so") + ".json"]


setup(
    name="ascend-kernel-workbench",
    version=VERSION,
    description="A workbench for Ascend C kernels whose bits matter, in Jupyter",
    long_description=README.read_text("utf-8") if README.exists() else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    install_requires=INSTALL_REQUIRES,
    extras_require={
        "dask": ["dask>=2024.1", "distributed>=2024.1"],
        "npu": ["torch_npu"],
        "parquet": ["pyarrow>=14"],
        "search": ["optuna>=3.5"],
        "test": EXTRAS_TEST,
    },
    # csrc/ and notebooks/ stand beside the package in a checkout and travel inside it in a wheel;
    # workbench/paths.py finds either.
    packages=[
        *find_packages(include=["workbench", "workbench.*"]),
        "workbench.csrc",
        "workbench.notebooks",
    ],
    package_dir={"workbench.csrc": "csrc", "workbench.notebooks": "notebooks"},
    package_data={
        "workbench": [
            "py.typed",
            "_C_npu.pyi",
            "data/*",
            "data/**/*",
            "numerics/**/*.json",
            "widgets/static/*",
        ],
        "workbench.csrc": [f"**/*.{ext}" for ext in ("asc", "json", "h", "hpp", "cpp", "inc")],
        "workbench.notebooks": ["*"],
    },
    entry_points={"console_scripts": ["workbench = workbench.cli:main"]},
    zip_safe=False,
    **the_extension(),
)
