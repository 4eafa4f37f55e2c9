"""`%%ascendc`: a cell as a kernel, and its messages at the lines that a notebook shows."""

from __future__ import annotations

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from workbench.errors import BuildError, ConfigError, InputError, TwinFault
from workbench.magic import AscendcMagics, CellKernel, load_ipython_extension

MAGIC = "%%ascendc scale -D N=64"
SCALE = """#include "kernel_operator.h"
extern "C" __global__ __aicore__ void scale(GM_ADDR x, GM_ADDR y) {
    using namespace AscendC;
    TPipe pipe;
    TBuf<TPosition::VECCALC> buf;
    pipe.InitBuffer(buf, N * sizeof(float));
    LocalTensor<float> ub = buf.Get<float>();
    GlobalTensor<float> from, to;
    from.SetGlobalBuffer((__gm__ float *)x, N);
    to.SetGlobalBuffer((__gm__ float *)y, N);
    DataCopy(ub, from, N);
    SetFlag<HardEvent::MTE2_V>(0);
    WaitFlag<HardEvent::MTE2_V>(0);
    Muls(ub, ub, 2.0f, N);
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(to, ub, N);
}
"""
WAIT = "    SetFlag<HardEvent::MTE2_V>(0);\n    WaitFlag<HardEvent::MTE2_V>(0);\n"


