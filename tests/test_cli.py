"""The command line: one JSON object, the right exit code, a readable message for wrong input."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import types

import pytest

from workbench import cli, errors
from workbench import doctor as doctor_module
from workbench._result import JsonText, Result, json_text
from workbench.commands.arguments import parse_ints

CACHE = os.environ.get("WORKBENCH_CACHE")


@pytest.fixture
def run(command_line, monkeypatch, tmp_path):
    """The command line with a build cache of its own."""
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    return command_line()


@pytest.fixture
def run_warm(run, monkeypatch):
    """`run` with the cache that all tests share: a new one compiles the twin's runtime first."""
    if CACHE is None:
        monkeypatch.delenv("WORKBENCH_CACHE")
    else:
        monkeypatch.setenv("WORKBENCH_CACHE", CACHE)
    return run


needs_cxx = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++"))), reason="no C++ compiler (apt-get install g++)"
)

# ---- every command with wrong input -------------------------------------------------------------

WRONG = {
    "no command": [],
    "unknown command": ["bild"],
    "unknown option": ["doctor", "--quick"],
    "extra argument": ["doctor", "now"],
    "build nothing": ["build"],
    "build unknown op": ["build", "lm_tail"],
    "build missing file": ["build", "nowhere.asc"],
    "build define without value": ["build", "lm_head", "-D", "TILE_LENGTH"],
    "build define twice": ["build", "lm_head", "-D", "A=1", "-D", "A=2"],
    "build unknown constant": ["build", "lm_head", "-D", "TILES=64"],
    "build constant that is no number": ["build", "lm_head", "-D", "TILE_LENGTH=big"],
    "build tile too large": ["build", "lm_head", "-D", "TILE_LENGTH=1000000"],
    "build blocks out of range": ["build", "lm_head", "-D", "MAX_BLOCKS=0"],
    "build unknown backend": ["build", "lm_head", "--backend", "gpu"],
    "build unknown arch": ["build", "lm_head", "--arch", "dav-0000"],
    "invariance unknown op": ["invariance", "--op", "softmax"],
    "invariance unknown transform": ["invariance", "--transforms", "T1,T9", "--candidate=F.linear"],
    "invariance no transform": ["invariance", "--transforms", ",", "--candidate=F.linear"],
    "invariance no rows": ["invariance", "--rows", "0"],
    "invariance unknown dtype": ["invariance", "--dtype", "fp8"],
    "invariance candidate without module": ["invariance", "--candidate", "mine"],
    "invariance candidate not importable": ["invariance", "--candidate", "nowhere:f"],
    "invariance candidate not callable": ["invariance", "--candidate", "math:pi"],
    "invariance tile of a candidate": ["invariance", "--tile", "64", "--candidate", "torch.mv"],
    "invariance constant twice": ["invariance", "--tile", "64", "-D", "TILE_LENGTH=64"],
    "invariance unknown constant": ["invariance", "--op", "det_gemm", "-D", "LEAVES=4"],
    "invariance tile too large": ["invariance", "--op", "linear_logp", "--tile", "6400000"],
    "invariance mv of another op": ["invariance", "--op", "det_gemm", "--candidate", "torch.mv"],
    "invariance hidden of the sample": ["invariance", "--sample", "smollm2", "--hidden", "64"],
    "invariance seed of 65 bits": ["invariance", "--seed", str(2**63), "--candidate=F.linear"],
    "invariance candidate by its path": ["invariance", "--candidate", "../mine:f"],
    "invariance candidate that ends": ["invariance", "--candidate", "ends_for_cli:f"],
    "invariance more than memory": ["invariance", "--vocab", str(10**12), "--candidate=F.linear"],
    "probe into no folder": ["probe", "--out", "no/such/x.md"],
    "invariance too many rows": [
        *["invariance", "--sample", "smollm2", "--rows", "9999", "--candidate", "torch.mv"]
    ],
    "report unknown notebook": ["report", "--notebook", "99_nowhere"],
    "report unknown parameter": ["report", "-p", "no_such_parameter=3"],
    "report parameter without value": ["report", "-p", "tile"],
    "report no time": ["report", "--timeout", "0"],
    "report into a file": ["report", "--out", "/dev/null"],
    "lab port": ["lab", "--dry-run", "--port", "99999"],
    "lab into a file": ["lab", "--dry-run", "--dir", "/dev/null/x"],
    "cache nothing": ["cache"],
    "cache unknown": ["cache", "shrink"],
}


