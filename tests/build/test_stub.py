"""`workbench/_C_npu.pyi` says what the built module is: names, parameters, defaults, attributes."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import workbench as wb
from workbench import paths

STUB = paths.PACKAGE / "_C_npu.pyi"


def stub_functions(text: str) -> dict[str, list[tuple[str, str | None]]]:
    """{function: [(parameter, its default as text or None)]} of a stub."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            given = node.args.args
            defaults = [None] * (len(given) - len(node.args.defaults))
            defaults += [ast.unparse(d) for d in node.args.defaults]
            found[node.name] = [(a.arg, d) for a, d in zip(given, defaults, strict=True)]
    return found


def stub_attributes(text: str) -> set[str]:
    body = ast.parse(text).body
    return {
        n.target.id for n in body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
    }


def module_functions(module: types.ModuleType) -> dict[str, list[tuple[str, str | None]]]:
    """The same, from the signatures that pybind11 writes into the docstrings."""
    found = {}
    for name, value in vars(module).items():
        if callable(value) and not name.startswith("_"):
            signature = re.match(rf"{name}\((.*)\) -> ", value.__doc__ or "")
            assert signature, f"{name} has no signature in its docstring"
            # The types are C++'s as pybind11 writes them; names and defaults are what counts.
            tree = ast.parse(f"def {name}({signature[1]}): pass")
            found.update(stub_functions(ast.unparse(tree)))
    return found


@pytest.fixture(scope="module")
def module():
    return wb.build("lm_head", wb.KernelConfig(tile_length=64), backend="twin").module


def test_the_stub_has_what_the_module_has(module):
    assert module_functions(module) == stub_functions(STUB.read_text())
    attributes = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not callable(value)
    }
    assert attributes == stub_attributes(STUB.read_text())
    assert module.manifest is None  # a variant has none; test_aot_module.py has the other case


def test_the_comparison_can_fail(module):
    text = STUB.read_text()
    for old, new in (("checks: int = 0", "checks: int = 1"), ("stream: int", "queue: int"),
                     ("def kernels(", "def kernel(")):  # fmt: skip
        assert text.count(old) == 1
        assert module_functions(module) != stub_functions(text.replace(old, new))


def test_every_name_of_the_stub_says_what_it_is():
    body = ast.parse(STUB.read_text()).body
    assert ast.get_docstring(ast.parse(STUB.read_text()))
    assert all(ast.get_docstring(n) for n in body if isinstance(n, ast.FunctionDef))
    for node, after in itertools.pairwise(body):
        if isinstance(node, ast.AnnAssign):
            assert isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)


def unannotated(text: str) -> list[str]:
    """Public functions and methods of a module that lack a type somewhere."""
    found = []
    body = ast.parse(text).body
    classes = [n for n in body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")]
    for node in [*body, *(n for c in classes for n in c.body)]:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            given += filter(None, [node.args.vararg, node.args.kwarg])
            typed = [a.annotation for a in given if a.arg not in ("self", "cls")]
            if None in typed or node.returns is None:
                found.append(node.name)
    return found


def test_the_package_says_it_is_typed_and_its_public_functions_are():
    """Without `py.typed` type checkers read neither the stub nor anything else of an installed
    package. The command line is no library: its functions are click's."""
    assert (paths.PACKAGE / "py.typed").exists()
    modules = [p for p in paths.PACKAGE.rglob("*.py") if "commands" not in p.parts]
    assert len(modules) > 30
    names = {p.name: unannotated(p.read_text("utf-8")) for p in modules}
    assert {k: v for k, v in names.items() if v} == {}
    assert unannotated("def f(x): ...\nclass A:\n    def g(self): ...\n") == ["f", "g"]


GOOD = """
from workbench import _C_npu

table: dict[str, list[tuple[str, str, str]]] = _C_npu.kernels()
tile: int = _C_npu.constants()["lm_head.TILE_LENGTH"]
report = _C_npu.launch("probe_sum", 1, 0, [0, 0, 64], regions=[(0, 64)])
made = report["ub_bytes"], _C_npu.arch.upper(), (_C_npu.manifest or "").count("x")
"""
BAD = """
from workbench import _C_npu

_C_npu.launch("probe_sum", "one", 0, [])
_C_npu.launch("probe_sum", 1)
_C_npu.arch + 1
_C_npu.manifest.upper()
_C_npu.started()
"""


@pytest.mark.slow
def test_mypy_takes_good_use_and_refuses_bad(tmp_path):
    def errors(text: str) -> list[int]:
        file = tmp_path / "use.py"
        file.write_text(text)
        done = subprocess.run(
            [
                *[sys.executable, "-m", "mypy", "--follow-imports=silent", "--no-error-summary"],
                *["--cache-dir", str(tmp_path / "cache"), "--ignore-missing-imports", str(file)],
            ],
            cwd=Path(paths.PACKAGE).parent,
            capture_output=True,
            text=True,
        )
        assert "Traceback" not in done.stderr, done.stderr
        lines = re.findall(rf"^{re.escape(str(file))}:(\d+): error", done.stdout, re.MULTILINE)
        return sorted({int(n) for n in lines})

    assert errors(GOOD) == []
    assert errors(BAD) == [4, 5, 6, 7, 8]