@pytest.fixture(scope="module")
def _shell(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        config = Config({"HistoryManager": {"enabled": False}})
        config.TerminalInteractiveShell.colors = config.InteractiveShell.colors = "nocolor"
        InteractiveShell.clear_instance()
        shell = InteractiveShell.instance(config=config)
        load_ipython_extension(shell)
        yield shell
        InteractiveShell.clear_instance()


@pytest.fixture
def run(_shell, capsys):
    """Run a cell as a notebook does: (its error or None, what it showed)."""
    _shell.user_ns.pop("scale", None)

    def cell(text: str):
        capsys.readouterr()
        found = _shell.run_cell(text, store_history=True)
        out, err = capsys.readouterr()
        return found.error_before_exec or found.error_in_exec, out + err

    cell.names = _shell.user_ns
    return cell


def line_of(cell: str, marked: str) -> int:
    """The number that a notebook shows beside the only line with `marked` in it."""
    (found,) = (i for i, line in enumerate(cell.split("\n"), start=1) if marked in line)
    return found


def test_a_cell_becomes_a_kernel_under_its_name(run):
    error, shown = run(f"{MAGIC}\n{SCALE}")
    assert error is None
    assert 'scale.launch("scale", blocks, x, y)' in shown and "dav-2201" in shown
    kernel = run.names["scale"]
    assert isinstance(kernel, CellKernel) and kernel.constants == {"N": 64}
    x, y = torch.arange(64.0), torch.zeros(64)
    kernel.launch("scale", 1, x, y)
    assert torch.equal(y, 2 * x)


def test_a_cell_that_changes_is_built_again_and_the_old_kernel_stays(run):
    run(f"{MAGIC}\n{SCALE}")
    old, key = run.names["scale"], run.names["scale"].info.key
    run(f"{MAGIC}\n{SCALE}")
    assert run.names["scale"].info.cached and run.names["scale"].info.key == key
    run(f"{MAGIC}\n{SCALE.replace('2.0f', '3.0f')}")
    new = run.names["scale"]
    assert new.info.key != key
    x, two, three, wide = torch.ones(64), torch.zeros(64), torch.zeros(64), torch.zeros(128)
    old.launch("scale", 1, x, two)
    new.launch("scale", 1, x, three)
    assert two.unique().tolist() == [2.0] and three.unique().tolist() == [3.0]
    # A constant of the cell can be changed, in the text that the old kernel was built from.
    other = old.rebuild(n=128)
    other.launch("scale", 1, torch.ones(128), wide)
    assert isinstance(other, CellKernel) and wide.unique().tolist() == [2.0]


# A line that is put in, and what is said about it: at the first, a middle and the last line.
@pytest.mark.parametrize(
    ("cell", "word"),
    [
        (f"{MAGIC}\nint wrong = nowhere;\n{SCALE}", "nowhere"),
        (f"{MAGIC}\n{SCALE.replace('TPipe pipe;', 'TPip pipe;')}", "TPip "),
        (f"{MAGIC}\n{SCALE}int wrong = nowhere;", "nowhere"),
        # IPython takes the empty lines above the magic away; a notebook numbers them.
        (f"\n\n\n{MAGIC}\n\n{SCALE}int wrong = nowhere;", "nowhere"),
    ],
    ids=["first", "middle", "last", "empty lines above"],
)
def test_an_error_is_at_the_line_that_the_notebook_shows(run, cell, word):
    error, shown = run(cell)
    at = line_of(cell, word)
    assert isinstance(error, BuildError) and error.line == at
    assert f"scale, line {at} of the cell: " in shown
    assert f"{at} | {cell.split(chr(10))[at - 1]}" in shown
    # Our own lines are of no use to who wrote the cell.
    assert "Traceback" not in shown and "magic.py" not in shown and "scale" not in run.names


def test_the_check_for_tracebacks_can_fail(run):
    error, shown = run("1 / 0")
    assert isinstance(error, ZeroDivisionError) and "Traceback" in shown


def test_a_failed_cell_leaves_the_kernel_that_was_there(run):
    run(f"{MAGIC}\n{SCALE}")
    before = run.names["scale"]
    _, shown = run(f"{MAGIC}\n{SCALE}int wrong = nowhere;")
    assert run.names["scale"] is before
    assert "scale is still the kernel that was built before" in shown


def test_a_name_that_meant_something_else_is_said_to_be_taken(run):
    run("scale = 0.5")
    run(f"{MAGIC}\n{SCALE}int wrong = nowhere;")
    assert run.names["scale"] == 0.5  # a cell that does not build takes nothing away
    for name, was in (("scale", "float"), ("sum", "builtin_function_or_method")):
        error, shown = run(f"{MAGIC.replace('scale', name)}\n{SCALE}")
        assert error is None and f"{name} was a {was} until now" in shown
        _, again = run(f"{MAGIC.replace('scale', name)}\n{SCALE}")
        assert "until now" not in again  # a kernel built anew is what the cell is for
    run("del sum")


def test_a_warning_is_at_its_line_and_the_kernel_is_built(run):
    cell = f"{MAGIC}\n{SCALE.replace('TPipe pipe;', 'TPipe pipe;' + chr(10) + 'int unused;')}"
    for _ in range(2):  # the second time from the cache
        error, shown = run(cell)
        assert error is None and "scale" in run.names
        assert f"scale, line {line_of(cell, 'unused')} of the cell: warning: " in shown
    _, plain = run(f"{MAGIC}\n{SCALE}")
    assert "warning" not in plain


def test_a_fault_is_at_the_line_of_the_cell(run):
    cell = f"\n{MAGIC} --check race\n{SCALE.replace(WAIT, '')}"
    run(cell)
    launch = "x = y = None\nimport torch\nx, y = torch.ones(64), torch.zeros(64)\n"
    error, shown = run(f"{launch}scale.launch('scale', 1, x, y)")
    at = line_of(cell, "Muls")
    assert isinstance(error, TwinFault) and error.kind == "race" and error.line == at
    assert f"scale, line {at} of the cell: Muls" in shown and f"{at} |     Muls(" in shown
    # The line of Python that launched is there, ours are not.
    assert "----> 4 scale.launch" in shown and "magic.py" not in shown
    # The checks are the cell's default, and can be switched off.
    error, _ = run(f"{launch}scale.launch('scale', 1, x, y, check=False)")
    assert error is None


def test_the_sound_kernel_has_no_fault(run):
    """The control: the check finds the flag that is missing above, not something else."""
    run(f"{MAGIC} --check all\n{SCALE}")
    y = torch.zeros(64)
    run.names["scale"].launch("scale", 1, torch.ones(64), y)
    assert run.names["scale"].last.checks == ["mem", "init", "race", "sync"]
    assert y.unique().tolist() == [2.0]


def test_results_of_a_function_name_the_kernel(run):
    from workbench.evidence import evidence

    run(f"{MAGIC}\n{SCALE}")

    def doubled(x):
        return x

    assert evidence(doubled).backend is None
    found = evidence(run.names["scale"].function(doubled))
    assert (found.backend, found.arch, found.config) == ("twin", "dav-2201", {"N": "64"})


def test_an_edited_cell_is_a_kernel_of_its_own(run):
    cell = f"{MAGIC} --check race\n{SCALE}"
    run(cell)
    kernel = run.names["scale"].rebuild(n=128)
    other, x, y = kernel.edited("2.0f", "3.0f"), torch.ones(128), torch.zeros(128)
    other.launch("scale", 1, x, y)
    assert y.unique().tolist() == [3.0] and other.check == ["race"]
    careless = other.edited(
        "    SetFlag<HardEvent::MTE2_V>(0);\n    WaitFlag<HardEvent::MTE2_V>", "\n//"
    )
    with pytest.raises(TwinFault) as fault:
        careless.launch("scale", 1, x, y)
    assert fault.value.line == line_of(cell, "Muls")
    with pytest.raises(BuildError) as error:
        kernel.edited("Muls(", "Mulls(")
    assert error.value.line == line_of(cell, "Muls")
    for wrong in ("no such text", "GlobalTensor<float> from, to;\n" * 2, "HardEvent"):
        with pytest.raises(InputError, match=r"stands \d+ times in the cell of scale"):
            kernel.edited(wrong, "")


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ("", InputError, "%%ascendc: the following arguments are required: name"),
        ("3a", InputError, "'3a' cannot be the name of one"),
        ("class", InputError, "'class' cannot be the name of one"),
        ("n" * 300, InputError, "cannot be the name of one"),  # no file could have it
        ("scale --arhc dav-2201", InputError, "unrecognized arguments: --arhc"),
        ("scale --arch dav-1", ConfigError, "unknown architecture 'dav-1'; known ones are"),
        ("scale --check speed", InputError, "check 'speed': there are mem, init, race, sync"),
        ("scale -D N", InputError, "-D N: wanted NAME=VALUE"),
        ("scale -D 2N=1", InputError, "-D 2N=1: wanted NAME=VALUE"),
        ("scale -D N=1 -D N=2", InputError, "-D N is given twice"),
        ("scale -D 'N=1", InputError, "No closing quotation"),
        ("scale -I no/such", InputError, "there is no such folder"),
        ("scale --backend gpu", ConfigError, "unknown backend 'gpu'"),
    ],
)
def test_what_is_wrong_with_the_options_is_said(run, line, kind, words):
    error, shown = run(f"%%ascendc {line}\n{SCALE}")
    assert isinstance(error, kind) and words in shown, shown
    assert "Traceback" not in shown and "scale" not in run.names