@pytest.mark.parametrize("args", WRONG.values(), ids=WRONG.keys())
def test_wrong_usage_is_exit_2_with_one_message(run, args, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ends_for_cli.py").write_text("import sys; sys.exit(0)\n")
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert err.startswith("workbench: ")
    assert not (tmp_path / "no").exists()
    code, out, err = run(*args, "--json")
    assert code == 2
    assert out["error"]["message"] and out["error"]["type"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigError("c"), 2),
        (errors.InputError("i"), 2),
        (errors.MissingError("m"), 3),
        (errors.BuildError("b", file="k.asc", line=7, log="x", log_path="/tmp/log"), 1),
        (errors.TwinFault("t", kind="sync", code="queue-deadlock", block=3), 1),
        (errors.CacheError("full"), 1),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, BaseException) else "",
)
def test_errors_and_exit_codes(run, monkeypatch, error, code):
    def fail(*_):
        raise error

    monkeypatch.setattr(cli, "build_kernel", fail)
    assert run("build", "lm_head")[:2] == (code, "")
    got, out, _ = run("build", "lm_head", "--json")
    assert got == code
    assert out["error"]["type"] == type(error).__name__
    if isinstance(error, errors.BuildError):
        assert (out["error"]["file"], out["error"]["line"]) == ("k.asc", 7)
        assert out["error"]["log_path"] == "/tmp/log"
    if isinstance(error, errors.TwinFault):
        assert (out["error"]["kind"], out["error"]["code"]) == ("sync", "queue-deadlock")


def test_a_bug_keeps_its_traceback_and_the_json_stays_clean(capfd, monkeypatch):
    def fail(*_):
        print("noise")
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(cli, "build_kernel", fail)
    assert cli.main(["build", "lm_head", "--json"]) == 1
    out, err = capfd.readouterr()
    assert json.loads(out)["error"] == {
        "type": "ZeroDivisionError",
        "message": "ZeroDivisionError: oops",
    }
    assert "noise" in err and "Traceback" in err


def test_what_kernels_print_does_not_reach_stdout_with_json(run, monkeypatch):
    def build(*_):
        print("from Python")
        os.system("echo from a process")  # as C code would: straight to file descriptor 1
        info = types.SimpleNamespace(cached=False, defines={}, backend="twin", arch="a")
        return types.SimpleNamespace(info=Info(**vars(info), seconds=float("inf"), path="p"))

    class Info(Result):
        def __init__(self, **fields):
            self.__dict__.update(fields)

        def to_dict(self):
            return dict(self.__dict__)

    monkeypatch.setattr(cli, "build_kernel", build)
    code, out, err = run("build", "lm_head", "--json")
    assert (code, out["seconds"], out["path"]) == (0, "inf", "p")
    assert "from Python" in err and "from a process" in err


CANDIDATES = {
    "raises": ("raise ValueError('boom')", "raised ValueError: boom", []),
    "ends": ("raise SystemExit(0)", "raised SystemExit: 0", []),
    "detached": ("return (hidden @ weight.T).detach()", "no gradient: the result", ["--gradient"]),
    "none": ("return None", "it returned None; want a tensor", ["--gradient"]),
    "fails backward": (
        "y = hidden @ weight.T; y.register_hook(lambda g: 1 / 0); return y",
        "raised ZeroDivisionError",
        ["--gradient"],
    ),
}


@pytest.mark.parametrize(("body", "message", "args"), CANDIDATES.values(), ids=CANDIDATES)
def test_a_candidate_of_invariance_that_raises_has_failed(
    body, message, args, capfd, tmp_path, monkeypatch
):
    (tmp_path / f"{tmp_path.name}.py").write_text(f"def f(hidden, weight):\n    {body}\n")
    monkeypatch.chdir(tmp_path)
    name = f"{tmp_path.name}:f"
    given = ["invariance", "--candidate", name, "--rows", "2", "--vocab", "5", "--hidden", "8"]
    assert cli.main([*given, *args]) == 1
    out, err = capfd.readouterr()
    assert out == "" and f"workbench: candidate {name} failed: " in err and message in err
    assert ("Traceback" in err) == ("raised" in message)
    assert cli.main([*given, *args, "--json"]) == 1
    out, _ = capfd.readouterr()
    assert message in json.loads(out)["error"]["message"]


