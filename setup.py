"""Packaging. Torch is never imported here: installing must work before there is a torch."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent
README = ROOT / "README.md"
INIT = (ROOT / "workbench" / "__init__.py").read_text("utf-8")
VERSION = re.search(r'^__version__ = "(.+)"$', INIT, re.M).group(1)

# environment.yml repeats these two lists for conda users; tests/test_house.py compares them.
INSTALL_REQUIRES = [
    "click>=8.1",
    "ipykernel>=6.25",
    "ipywidgets>=8.1",
    "jinja2>=3.1",
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
    "safetensors>=0.4",
    "torch>=2.6",
]
EXTRAS_TEST = [
    "build>=1",
    "hypothesis>=6.100",
    "mypy>=1.10",
    "clang-format>=18",
    "ninja>=1.11",
    "playwright>=1.40",
    "psutil>=5.9",
    "pytest>=8",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.5",
    "pyyaml>=6",
    "ruff>=0.9",
    "setuptools>=64",
    "wheel>=0.41",
]

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
    extras_require={"npu": ["torch_npu"], "test": EXTRAS_TEST},
    # csrc/ and notebooks/ stand beside the package in a checkout and travel inside it in a wheel;
    # workbench/paths.py finds either.
    packages=[
        *find_packages(include=["workbench", "workbench.*"]),
        "workbench.csrc",
        "workbench.notebooks",
    ],
    package_dir={"workbench.csrc": "csrc", "workbench.notebooks": "notebooks"},
    package_data={
        "workbench": ["data/*", "data/**/*"],
        "workbench.csrc": [f"**/*.{ext}" for ext in ("asc", "json", "h", "hpp", "cpp", "inc")],
        "workbench.notebooks": ["*"],
    },
    entry_points={"console_scripts": ["workbench = workbench.cli:main"]},
    zip_safe=False,
)
