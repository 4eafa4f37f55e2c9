"""A worker process: takes functions with arguments from one pipe, answers on another.

`workbench.sweep.workers` starts `main` in a new process with the numbers of two file descriptors.
It ends when the other end of the first does, however that process ended.
"""

from __future__ import annotations

import os
import pickle
import queue
import struct
import threading
from typing import Any

_LENGTH = struct.Struct("<Q")


def send(fd: int, value: Any) -> None:
    """Write a value with its length before it."""
    data = pickle.dumps(value)
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(fd, view) :]


def receive(fd: int) -> Any:
    """The next value.

    Raises:
        EOFError: The other end is gone, in the middle of a value or before it.
    """
    return pickle.loads(_exactly(fd, _LENGTH.unpack(_exactly(fd, _LENGTH.size))[0]))


def _exactly(fd: int, count: int) -> bytes:
    parts = []
    while count:
        part = os.read(fd, min(count, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def main(source: int, answers: int) -> None:
    """Work until the other process is gone."""
    os.dup2(2, 1)  # what a kernel prints is no answer
    jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def listen() -> None:
        # A thread of its own: it sees that nobody waits any more while a kernel still runs.
        try:
            while True:
                jobs.put(receive(source))
        except EOFError:
            os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        fn, args, kwargs = jobs.get()
        try:
            answer = (True, fn(*args, **kwargs))
        except BaseException as error:
            answer = (False, error)
        try:
            send(answers, answer)
        except BrokenPipeError:
            os._exit(0)
        except Exception as error:  # what cannot be pickled
            text = f"{type(answer[1]).__name__}: {answer[1]} (not to be sent: {error})"
            send(answers, (False, RuntimeError(text)))