def test_a_wrong_shape_is_told_without_what_the_command_line_does_not_have(
    run, tmp_path, monkeypatch
):
    (tmp_path / "flat_for_cli.py").write_text("def f(h, w):\n    return (h @ w.T)[0]\n")
    monkeypatch.chdir(tmp_path)
    given = ["--candidate", "flat_for_cli:f", "--rows", "2", "--vocab", "5", "--hidden", "8"]
    code, _, err = run("invariance", *given)
    assert code == 2 and "wanted a tensor [1, 5]" in err and "leading_dims" not in err


def test_a_full_disk_is_one_sentence():
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    for args in ([], ["--json"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "workbench.cli", "cache", "info", *args],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
            )
        assert done.returncode == 2
        assert done.stderr == "workbench: stdout cannot be written: No space left on device\n"


def test_sys_exit_inside_a_command_is_no_success(run, monkeypatch):
    monkeypatch.setattr(cli, "build_kernel", lambda *_: sys.exit(0))
    code, out, err = run("build", "lm_head")
    assert (code, out) == (1, "") and "SystemExit: 0" in err
    assert run("build", "lm_head", "--json")[0] == 1


@pytest.mark.parametrize(
    "command",
    [
        ("build", "lm_head"),
        ("invariance",),
        ("reveal", "lm_head", "--n", "4"),
        ("classes", "--n", "4"),
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("define", ["arch=dav-3510", "SWITCHES=1"])
def test_an_architecture_is_no_constant(run, command, define):
    code, _, err = run(*command, "-D", define)
    assert code == 2 and "no constant of a kernel" in err and "--arch" in err


def test_the_nearest_tile_is_named_once(run):
    _, _, err = run("build", "lm_head", "-D", "TILE_LENGTH=100000")
    assert "The largest value that works is" in err and "nearest" not in err
    _, _, err = run("build", "lm_head", "-D", "TILE_LENGTH=65")
    assert " ".join(err.split()).endswith("; 64 is the nearest below")


# ---- parsing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("7", [7]),
        ("4,2, 9", [4, 2, 9]),
        ("64:1024:x4", [64, 256, 1024]),
        ("64:1000:x4", [64, 256]),
        ("1:1000000000000000:x10", [10**i for i in range(16)]),
        ("1:7:+3", [1, 4, 7]),
        ("-2:3:+2", [-2, 0, 2]),
        ("5:5:x2", [5]),
        ("1,8:32:x2", [1, 8, 16, 32]),
    ],
)
def test_lists_and_ranges(text, values):
    assert parse_ints(text) == values


REFUSED = ["", "a", "1,,2", "1:2", "1:8:2", "8:1:+1", "1:8:x1", "0:8:x2", "1:8:+0", "1:8:*2", "1.5"]


@pytest.mark.parametrize("text", REFUSED)
def test_lists_and_ranges_refused(text):
    with pytest.raises(errors.InputError, match="a,b,c or lo:hi:xK"):
        parse_ints(text)


# ---- what the commands say ----------------------------------------------------------------------


def test_doctor(run):
    code, out, _ = run("doctor", "--json")
    assert set(out["backends"]) == {"twin", "npu"}
    assert out["backends"]["twin"]["ok"] in (True, False)
    assert isinstance(out["backends"]["npu"]["reasons"], list)
    assert all({"what", "why", "how"} <= set(p) for p in out["problems"])
    assert code == (0 if out["ok"] else 3)
    code, text, _ = run("doctor")
    assert text.startswith("twin ") and "npu" in text


def test_doctor_names_the_checkout_where_it_is_one(run, monkeypatch, tmp_path):
    assert doctor_module._extra("npu") == "-e '.[npu]'"
    monkeypatch.setattr(doctor_module, "__file__", str(tmp_path / "workbench" / "doctor.py"))
    assert doctor_module._extra("npu") == "'ascend-kernel-workbench[npu]'"


