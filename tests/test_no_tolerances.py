"""No numeric tolerance stands anywhere but in workbench/numerics/contract.json.

Accuracy is judged by the contract, everything else on raw bits, exactly, or against a bound that is
derived where it is used (roundings.py). There is no list of exceptions.
"""

from __future__ import annotations

import ast
import re

import jupytext
import pytest
from test_house import FILES, ROOT

CONTRACT = ROOT / "workbench" / "numerics" / "contract.json"
CLOSE = {
    *("allclose", "assert_allclose", "assert_close", "isclose", "approx"),
    *("assertAlmostEqual", "assert_almost_equal", "assert_array_almost_equal"),
    *("assert_approx_equal", "assert_array_almost_equal_nulp", "assert_array_max_ulp"),
}
NAMES = re.compile(r"(^|_)(atol|rtol|tol|tolerances?)$", re.I)
SMALL = 0.01  # a number below it beside < or > is a tolerance in disguise


def numbers(node: ast.AST) -> list[float]:
    """The numbers written in an expression, but for those inside calls and comparisons."""
    if isinstance(node, ast.Constant):
        plain = isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
        return [abs(node.value)] if plain else []
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return [n for item in node.elts for n in numbers(item)]
    if isinstance(node, ast.Dict):
        return [n for item in node.values for n in numbers(item)]
    if isinstance(node, ast.UnaryOp):
        return numbers(node.operand)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Add, ast.Sub, ast.Div)):
        return numbers(node.left) + numbers(node.right)
    if isinstance(node, ast.Subscript):
        return numbers(node.value)
    return []


def faults_of(source: str) -> list[tuple[int, str]]:
    """(line, what) of every numeric tolerance in Python source."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in CLOSE:
                found.append((node.lineno, name))
        elif isinstance(node, ast.keyword) and NAMES.search(node.arg or ""):
            if any(numbers(node.value)):
                found.append((node.value.lineno, f"{node.arg}= a number"))
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                name = key.value if isinstance(key, ast.Constant) else None
                if isinstance(name, str) and NAMES.search(name) and any(numbers(value)):
                    found.append((value.lineno, f"{name!r}: a number"))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            if any(NAMES.search(n) for n in named) and any(numbers(node.value)):
                found.append((node.lineno, f"{', '.join(named)} is a number"))
        elif isinstance(node, (ast.FunctionDef, ast.Lambda)):
            every = [*node.args.posonlyargs, *node.args.args]
            pairs = [*zip(reversed(every), reversed(node.args.defaults), strict=False)]
            pairs += zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            for arg, default in pairs:
                if NAMES.search(arg.arg) and default is not None and any(numbers(default)):
                    found.append((default.lineno, f"{arg.arg} has a number as its default"))
        elif isinstance(node, ast.Compare):
            orders = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
            sides = [node.left, *node.comparators]
            for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
                small = [n for side in (left, right) for n in numbers(side) if 0 < n < SMALL]
                if isinstance(op, orders) and small:
                    found.append((node.lineno, f"a comparison with {small[0]:g}"))
    return found


# In text: "atol = 1e-3", and pairs such as "1e-4 / 1e-4". Of Python only the pairs, in comments.
NUMBER = r"\d+(?:\.\d*)?(?:e-\d+)?"
PAIR = r"\b\d(?:\.\d+)?e-\d+ ?/ ?(?:\d(?:\.\d+)?e-\d+|0)\b"
TEXT = re.compile(rf"\b(?:atol|rtol)\b[\"']?\s*[=:]\s*{NUMBER}|{PAIR}", re.I)


def text_faults(text: str, pattern: str | re.Pattern = TEXT) -> list[tuple[int, str]]:
    return [
        (number, match.group())
        for number, line in enumerate(text.splitlines(), start=1)
        for match in re.finditer(pattern, line)
    ]


def test_no_python_has_a_tolerance():
    found = [
        f"{file.relative_to(ROOT)}:{line}: {what}"
        for file in FILES
        if file.suffix == ".py"
        for line, what in faults_of(file.read_text("utf-8"))
    ]
    assert found == []


def test_no_notebook_has_a_tolerance():
    found = []
    for file in (f for f in FILES if f.suffix == ".ipynb"):
        cells = jupytext.read(file).cells
        code = [c.source for c in cells if c.cell_type == "code"]
        found += [f"{file.name}: {what}" for c in code for _, what in faults_of(_plain(c))]
        found += [f"{file.name}: {what}" for c in cells for _, what in text_faults(c.source)]
    assert found == []


def _plain(cell: str) -> str:
    """A cell without the lines that only IPython reads; the body of a cell magic is not Python."""
    if cell.lstrip().startswith("%%"):
        return "pass"
    return "\n".join(
        "pass" if line.lstrip()[:1] in ("%", "!") else line for line in cell.split("\n")
    )


def test_no_other_text_has_a_tolerance():
    texts = (".asc", ".cpp", ".h", ".hpp", ".inc", ".md", ".json", ".toml", ".yml", ".py", ".txt")
    files = [f for f in FILES if f.suffix in texts and f != CONTRACT]
    assert len(files) > 50
    found = []
    for file in files:
        if file.name == "test_no_tolerances.py":  # its own controls
            continue
        text, pattern = file.read_text("utf-8", "replace"), PAIR if file.suffix == ".py" else TEXT
        if (
            file == ROOT / "docs" / "contract.md"
        ):  # its table is made of the contract: a test compares
            text = re.sub("<!-- contract.json -->.*?<!-- end -->", "", text, flags=re.S)
        found += [f"{file.relative_to(ROOT)}:{n}: {what}" for n, what in text_faults(text, pattern)]
    assert found == []


@pytest.mark.parametrize(
    "bad",
    [
        "torch.testing.assert_close(a, b)",
        "np.testing.assert_allclose(a, b, rtol=1e-5)",
        "assert torch.allclose(a, b)",
        "assert x == pytest.approx(3.5, abs=0.05)",
        "judge(a, b, atol=1e-4)",
        "judge(a, b, rtol={32: 0.1, 16: 0.2}[bits])",
        "atol, rtol = 1e-4, 1e-4",
        "tolerance = {torch.float32: 2e-6}[dtype]",
        "RTOL: float = 5e-2",
        'cell = {"atol": 1e-3}',
        "def close(a, b, atol=1e-3): pass",
        "def close(a, b, *, tol=0.5): pass",
        "assert abs(a - b) < 1e-6",
        "assert (a - b).abs().max() <= 0.001",
        "assert not error > 2 * 1e-6",
        "assert error < own + 1e-9",
        "assert 1e-9 > error",
    ],
)
def test_the_check_of_python_can_fail(bad):
    assert faults_of(bad)


@pytest.mark.parametrize("bad", ["atol = 1e-3", 'rtol: 0.02', '"atol": 1e-5', "within 1e-4 / 1e-4",
                                 "1e-5/0"])  # fmt: skip
def test_the_check_of_text_can_fail(bad):
    assert text_faults(bad)


@pytest.mark.parametrize(
    "good",
    [
        "assert ratio <= 1",
        "assert off <= 2**-24 * scale",
        "cell = contract().cell(j, op, dtype)\nassert cell.atol > 0",
        "x = torch.full((2,), 1e-30)",
        "assert worst(got, want) <= 1 and share < 0.5",
        "judge(a, b, atol=cell.atol)",
    ],
)
def test_what_is_no_tolerance_passes(good):
    assert faults_of(good) == [] and text_faults(good) == []