@pytest.mark.parametrize("body", ["", "\n", "   \n\n", "int x;\n"])
def test_a_cell_without_a_kernel_is_refused(run, body):
    error, shown = run(f"{MAGIC}\n{body}")
    assert error is not None and "Traceback" not in shown and "scale" not in run.names
    assert "empty" in shown or "has no kernel" in shown


def test_macros_may_be_text_and_headers_lie_beside_the_notebook(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "twice.h").write_text("#define TWICE 2.0f\n")
    text = SCALE.replace("2.0f", "TWICE").replace("\nextern", '\n#include "twice.h"\nextern', 1)
    error, shown = run(f"{MAGIC} -D 'NOTE=\"a b\"'\n{text}const char *note = NOTE;\n")
    assert error is None, shown
    y = torch.zeros(64)
    run.names["scale"].launch("scale", 1, torch.ones(64), y)
    assert y.unique().tolist() == [2.0]
    assert run.names["scale"].info.defines == {"N": "64", "NOTE": '"a b"'}


def test_unloading_takes_the_magic_away(_shell):
    from workbench.magic import unload_ipython_extension

    assert "ascendc" in _shell.magics_manager.magics["cell"]
    unload_ipython_extension(_shell)
    assert "ascendc" not in _shell.magics_manager.magics["cell"]
    load_ipython_extension(_shell)
    assert isinstance(_shell.magics_manager.registry["AscendcMagics"], AscendcMagics)