def test_doctor_without_a_compiler(run, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    code, out, _ = run("doctor", "--json")
    assert (code, out["ok"], out["backends"]["twin"]["ok"]) == (3, False, False)
    (problem,) = [p for p in out["problems"] if "compiler" in p["what"]]
    assert problem["needed"] and "g++" in problem["how"]


def test_doctor_without_python_headers(run, monkeypatch, tmp_path):
    monkeypatch.setattr(doctor_module.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    code, out, _ = run("doctor", "--json")
    assert (code, out["backends"]["twin"]["ok"]) == (3, False)
    (problem,) = [p for p in out["problems"] if "Python.h" in p["what"]]
    assert problem["needed"] and "python3-dev" in problem["how"]


def test_doctor_sees_a_compiler_that_does_not_run(run, monkeypatch, tmp_path):
    broken = tmp_path / "broken-g++"
    broken.write_text("not a program")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    code, out, _ = run("doctor", "--json")
    assert (code, out["backends"]["twin"]["ok"]) == (3, False)
    assert any("does not run" in p["what"] for p in out["problems"])


def test_doctor_names_a_package_that_is_missing(run, monkeypatch):
    monkeypatch.setattr(doctor_module, "missing_requirements", lambda: ["pybind11"])
    code, out, _ = run("doctor", "--json")
    assert code == 3
    assert "Python package pybind11" in [p["what"] for p in out["problems"]]


@needs_cxx
def test_build_then_cache(run):
    # No other test of this process has built this variant: a loaded one counts as cached.
    variant = ("build", "lm_head", "-D", "TILE_LENGTH=64", "-D", "MAX_BLOCKS=1723", "--json")
    code, first, _ = run(*variant)
    assert code == 0
    assert (first["backend"], first["arch"], first["cached"]) == ("twin", "dav-2201", False)
    assert {"TILE_LENGTH": "64", "MAX_BLOCKS": "1723"}.items() <= {
        k: str(v) for k, v in first["defines"].items()
    }.items()
    assert first["seconds"] > 0 and first["path"]
    _, again, _ = run(*variant)
    assert again["path"] == first["path"]
    code, text, _ = run("build", "lm_head", "-D", "TILE_LENGTH=64", "--arch", "dav-3510")
    assert (code, "dav-3510" in text) == (0, True)
    code, info, _ = run("cache", "info", "--json")
    assert code == 0
    assert info["entries"] > 0 and info["bytes"] > 0 and info["path"].endswith("cache")
    code, cleared, _ = run("cache", "clear", "--json")
    assert (code, cleared["entries"]) == (0, info["entries"])
    assert run("cache", "info", "--json")[1]["entries"] == 0
    assert run("cache", "info")[1].startswith("0 entries")


@needs_cxx
def test_build_of_a_file_that_does_not_compile(run, tmp_path):
    file = tmp_path / "mine.asc"
    file.write_text('#include "kernel_operator.h"\n\n__global__ __aicore__ void k() { oops; }\n')
    code, out, _ = run("build", str(file), "-D", "N=3", "--json")
    assert code == 1
    assert (out["error"]["type"], out["error"]["line"]) == ("BuildError", 3)
    assert out["error"]["file"].endswith("mine.asc")


def test_build_for_a_device_that_is_not_there(run, monkeypatch, tmp_path):
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    monkeypatch.setenv("ASCEND_TOOLKIT_HOME", str(tmp_path))
    code, out, _ = run("build", "lm_head", "--backend", "npu", "--json")
    assert (code, out["error"]["type"]) == (3, "MissingError")


@needs_cxx
def test_invariance_of_the_kernel(run):
    args = ["--tile", "64", "--rows", "3", "--vocab", "17", "--hidden", "96", "--transforms=T1,T7"]
    code, out, _ = run("invariance", "--op", "lm_head", *args, "--dtype", "bf16", "--json")
    assert (code, out["passed"]) == (0, True)
    assert [t["name"] for t in out["transforms"]] == ["T1", "T7"]
    for found in out["transforms"]:
        assert found["cases"] > 0
        assert (found["mismatches"], found["first_mismatch"]) == (0, None)


@needs_cxx
@pytest.mark.parametrize("gradient", [[], ["--gradient"]], ids=["forward", "gradient"])
@pytest.mark.parametrize("op", ["lm_head", "batch_invariant_logp", "det_gemm", "linear_logp"])
def test_invariance_of_every_operator(run_warm, op, gradient):
    args = ["--op", op, *gradient, "--rows=3", "--vocab=17", "--hidden=96", "--transforms=T2,T3"]
    code, out, _ = run_warm("invariance", *args, "--dtype=fp16", "--seed=3", "--json")
    assert (code, out["passed"], out["op"]) == (0, True, op)
    assert out["judgement"] == f"{'gradient' if gradient else 'forward'}_invariance"
    assert (out["seed"], out["dtype"]) == (3, "float16")
    assert [t["name"] for t in out["transforms"]] == ["T2", "T3"]
    assert all(t["cases"] and t["elements"] and not t["mismatches"] for t in out["transforms"])
    assert (out["evidence"]["backend"], out["evidence"]["arch"]) == ("twin", "dav-2201")


@needs_cxx
def test_invariance_with_another_constant(run_warm):
    args = ["--rows=2", "--vocab=9", "--hidden=64", "--transforms=T1", "-D", "ROWS=2"]
    code, out, _ = run_warm("invariance", "--op=det_gemm", *args, "--json")
    assert (code, out["evidence"]["config"]["rows"]) == (0, 2)


BROKEN = """
import torch
def logp(logits, target):
    print('noise')
    shift = logits.sum() * 0 + len(logits)
    found = (logits * shift).log_softmax(-1)
    return found.gather(-1, target.unsqueeze(-1)).squeeze(-1)
"""


@pytest.mark.parametrize("gradient", [[], ["--gradient"]], ids=["forward", "gradient"])
def test_invariance_of_a_log_prob_that_fails(run, tmp_path, monkeypatch, gradient):
    (tmp_path / "mine_cli_logp.py").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    args = ["--op=batch_invariant_logp", "--candidate=mine_cli_logp:logp", "--rows=3", "--vocab=5"]
    args += ["--hidden=16", "--transforms=T1", *gradient]
    code, out, err = run("invariance", *args, "--json")
    assert (code, out["passed"]) == (1, False) and "noise" in err
    first = out["transforms"][0]["first_mismatch"]
    assert 0 <= first["vocab_id"] < 5 and first["expected_bits"] != first["got_bits"]
    code, text, _ = run("invariance", *args)
    where = f"id {first['vocab_id']}" if gradient else f"logp 0 of id {first['vocab_id']}"
    assert code == 1 and f"first: row {first['row']}, {where}, " in text


def test_invariance_of_a_candidate_that_fails(run, tmp_path, monkeypatch):
    (tmp_path / "mine_cli_test.py").write_text(
        "import torch\n"
        "def depends(hidden, weight):\n"
        "    print('noise')\n"
        "    return hidden @ weight.T + len(hidden)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    args = ["--candidate", "mine_cli_test:depends", "--rows=3", "--vocab=5", "--hidden=16"]
    code, out, err = run("invariance", *args, "--transforms", "T1", "--json")
    assert (code, out["passed"]) == (1, False)
    assert out["transforms"][0]["mismatches"] > 0 and out["transforms"][0]["first_mismatch"]
    assert "noise" in err


@pytest.mark.parametrize("sample", [["--sample=smollm2"], ["--hidden=64", "--dtype=fp16"]])
def test_invariance_of_torch_mv_row_by_row_holds(run, sample):
    args = [*sample, "--rows=3", "--vocab=9", "--candidate=torch.mv", "--transforms=T1,T2"]
    code, out, _ = run("invariance", *args, "--seed=5", "--json")
    assert (code, out["passed"]) == (0, True)


def test_lab_dry_run_in_a_checkout_opens_the_notebooks_in_place(run):
    code, out, _ = run("lab", "--dry-run", "--no-browser", "--port", "8899", "--json")
    assert (code, out["copied"]) == (0, [])
    assert out["command"][0] == sys.executable
    assert {"--no-browser", "--port=8899"} <= set(out["command"])
    assert out["folder"].endswith("notebooks")
    # All of the checkout is served: the notebooks link to ../docs.
    root = out["folder"].removesuffix("/notebooks")
    served = {f"--ServerApp.root_dir={root}", "--LabApp.default_url=/lab/tree/notebooks"}
    assert served <= set(out["command"])


def test_lab_copies_and_never_overwrites(run, tmp_path, monkeypatch):
    source = tmp_path / "notebooks"
    source.mkdir()
    for name in ("01_a.ipynb", "01_a.py", "02_b.ipynb"):
        (source / name).write_text("ours")
        (source / name).chmod(0o444)
    monkeypatch.setattr(cli.importlib.import_module("workbench.paths"), "NOTEBOOKS", source)
    work = tmp_path / "work"
    work.mkdir()
    (work / "01_a.ipynb").write_text("the user's")
    code, out, _ = run("lab", "--dry-run", "--dir", str(work), "--json")
    assert (code, out["copied"]) == (0, ["01_a.py", "02_b.ipynb"])
    assert (work / "01_a.ipynb").read_text() == "the user's"
    assert os.access(work / "02_b.ipynb", os.W_OK)
    assert run("lab", "--dry-run", "--dir", str(work), "--json")[1]["copied"] == []


def test_lab_builds_before_jupyterlab_starts(monkeypatch, tmp_path):
    """The first cell would wait for the twin's runtime; a dry run starts nothing."""
    from workbench import lab

    began = []

    class Started(subprocess.Popen):
        def __init__(self, line, **options):
            began.append(line[1:])
            assert all(other.poll() is not None for other in running)
            super().__init__([sys.executable, "-c", ""], **options)
            running.append(self)

    running: list = []
    monkeypatch.setattr(lab.subprocess, "Popen", Started)
    assert lab.run_lab(tmp_path, dry_run=True).exit_code is None and not began
    assert lab.run_lab(tmp_path, browser=False).exit_code == 0
    assert began[0] == ["-m", "workbench.cli", "build", "lm_head", "--backend", "twin"]
    assert began[1][:2] == ["-m", "jupyterlab"] and len(began) == 2


def test_lab_gives_jupyter_a_kernel_that_is_this_interpreter():
    from workbench import lab

    with lab._environment() as env:
        query = "from jupyter_client.kernelspec import *; print(get_kernel_spec('python3').argv[0])"
        found = subprocess.run(
            [sys.executable, "-c", query], env=env, capture_output=True, text=True
        )
    assert found.stdout.strip() == sys.executable, found.stderr


# ---- a process of its own -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [["--help"], ["--version"], ["build", "--help"], ["doctor", "--json"], ["cache", "info"]],
    ids=" ".join,
)
def test_light_commands_import_no_torch(args, tmp_path):
    code = (
        "import sys; from workbench.cli import main; rc = main(sys.argv[1:]);"
        "print('TORCH' if 'torch' in sys.modules else 'light', rc, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        env={**os.environ, "WORKBENCH_CACHE": str(tmp_path)},
    )
    assert done.stderr.split()[-2] == "light", done.stderr
    assert done.stdout


def test_json_that_is_written_already_goes_in_as_it_is():
    deep = "[" * 5000 + "]" * 5000  # json.dumps gives up at a fifth of it
    found = json_text({"tree": JsonText(deep), "list": [JsonText("[1]"), "[1]"], "x": float("nan")})
    assert found == f'{{"tree": {deep}, "list": [[1], "[1]"], "x": "nan"}}'


def test_progress_goes_to_a_terminal_only(run, monkeypatch):
    _, _, err = run("invariance", "--candidate=torch.mv", "--rows=1", "--vocab=3", "--hidden=8")
    assert err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    _, _, err = run("invariance", "--candidate=torch.mv", "--rows=1", "--vocab=3", "--hidden=8")
    assert err.startswith("comparing torch.mv")


def test_a_closed_pipe_is_not_an_error():
    done = subprocess.run(
        f"{sys.executable} -m workbench.cli doctor | true; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert done.stdout.strip() in ("0", "3")
