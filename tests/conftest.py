"""What every test may rely on."""

from __future__ import annotations

import json
import signal

import pytest
from hypothesis import HealthCheck, settings

# A test that builds kernels is no failure for being slow on a loaded machine.
settings.register_profile("workbench", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("workbench")

# A background job of a shell ignores Ctrl-C, and so would every process that a test starts: the
# tests of interrupts would then wait for nothing.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def no_constant(name: str):
    raise AssertionError(f"bare {name} in JSON")


@pytest.fixture
def command_line(capfd):
    """`command_line("check")` calls that command in this process: exit code, stdout (with --json
    the one object that it must be), stderr. No name: the arguments start with one."""
    from workbench import cli

    def of(*name):
        def call(*args):
            capfd.readouterr()
            code = cli.main([*name, *map(str, args)])
            out, err = capfd.readouterr()
            assert "Traceback" not in err
            if "--json" in args:
                assert out.count("\n") == 1, out
                out = json.loads(out, parse_constant=no_constant)
            return code, out, err

        return call

    return of
