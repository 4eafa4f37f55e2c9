"""What every test may rely on."""

from __future__ import annotations

import signal

# A background job of a shell ignores Ctrl-C, and so would every process that a test starts: the
# tests of interrupts would then wait for nothing.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
