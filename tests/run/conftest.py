"""`workbench run` called in this process, on programs that a test writes."""

from __future__ import annotations

import json
import shutil
import textwrap
from pathlib import Path

import pytest

from workbench import cli


@pytest.fixture(autouse=True)
def compiler():
    if not any(map(shutil.which, ("g++", "clang++"))):
        pytest.skip("no C++ compiler (apt-get install g++)")


def no_constant(name: str):
    raise AssertionError(f"bare {name} in JSON")


@pytest.fixture
def call(capfd):
    """call(*arguments of `workbench run`): (exit code, stdout, stderr), stdout parsed with
    --json."""

    def run(*args):
        capfd.readouterr()
        code = cli.main(["run", *map(str, args)])
        out, err = capfd.readouterr()
        assert "Traceback" not in err, err
        if "--json" in args:
            assert out.count("\n") == 1, out
            out = json.loads(out, parse_constant=no_constant)
        return code, out, err

    return run


@pytest.fixture
def write(tmp_path):
    """write(text, name): the path of a file with that text."""

    def put(text: str, name: str = "main.asc") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), "utf-8")
        return path

    return put


@pytest.fixture
def run(call, write):
    """run(text of a program, *more arguments): its JSON object."""

    def go(text: str, *args, rc: int | None = None):
        code, out, _ = call(write(text), "--json", *args)
        assert "error" not in out, out["error"]["message"]
        if rc is not None:
            assert code == rc, out
        return out

    return go
